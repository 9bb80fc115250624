"""ModelRunner: the model behind the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from loadgen_target.cache import SlotCache
from loadgen_target.config import EOS, VOCAB_SIZE, EngineConfig
from loadgen_target.device import CudaMeter, read_bandwidth
from loadgen_target.graphs import DecodeGraphs, row_sizes_of
from loadgen_target.linear import can_pack
from loadgen_target.model import Decoder, Prompt
from loadgen_target.rows import Chunk, Row
from loadgen_target.weights import FileWeights, SeededWeights

# Decode steps of 1 to 3 rows are padded to this many where the packed kernels use AVX512: they are faster at 4
# rows than at 1 there, and slower with AVX2.
_PACKED_ROWS = 4
_PRINTABLE = range(0x20, 0x7F)


class ModelRunner:
    """The decoder with its cache; greedy or sampled, printable ASCII out, so that a token is a character.

    meter: times of each pass on the device; None on a CPU, where the host's clock tells them.
    """

    def __init__(self, config: EngineConfig) -> None:
        torch.set_num_threads(config.num_threads)
        self._config = config
        self.device = torch.device(config.device)
        on_cpu = self.device.type == "cpu"
        self.dtype = _dtype(config.dtype, on_cpu=on_cpu)
        self.packs = on_cpu and self.dtype == torch.float32 and config.uses_prepack and can_pack()
        self._min_rows = (
            _PACKED_ROWS if self.packs and "AVX512" in torch.backends.cpu.get_cpu_capability() else 1
        )
        self._decoder = Decoder(
            config.model,
            SeededWeights(config.seed) if config.weights is None else FileWeights(config.weights),
            max_len=config.max_model_len,
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
        self.meter = None if on_cpu else CudaMeter()
        self._graphs: DecodeGraphs | None = None

    @property
    def num_graphs(self) -> int:
        return 0 if self._graphs is None else len(self._graphs.row_sizes) * len(self._graphs.lengths)

    def facts(self) -> dict[str, str | int | float | bool | None]:
        """What the model runs on; weight bytes over bandwidth is the least time that a step can take."""
        bandwidth, reason = read_bandwidth(self.device, self._decoder.num_weight_bytes)
        return {
            "device": str(self.device),
            "device_name": torch.cuda.get_device_name(self.device) if self.meter else None,
            "dtype": str(self.dtype).removeprefix("torch."),
            "prepacked": self.packs,
            "cuda_graphs": self.num_graphs,
            "torch": torch.__version__,
            "num_threads": self._config.num_threads,
            "weights": "seed" if self._config.weights is None else self._config.weights.name,
            "weight_bytes": self._decoder.num_weight_bytes,
            "kv_token_bytes": self.cache.token_bytes,
            "read_bandwidth_bytes_per_s": None if bandwidth is None else round(bandwidth),
            "read_bandwidth_reason": reason,
            "kernel_time": "cpu time" if self.meter is None else "estimated by profile",
            "kernel_time_reason": None if self.meter is None else self.meter.reason,
        }

    def warm_up(self, num_rows: int) -> None:
        """Run each batch size once, so that no request pays for first calls; capture graphs where there are any."""
        with torch.inference_mode():
            self._decoder.prefill([Prompt([1] * 8, 0, 0)], self.cache)
            for rows in range(self._min_rows, max(num_rows, self._min_rows) + 1):
                self._decoder.decode([1] * rows, [8] * rows, 0, self.cache)
            if self.meter is not None:
                self._prepare_cuda(self.meter)

    @torch.inference_mode()
    def prefill(self, rows: Sequence[Row]) -> list[int]:
        prompts = [Prompt(row.prompt, 0, row.slot) for row in rows]
        return self._measured("prefill", rows, lambda: self._decoder.prefill(prompts, self.cache))

    @torch.inference_mode()
    def decode(self, rows: Sequence[Row]) -> list[int]:
        tokens = [row.output[-1] for row in rows]
        positions = [row.position for row in rows]
        base_slot = rows[0].slot
        return self._measured(
            _kind_of_decode(len(rows)), rows, lambda: self._decode(tokens, positions, base_slot)
        )

    @torch.inference_mode()
    def mixed(self, rows: Sequence[Row], chunks: Sequence[Chunk]) -> list[int]:
        prompts = [
            Prompt(chunk.row.prompt[chunk.start : chunk.start + chunk.size], chunk.start, chunk.row.slot)
            for chunk in chunks
        ]
        tokens, positions = [row.output[-1] for row in rows], [row.position for row in rows]
        base_slot = rows[0].slot if rows else 0
        return self._measured(
            "mixed",
            [*rows, *(chunk.row for chunk in chunks)],
            lambda: self._decoder.mixed(tokens, positions, base_slot, prompts, self.cache),
        )

    @torch.inference_mode()
    def move(self, source: int, target: int, length: int) -> None:
        self.cache.move(source, target, length)

    def _decode(self, tokens: list[int], positions: list[int], base_slot: int) -> Tensor:
        if self._graphs is not None:
            logits = self._graphs.decode(tokens, positions, base_slot)
            if logits is not None:
                return logits
        padding = [0] * (max(0, self._min_rows - len(tokens)) if self._can_pad else 0)
        return self._decoder.decode(tokens + padding, positions + padding, base_slot, self.cache)

    def _measured(self, kind: str, rows: Sequence[Row], one_pass: Callable[[], Tensor]) -> list[int]:
        if self._config.step_delay_s:
            time.sleep(self._config.step_delay_s)
        if self.meter is None:
            return self._choose(one_pass(), rows)
        self.meter.begin(kind)
        logits = one_pass()
        self.meter.end()
        return self._choose(logits, rows)

    def _prepare_cuda(self, meter: CudaMeter) -> None:
        config, policy = self._config, self._config.policy
        if not config.enforces_eager:
            self._graphs = DecodeGraphs(
                self._decoder,
                self.cache,
                row_sizes=row_sizes_of(policy.batch_rows, config.graph_sizes),
                base_slots=[k * policy.batch_rows for k in range(policy.max_inflight_batches)],
                max_len=config.max_model_len,
            )
        if not config.profile_steps:
            return

        def measured(kind: str, one_pass: Callable[[], Tensor]) -> Callable[[], None]:
            def run() -> None:
                meter.begin(kind)
                one_pass()
                meter.end()

            return run

        for size in row_sizes_of(policy.batch_rows, None):
            kind = _kind_of_decode(size)
            run = measured(kind, lambda size=size: self._decode([1] * size, [64] * size, 0))  # type: ignore[misc]
            meter.calibrate(kind, run, config.profile_steps)
        prompt = Prompt([1] * 64, 0, 0)
        for kind in ("prefill", "mixed"):
            run = measured(kind, lambda: self._decoder.prefill([prompt], self.cache))
            meter.calibrate(kind, run, config.profile_steps)

    def _choose(self, logits: Tensor, rows: Sequence[Row]) -> list[int]:
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


def _dtype(name: str, *, on_cpu: bool) -> torch.dtype:
    if name == "auto":
        return torch.float32 if on_cpu else torch.bfloat16
    return torch.float32 if name == "float32" else torch.bfloat16


def _kind_of_decode(num_rows: int) -> str:
    """The name under which the kernel share of a decode step is kept: by the next power of two."""
    return f"decode {1 << (num_rows - 1).bit_length()}"


def _sampled(logits: Tensor, row: Row) -> int:
    """Drawn from the request's own seed and the token's index: the batch around it changes nothing."""
    sampling = row.work.sampling
    generator = torch.Generator().manual_seed((sampling.seed * 1_000_003 + len(row.output)) % 2**63)
    shares = torch.softmax(logits.float().cpu() / sampling.temperature, dim=-1)
    return int(torch.multinomial(shares, 1, generator=generator))
