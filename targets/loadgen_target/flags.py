"""What the command line means: flags to a ServerConfig."""

from __future__ import annotations

import os
from collections.abc import Sequence

from loadgen_target.config import PRESETS, ConfigError, EngineConfig, PolicyConfig, ServerConfig
from loadgen_target.parser import make_parser

_NULL_BATCH = 1024
_NULL_TOKENS = 1_000_000


def parse_flags(arguments: Sequence[str]) -> ServerConfig:
    """The settings that `arguments` give. Raises ConfigError; SystemExit(0) after --help."""
    flags = make_parser().parse_args([_with_hyphens(argument) for argument in arguments])
    is_null = flags.policy == "null"
    policy = PolicyConfig(
        name=flags.policy,
        max_batch_size=flags.max_batch_size or (_NULL_BATCH if is_null else 8),
        max_wait_ns=round(flags.max_wait_ms * 1e6),
        window_ns=round(flags.window_ms * 1e6),
        max_inflight_batches=flags.max_inflight_batches,
        max_num_batched_tokens=_NULL_TOKENS if is_null else flags.max_num_batched_tokens,
        splits_prompts=flags.enable_chunked_prefill,
        release=flags.static_release,
    )
    pipeline = flags.pipeline or ("inline" if flags.policy == "serial" else "staged")
    device = _device(flags.device)
    preset = flags.preset or ("gpu-1b" if device == "cuda" else "cpu-25m")
    engine = EngineConfig(
        policy=policy,
        preset=preset,
        max_model_len=PRESETS[preset].max_model_len if flags.max_model_len is None else flags.max_model_len,
        seed=flags.seed,
        num_threads=_default_threads() if flags.num_threads is None else flags.num_threads,
        uses_prepack=flags.cpu_prepack == "auto",
        device=device,
        weights=flags.weights,
        dtype=flags.dtype,
        enforces_eager=flags.enforce_eager,
        graph_sizes=None if flags.cudagraph_capture_sizes is None else tuple(flags.cudagraph_capture_sizes),
        profile_steps=flags.profile_steps,
        tokenizer=flags.tokenizer,
        step_delay_s=flags.step_delay_ms * 1e-3,
        preprocess_s=flags.preprocess_ms * 1e-3,
        is_inline=pipeline == "inline",
    )
    return ServerConfig(
        engine=engine,
        host=flags.host,
        port=flags.port,
        max_queue_size=flags.max_queue_size,
        overload_status=flags.overload_status,
        timeout_s=flags.timeout,
        timeout_scope=flags.timeout_scope,
        shutdown_timeout_s=flags.shutdown_timeout,
        preprocess_workers=flags.preprocess_workers,
        restarts_engine=flags.restart_engine,
        served_model_name=flags.served_model_name or ("null" if is_null else preset),
        request_log=flags.request_log,
        step_log=flags.step_log,
        ready_file=flags.ready_file,
    )


def _with_hyphens(argument: str) -> str:
    """`--max_batch_size=8` as `--max-batch-size=8`: names are written both ways elsewhere."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value


def _device(name: str) -> str:
    if name == "cpu":
        return name
    import torch  # noqa: PLC0415  # only where asked for: it takes seconds

    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise ConfigError("--device cuda: torch sees no CUDA device", hint="--device cpu runs everywhere")
    return "cuda" if has_cuda else "cpu"


def _default_threads() -> int:
    """One thread on one or two cores: threads that wait for one another stall when a neighbour takes a core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if cores <= 2 else cores - 1
