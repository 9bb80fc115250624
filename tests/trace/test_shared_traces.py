"""Public traces: figures and rows equal those published with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadgen.trace.foreign.catalog import read_foreign
from loadgen.trace.likeness import likenesses
from loadgen.trace.statistics import trace_statistics
from loadgen.trace.synthetic import draw_like

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="the folder of public traces is not here")

CODE_LENGTHS = ((3, 1469, 5194, 7436, 7437), (6, 13, 55, 252, 1899))
CONV_LENGTHS = ((2, 1020, 2735, 4142, 14050), (7, 129, 424, 601, 1000))


@pytest.mark.parametrize(
    ("name", "rows", "span_s", "rate", "fixed", "sliding", "gap_cv", "ties", "lengths"),
    [
        ("AzureLLMInferenceTrace_code.csv", 8819, 3435.948, 2.5664, 67, 72, 13.151, 0, CODE_LENGTHS),
        ("AzureLLMInferenceTrace_conv.csv", 19366, 3501.722, 5.5301, 16, 19, 1.094, 0, CONV_LENGTHS),
        ("vidur_splitwise_code.csv", 8819, 3435.948, 2.5664, 67, 72, 13.151, 0, CODE_LENGTHS),
        ("vidur_splitwise_conv.csv", 19366, 3501.722, 5.5301, 16, 19, 1.094, 0, CONV_LENGTHS),
        (
            "mooncake_conversation_trace.jsonl.gz",
            *(12031, 3536.999, 3.4012, 28, 28, 3.034, 10851),
            ((891, 6909, 27367, 85401, 126195), (1, 350, 597, 1120, 2000)),
        ),
        (
            "mooncake_synthetic_trace.jsonl",
            *(3993, 1022.025, 3.9060, 13, 14, 1.011, 11),
            ((13, 11587, 38615, 66458, 191378), (1, 69, 389, 769, 893)),
        ),
        (
            "llmservingsim_rtx4090_llama31_8b_requests.jsonl",
            *(300, 29.101, 10.2747, 18, 21, 0.940, 0),
            ((262, 730, 1458, 2764, 3998), (512, 631, 770, 784, 1021)),
        ),
        (
            "splitwise_sim_test_trace.csv",
            *(3, 3.0, 0.6667, 1, 1, 0.333, 0),
            ((2048, 2048, 4096, 4096, 4096), (8, 16, 32, 32, 32)),
        ),
    ],
)
def test_figures_equal_the_published_ones(
    name: str,
    rows: int,
    span_s: float,
    rate: float,
    fixed: int,
    sliding: int,
    gap_cv: float,
    ties: int,
    lengths: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    figures = trace_statistics(read_foreign(TRACES / name))
    assert figures.rows == rows
    assert round(figures.span_s, 3) == span_s
    assert figures.rate_per_s is not None
    assert round(figures.rate_per_s, 4) == rate
    assert (figures.peak_1s_fixed, figures.peak_1s_sliding) == (fixed, sliding)
    assert figures.gap_cv is not None
    assert round(figures.gap_cv, 3) == gap_cv
    assert figures.ties == ties
    for column, expected in zip(("input_tokens", "output_tokens"), lengths, strict=True):
        found = figures.lengths[column]
        assert (found.minimum, found.p50, found.p90, found.p99, found.maximum) == expected
        assert found.null_share == 0


@pytest.mark.parametrize(
    ("name", "dispersion"),
    [
        ("AzureLLMInferenceTrace_code.csv", 13.2),
        ("AzureLLMInferenceTrace_conv.csv", 1.39),
        ("mooncake_conversation_trace.jsonl.gz", 7.89),
        ("mooncake_synthetic_trace.jsonl", 1.09),
    ],
)
def test_index_of_dispersion_equals_the_published_one(name: str, dispersion: float) -> None:
    found = trace_statistics(read_foreign(TRACES / name)).dispersion_1s
    assert found is not None
    assert abs(found - dispersion) <= 0.05


@pytest.mark.parametrize("kind", ["code", "conv"])
def test_an_import_agrees_row_for_row_with_another_persons_conversion(kind: str) -> None:
    ours = read_foreign(TRACES / f"AzureLLMInferenceTrace_{kind}.csv")
    theirs = read_foreign(TRACES / f"vidur_splitwise_{kind}.csv")
    assert np.abs(ours.arrival_ns - theirs.arrival_ns).max() <= 1000
    for column in ("input_tokens", "output_tokens"):
        assert ours.table.column(column).equals(theirs.table.column(column))


def test_first_arrival_of_the_azure_code_trace_is_the_published_moment() -> None:
    origin = read_foreign(TRACES / "AzureLLMInferenceTrace_code.csv").metadata.origin_unix_ns
    assert origin == 1_700_158_623_979_960_000


def test_mooncake_has_a_prefix_block_for_each_512_tokens() -> None:
    trace = read_foreign(TRACES / "mooncake_synthetic_trace.jsonl")
    assert trace.metadata.prefix_block_tokens == 512
    inputs = trace.table.column("input_tokens").to_pylist()
    blocks = trace.table.column("prefix_blocks").to_pylist()
    assert all(len(ids) == -(-tokens // 512) for tokens, ids in zip(inputs, blocks, strict=True))


def test_durations_of_llmservingsim_come_from_its_monotonic_clock_alone() -> None:
    table = read_foreign(TRACES / "llmservingsim_rtx4090_llama31_8b_requests.jsonl").table
    assert table.column("duration_ns")[0].as_py() == 27_554_231_018_618 - 27_536_660_701_067
    assert table.column("ttft_ns")[0].as_py() == 27_537_350_135_653 - 27_536_660_701_067


@pytest.mark.parametrize(
    ("name", "bands"),
    [
        # Bursty on every scale, near Poisson with a slow curve, batches of 3 s: each stays what it is.
        (
            "AzureLLMInferenceTrace_code.csv",
            {"gap variation": 0.25, "dispersion, 1 s": 0.4, "dispersion, 10 s": 0.5, "dispersion, 60 s": 0.6},
        ),
        (
            "AzureLLMInferenceTrace_conv.csv",
            {"gap variation": 0.1, "dispersion, 1 s": 0.15, "dispersion, 10 s": 0.4, "dispersion, 60 s": 0.6},
        ),
        (
            "mooncake_conversation_trace.jsonl.gz",
            {"gap variation": 0.05, "dispersion, 1 s": 0.05, "ties": 0.02, "blocks seen before": 0.06},
        ),
    ],
)
def test_a_trace_drawn_like_a_published_one_has_its_figures(name: str, bands: dict[str, float]) -> None:
    trace = read_foreign(TRACES / name)
    first, second, third = (draw_like(trace, seed=seed) for seed in (1, 2, 3))
    figures = {figure.name: figure for figure in likenesses(trace, first, (second, third))}
    for figure, band in bands.items():
        difference = figures[figure].difference
        assert difference is not None
        assert abs(difference) < band, figure
    for column in ("input_tokens", "output_tokens"):
        distance = figures[f"{column} KS distance"].difference
        assert distance is not None
        assert distance < 0.1  # runs of lengths stay together, so few of them make a draw
