"""DecodeGraphs: decode steps captured as CUDA graphs, one for each size of a step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from loadgen_target.cache import SlotCache
from loadgen_target.model import Decoder

_SHORTEST = 256
_DRY_RUNS = 3  # libraries set themselves up in the first calls, which a capture does not allow


class DecodeGraphs:
    """Replays one launch for a whole step, where some hundred kernels would be launched one by one.

    A step is rounded up to the next size in rows and in positions read. Rows that fill it up write position 0 of
    free slots of their batch, so a step must not hold a slot whose prompt is being read.
    """

    def __init__(
        self,
        decoder: Decoder,
        cache: SlotCache,
        *,
        row_sizes: Sequence[int],
        base_slots: Sequence[int],
        max_len: int,
    ) -> None:
        self._decoder = decoder
        self._cache = cache
        self.row_sizes = tuple(sorted(row_sizes))
        self.lengths = lengths_up_to(max_len)
        self._pool = torch.cuda.graph_pool_handle()
        self._inputs = {
            rows: torch.zeros(2, rows, dtype=torch.long, device=decoder.device) for rows in self.row_sizes
        }
        # The largest first, so that the smaller ones find their memory in the pool.
        sizes = product(base_slots, self.row_sizes[::-1], self.lengths[::-1])
        self._graphs = {size: self._captured(*size) for size in sizes}

    def decode(self, tokens: Sequence[int], positions: Sequence[int], base_slot: int) -> Tensor | None:
        """Logits of the rows, `[rows, vocab]`, valid until the next step; None for a step above all sizes."""
        num_rows = len(tokens)
        size = next((rows for rows in self.row_sizes if rows >= num_rows), None)
        if size is None:
            return None
        length = next(length for length in self.lengths if length > max(positions))
        padding = [0] * (size - num_rows)
        inputs = torch.tensor([[*tokens, *padding], [*positions, *padding]], dtype=torch.long)
        self._inputs[size].copy_(inputs, non_blocking=True)
        graph, logits = self._graphs[base_slot, size, length]
        graph.replay()
        return logits[:num_rows]

    def _captured(self, base_slot: int, rows: int, length: int) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        tokens, where = self._inputs[rows]

        def step() -> Tensor:
            return self._decoder.decode_step(tokens, where, length, base_slot, self._cache)

        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_DRY_RUNS):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            logits = step()
        return graph, logits


def row_sizes_of(batch_rows: int, asked: Sequence[int] | None) -> tuple[int, ...]:
    """Sizes in rows: those asked for that a batch can have, else powers of two and the full batch."""
    sizes = asked or [*(2**k for k in range(batch_rows.bit_length())), batch_rows]
    return tuple(sorted({size for size in sizes if size <= batch_rows}))


def lengths_up_to(max_len: int) -> tuple[int, ...]:
    """Sizes in positions: 256 and its doubles, up to `max_len` itself."""
    lengths = [_SHORTEST]
    while lengths[-1] < max_len:
        lengths.append(lengths[-1] * 2)
    return (*lengths[:-1], max_len)
