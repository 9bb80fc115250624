"""Settings of the server: frozen, valid from birth, and free of torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

BOS, EOS, PAD = 256, 257, 258
VOCAB_SIZE = 259

PolicyName = Literal["serial", "fixed-window", "dynamic", "continuous", "null"]
Release = Literal["batch", "request"]


class ConfigError(Exception):
    """A setting that cannot be used: one line of fact, one line of advice."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a decoder: pre-norm, rotary positions, grouped-query attention, SwiGLU.

    dim = heads x head size; heads is a multiple of kv_heads. The vocabulary is 256 bytes and BOS, EOS, PAD.
    """

    num_layers: int
    dim: int
    num_heads: int
    num_kv_heads: int
    ffn_dim: int
    max_model_len: int

    @property
    def head_dim(self) -> int:
        return self.dim // self.num_heads


PRESETS: dict[str, ModelConfig] = {
    "tiny": ModelConfig(num_layers=2, dim=64, num_heads=4, num_kv_heads=2, ffn_dim=128, max_model_len=512),
    "cpu-25m": ModelConfig(
        num_layers=4, dim=768, num_heads=12, num_kv_heads=4, ffn_dim=2048, max_model_len=1024
    ),
    "gpu-1b": ModelConfig(
        num_layers=16, dim=2048, num_heads=32, num_kv_heads=8, ffn_dim=8192, max_model_len=4096
    ),
    "gpu-7b": ModelConfig(
        num_layers=32, dim=4096, num_heads=32, num_kv_heads=8, ffn_dim=14336, max_model_len=4096
    ),
}


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """When waiting requests become a batch.

    max_batch_size: rows of one batch; `serial` always runs 1.
    max_wait_ns: the longest a request waits for `dynamic` to fill its batch.
    window_ns: distance of the ticks of `fixed-window`.
    max_inflight_batches: batches that one engine steps in turn (static policies).
    max_num_batched_tokens: prompt and decode tokens of one iteration of `continuous`.
    splits_prompts: `continuous` reads prompts in parts that fit these tokens, in one pass with the rows that
    decode (chunked prefill). Without it a prompt is read whole, in a pass of its own before the decode step.
    release: whether a finished request of a static batch answers and leaves at once, or with its batch.
    """

    name: PolicyName = "continuous"
    max_batch_size: int = 8
    max_wait_ns: int = 150_000_000
    window_ns: int = 100_000_000
    max_inflight_batches: int = 1
    max_num_batched_tokens: int = 512
    release: Release = "batch"
    splits_prompts: bool = False

    def __post_init__(self) -> None:
        _at_least("--max-batch-size", self.max_batch_size, 1)
        _at_least("--max-wait-ms", self.max_wait_ns, 0)
        _at_least("--max-num-batched-tokens", self.max_num_batched_tokens, 1)
        if not self.window_ns > 0:
            raise ConfigError("--window-ms is not above 0", hint="give the distance of ticks, such as 100")
        if not 1 <= self.max_inflight_batches <= 4:
            raise ConfigError(
                f"--max-inflight-batches is {self.max_inflight_batches}", hint="give a number from 1 to 4"
            )
        if self.splits_prompts and self.name != "continuous":
            raise ConfigError(
                f"--enable-chunked-prefill has no meaning for --policy {self.name}",
                hint="only continuous mixes parts of prompts with rows that decode",
            )
        if self.splits_prompts and self.max_num_batched_tokens < self.max_batch_size:
            raise ConfigError(
                f"--max-num-batched-tokens {self.max_num_batched_tokens} is below --max-batch-size "
                f"{self.max_batch_size}, so the rows of one step do not fit",
                hint="give as many tokens as rows, or more",
            )
        if self.max_inflight_batches > 1 and self.name not in ("fixed-window", "dynamic"):
            raise ConfigError(
                f"--max-inflight-batches {self.max_inflight_batches} has no meaning for --policy {self.name}",
                hint="only fixed-window and dynamic run several batches in turn",
            )

    @property
    def is_static(self) -> bool:
        """Whether a batch keeps its members from start to end."""
        return self.name in ("serial", "fixed-window", "dynamic")

    @property
    def batch_rows(self) -> int:
        """Rows that one batch may have."""
        return 1 if self.name == "serial" else self.max_batch_size

    @property
    def num_slots(self) -> int:
        """Requests that can be in execution at once."""
        return self.batch_rows * self.max_inflight_batches


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What the engine process needs: the model, the policy, the device.

    weights: a safetensors file; None for weights from the seed.
    dtype: auto is float32 on a CPU, bfloat16 on a GPU.
    enforces_eager, graph_sizes, profile_steps: CUDA alone; launch kernel by kernel, rows of captured steps (None:
    powers of two), and passes to profile at the start for each size.
    tokenizer: a tokenizers file whose work each text costs, beside its bytes; see Tokenizer.
    step_delay_s: real sleep added to each step, to plant a regression.
    preprocess_s: CPU time added to the preprocessing of each request, to stand for a heavier tokenizer.
    is_inline: preprocessing happens on the engine's own thread, between steps.
    """

    policy: PolicyConfig
    preset: str = "cpu-25m"
    max_model_len: int = 1024
    seed: int = 0
    num_threads: int = 1
    uses_prepack: bool = True
    device: str = "cpu"
    weights: Path | None = None
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    enforces_eager: bool = False
    graph_sizes: tuple[int, ...] | None = None
    profile_steps: int = 8
    tokenizer: Path | None = None
    step_delay_s: float = 0.0
    preprocess_s: float = 0.0
    is_inline: bool = False

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise ConfigError(f"--preset is {self.preset!r}", hint=f"one of {', '.join(PRESETS)}")
        for option, path in (("--weights", self.weights), ("--tokenizer", self.tokenizer)):
            if path is not None and not path.is_file():
                raise ConfigError(
                    f"{option} {path}: there is no such file", hint="give a file on this machine"
                )
        _at_least("--max-model-len", self.max_model_len, 2)
        _at_least("--num-threads", self.num_threads, 1)
        _at_least("--step-delay-ms", self.step_delay_s, 0)
        _at_least("--preprocess-ms", self.preprocess_s, 0)

    @property
    def model(self) -> ModelConfig:
        return PRESETS[self.preset]


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What the HTTP process needs beside the engine's settings.

    max_queue_size: waiting requests, those being preprocessed included, above which a new one is refused.
    restarts_engine: start the engine again when its process dies, rather than end.
    timeout_s: from receipt; None for no limit. timeout_scope: the whole request, or its wait only.
    """

    engine: EngineConfig
    host: str = "127.0.0.1"
    port: int = 8000
    max_queue_size: int = 64
    overload_status: int = 429
    timeout_s: float | None = 3.0
    timeout_scope: Literal["request", "queue"] = "request"
    shutdown_timeout_s: float = 30.0
    preprocess_workers: int = 1
    restarts_engine: bool = False
    served_model_name: str = "cpu-25m"
    request_log: Path | None = None
    step_log: Path | None = None
    ready_file: Path | None = None

    def __post_init__(self) -> None:
        _at_least("--max-queue-size", self.max_queue_size, 1)
        _at_least("--preprocess-workers", self.preprocess_workers, 1)
        _at_least("--shutdown-timeout", self.shutdown_timeout_s, 0)
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"--port is {self.port}", hint="give 0 (a free port) to 65535")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise ConfigError("--timeout is not above 0", hint="give a duration such as 3s, or none")
        for option, path in (
            ("--request-log", self.request_log),
            ("--step-log", self.step_log),
            ("--ready-file", self.ready_file),
        ):
            if path is not None and not path.absolute().parent.is_dir():
                raise ConfigError(f"{option} {path}: the folder does not exist", hint="make it first")
            if path is not None and path.is_dir():
                raise ConfigError(f"{option} {path} is a folder", hint="give the name of a file in it")
            if path is not None and not os.access(path.absolute().parent, os.W_OK):
                raise ConfigError(
                    f"{option} {path}: the folder cannot be written to", hint="give another one"
                )
        if self.request_log is not None and self.request_log == self.step_log:
            raise ConfigError("--request-log and --step-log name the same file", hint="give two files")

    @property
    def told(self) -> dict[str, Any]:
        """The settings that decide how requests are served, by flag, for a report to keep."""
        engine, policy = self.engine, self.engine.policy
        return {
            "max_batch_size": policy.batch_rows,
            "max_wait_ms": policy.max_wait_ns / 1e6,
            "window_ms": policy.window_ns / 1e6,
            "max_inflight_batches": policy.max_inflight_batches,
            "max_num_batched_tokens": policy.max_num_batched_tokens,
            "chunked_prefill": policy.splits_prompts,
            "static_release": policy.release,
            "pipeline": "inline" if engine.is_inline else "staged",
            "preprocess_workers": self.preprocess_workers,
            "preprocess_ms": engine.preprocess_s * 1e3,
            "max_queue_size": self.max_queue_size,
            "overload_status": self.overload_status,
            "timeout_s": self.timeout_s,
            "timeout_scope": self.timeout_scope,
            "max_model_len": engine.max_model_len,
            "seed": engine.seed,
            "step_delay_ms": engine.step_delay_s * 1e3,
            "tokenizer": None if engine.tokenizer is None else engine.tokenizer.name,
            "restart_engine": self.restarts_engine,
        }


def _at_least(option: str, value: float, least: float) -> None:
    if value < least:
        raise ConfigError(f"{option} is {value}", hint=f"give {least} or more")
