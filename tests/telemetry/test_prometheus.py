"""A server's /metrics as (name, value)."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.telemetry.prometheus import Sample, parse_metrics

PAGE = """\
# HELP vllm:num_requests_waiting Number of requests waiting
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="1",model_name="m"} 4.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="0.1"} 1.0
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 2.0
vllm:time_to_first_token_seconds_sum 0.35
vllm:time_to_first_token_seconds_count 2.0
vllm:time_to_first_token_seconds_created 1.7e9
"""


def test_series_that_differ_in_labels_are_added_up() -> None:
    assert parse_metrics(PAGE)[0] == Sample("vllm:num_requests_waiting", 7.0)


def test_of_a_histogram_the_sum_and_the_count_are_kept() -> None:
    assert parse_metrics(PAGE)[1:] == [
        Sample("vllm:time_to_first_token_seconds_sum", 0.35),
        Sample("vllm:time_to_first_token_seconds_count", 2.0),
    ]


def test_a_gauge_without_a_value_is_left_out_and_spoils_no_sum() -> None:
    assert parse_metrics('a{e="0"} NaN\na{e="1"} 2\nb NaN\n') == [Sample("a", 2.0)]


def test_a_page_without_series_is_empty() -> None:
    assert parse_metrics("") == []


@pytest.mark.parametrize("page", ["<!doctype html><html></html>", '{"detail":"Not Found"}', "name\n"])
def test_what_is_no_prometheus_text_is_a_value_error(page: str) -> None:
    with pytest.raises(ValueError):
        parse_metrics(page)


@given(st.text(max_size=60), st.integers(0, len(PAGE)))
def test_a_damaged_page_is_samples_or_a_value_error(noise: str, place: int) -> None:
    with contextlib.suppress(ValueError):
        samples = parse_metrics(PAGE[:place] + noise + PAGE[place:])
        assert all(sample.name and not math.isnan(sample.value) for sample in samples)
