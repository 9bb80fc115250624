"""ModelRunner: the model behind the engine."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from loadgen_target.cache import SlotCache
from loadgen_target.config import EOS, VOCAB_SIZE, EngineConfig
from loadgen_target.linear import can_pack
from loadgen_target.model import Decoder
from loadgen_target.rows import Row

# Decode steps of 1 to 3 rows are padded to this many where the packed kernels use AVX512: they are faster at 4
# rows than at 1 there, and slower with AVX2.
_PACKED_ROWS = 4
_PRINTABLE = range(0x20, 0x7F)


class ModelRunner:
    """The decoder with its cache; greedy or sampled, printable ASCII out, so that a token is a character."""

    def __init__(self, config: EngineConfig) -> None:
        torch.set_num_threads(config.num_threads)
        self.device = torch.device(config.device)
        on_cpu = self.device.type == "cpu"
        self.dtype = torch.float32 if on_cpu else torch.bfloat16
        self.packs = on_cpu and config.uses_prepack and can_pack()
        self._delay_s = config.step_delay_s
        self._min_rows = (
            _PACKED_ROWS if self.packs and "AVX512" in torch.backends.cpu.get_cpu_capability() else 1
        )
        self._decoder = Decoder(
            config.model,
            max_len=config.max_model_len,
            seed=config.seed,
            packs=self.packs,
            device=self.device,
            dtype=self.dtype,
        )
        # Padding goes into the free slots of the batch's own range, or behind the only batch.
        self._can_pad = config.policy.batch_rows >= self._min_rows or config.policy.max_inflight_batches == 1
        num_slots = config.policy.num_slots + self._min_rows - 1
        self.cache = SlotCache(config.model, num_slots, config.max_model_len, self.device, self.dtype)
        allowed = torch.full((VOCAB_SIZE,), float("-inf"))
        allowed[_PRINTABLE.start : _PRINTABLE.stop] = 0.0
        self._allowed = allowed.to(self.device)
        self._end_allowed = allowed.clone().index_fill_(0, torch.tensor([EOS]), 0.0).to(self.device)

    def warm_up(self, num_rows: int) -> None:
        """Run each batch size once, so that no request pays for first calls."""
        with torch.inference_mode():
            self._decoder.prefill([[1] * 8], [0], self.cache)
            for rows in range(self._min_rows, max(num_rows, self._min_rows) + 1):
                self._decoder.decode([1] * rows, [8] * rows, 0, self.cache)

    @torch.inference_mode()
    def prefill(self, rows: Sequence[Row]) -> list[int]:
        logits = self._decoder.prefill([row.prompt for row in rows], [row.slot for row in rows], self.cache)
        return self._choose(logits, rows)

    @torch.inference_mode()
    def decode(self, rows: Sequence[Row]) -> list[int]:
        tokens = [row.output[-1] for row in rows]
        positions = [row.position for row in rows]
        base_slot = rows[0].slot
        padding = max(0, self._min_rows - len(rows)) if self._can_pad else 0
        logits = self._decoder.decode(
            tokens + [0] * padding, positions + [0] * padding, base_slot, self.cache
        )
        return self._choose(logits, rows)

    @torch.inference_mode()
    def move(self, source: int, target: int, length: int) -> None:
        self.cache.move(source, target, length)

    def _choose(self, logits: Tensor, rows: Sequence[Row]) -> list[int]:
        if self._delay_s:
            time.sleep(self._delay_s)
        logits = logits[: len(rows)]
        if any(row.may_end for row in rows):
            logits = logits + torch.stack(
                [self._end_allowed if row.may_end else self._allowed for row in rows]
            )
        else:
            logits = logits + self._allowed
        chosen: list[int] = logits.argmax(dim=-1).tolist()
        for index, row in enumerate(rows):
            if row.work.sampling.temperature > 0:
                chosen[index] = _sampled(logits[index], row)
        return chosen


def _sampled(logits: Tensor, row: Row) -> int:
    """Drawn from the request's own seed and the token's index: the batch around it changes nothing."""
    sampling = row.work.sampling
    generator = torch.Generator().manual_seed((sampling.seed * 1_000_003 + len(row.output)) % 2**63)
    shares = torch.softmax(logits.float().cpu() / sampling.temperature, dim=-1)
    return int(torch.multinomial(shares, 1, generator=generator))
