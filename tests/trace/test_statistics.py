"""Figures of a trace, small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from loadgen.trace.assemble import assemble_trace, count_out_of_order, finest_step_ns
from loadgen.trace.statistics import TraceStatistics, peak_within, trace_statistics
from loadgen.trace.trace import TraceMetadata

METADATA = TraceMetadata(origin_unix_ns=None, stamp_marks="arrival", arrival_from="t")


def statistics_of(offsets_s: list[float], outputs: list[int | None] | None = None) -> TraceStatistics:
    moments = np.array([round(offset * 1e9) for offset in offsets_s], dtype=np.int64)
    columns = {"input_tokens": list(range(1, len(offsets_s) + 1)), "output_tokens": outputs}
    return trace_statistics(assemble_trace(moments, columns, METADATA))


def test_rate_counts_gaps_not_rows() -> None:
    figures = statistics_of([0, 1, 2, 3, 4])
    assert (figures.rows, figures.span_s, figures.rate_per_s) == (5, 4.0, 1.0)
    assert figures.gap_cv == 0


def test_second_counted_from_the_first_row_misses_a_burst_across_its_edge() -> None:
    figures = statistics_of([0, 0.8, 0.9, 1.1, 1.2, 3])
    assert (figures.peak_1s_fixed, figures.peak_1s_sliding) == (3, 4)


def test_window_is_half_open() -> None:
    assert peak_within(np.array([0, 10**9], dtype=np.int64), 10**9) == 1


def test_ties_are_gaps_of_exactly_nothing() -> None:
    assert statistics_of([0, 1, 1, 1, 2]).ties == 2


def test_dispersion_is_variance_over_mean_of_the_counts_per_second() -> None:
    # Counts 3, 1: mean 2, variance 1.
    assert statistics_of([0, 0.1, 0.2, 1.5]).dispersion_1s == 0.5


@pytest.mark.parametrize("offsets_s", [[0.0], [0.0, 0.0]])
def test_figures_that_do_not_exist_are_none(offsets_s: list[float]) -> None:
    figures = statistics_of(offsets_s)
    assert (figures.rate_per_s, figures.gap_cv, figures.dispersion_1s) == (None, None, None)


def test_missing_lengths_are_left_out_of_the_figures_and_told_as_a_share() -> None:
    figures = statistics_of([0, 1, 2, 3], outputs=[None, 4, 2, None])
    lengths = figures.lengths["output_tokens"]
    assert (lengths.minimum, lengths.p50, lengths.maximum, lengths.null_share) == (2, 2, 4, 0.5)
    assert "input_chars" not in figures.lengths


def test_rows_behind_a_later_arrival_are_counted() -> None:
    assert count_out_of_order(np.array([0, 139, 1, 140, 2], dtype=np.int64)) == 2
    assert count_out_of_order(np.array([1, 1, 2], dtype=np.int64)) == 0


@pytest.mark.parametrize(
    ("moments", "step_ns"),
    [([2 * 10**9, 5 * 10**9], 10**9), ([1_500_000_000], 10**8), ([123_456_789, 10**9], 1), ([0], None)],
)
def test_finest_step_is_what_the_stamps_show(moments: list[int], step_ns: int | None) -> None:
    assert finest_step_ns(np.array(moments, dtype=np.int64)) == step_ns


def test_a_span_of_half_a_century_takes_no_memory_of_its_own() -> None:
    century_s = 1_792_889_998
    figures = statistics_of([0, century_s, century_s + 0.5])
    assert figures.peak_1s_fixed == 2
    assert figures.dispersion_1s == pytest.approx(5 / 3)
