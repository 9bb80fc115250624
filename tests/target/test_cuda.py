"""The model on a GPU: the same tokens as on a CPU, with graphs and without, and times that say what they are."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from loadgen_target.config import EngineConfig, PolicyConfig
from loadgen_target.request import Sampling, Work
from loadgen_target.rows import Row

if TYPE_CHECKING:
    from loadgen_target.runner import ModelRunner


@pytest.fixture(autouse=True)
def _needs_cuda() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here: the GPU path has not run")


def runner_of(device: str, **settings: Any) -> ModelRunner:
    from loadgen_target.runner import ModelRunner

    policy = PolicyConfig(max_batch_size=8)
    shape: dict[str, Any] = {"preset": "tiny", "max_model_len": 512, "dtype": "float32"}
    runner = ModelRunner(EngineConfig(policy=policy, device=device, **shape, **settings))
    runner.warm_up(8)
    runner.cache.fill(1e3)
    return runner


def tokens_of(runner: ModelRunner, num_rows: int = 5, count: int = 24) -> list[list[int]]:
    """What a batch says; its prompts are of different lengths, so that rows stand at different positions."""
    rng = random.Random(1)
    rows = []
    for slot in range(num_rows):
        prompt = tuple(rng.randrange(32, 127) for _ in range(rng.randint(1, 300)))
        row = Row(Work(slot, prompt, Sampling(max_tokens=count, ignore_eos=True)), prompt, 0)
        row.slot, row.num_read = slot, len(prompt)
        rows.append(row)
    for row, token in zip(rows, runner.prefill(rows), strict=True):
        row.take(token, num_rows, 0)
    while len(rows[0].output) < count:
        for row, token in zip(rows, runner.decode(rows), strict=True):
            row.take(token, num_rows, 0)
    return [row.output for row in rows]


def test_a_gpu_says_what_a_cpu_says() -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    assert tokens_of(runner_of("cuda", enforces_eager=True)) == tokens_of(runner_of("cpu"))


@pytest.mark.parametrize("num_rows", [1, 5, 8])
def test_graphs_say_what_single_kernels_say(num_rows: int) -> None:
    graphs, eager = runner_of("cuda"), runner_of("cuda", enforces_eager=True)
    assert graphs.num_graphs and not eager.num_graphs
    assert tokens_of(graphs, num_rows) == tokens_of(eager, num_rows)


def test_kernels_take_no_more_than_the_active_time_and_less_of_it_without_graphs() -> None:
    shares = {}
    for name, settings in (("graphs", {}), ("eager", {"enforces_eager": True})):
        runner = runner_of("cuda", **settings)
        tokens_of(runner, 8)
        assert runner.meter is not None and runner.meter.reason is None
        active_ns, kernel_ns = runner.meter.last_pass()
        assert kernel_ns is not None and 0 < kernel_ns <= active_ns
        shares[name] = kernel_ns / active_ns
    # Pit 1: launched one by one, small kernels leave the device waiting while it counts as active.
    assert shares["eager"] < shares["graphs"]
