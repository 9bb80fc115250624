"""What happened when: bins worked out by hand."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest

from loadgen.plan.schedule import Window
from loadgen.report.observations import Observations
from loadgen.report.timeline import Timeline, timeline
from loadgen.telemetry.samples import Samples
from loadgen.telemetry.server_metrics import SCHEMA
from support.runs import Row, failed, ns, ok, records


def line(
    rows: list[Row],
    *,
    length_s: float = 40.0,
    windows: list[Window] | None = None,
    telemetry: pa.Table | None = None,
) -> Timeline:
    spans = windows or [Window("baseline", 0, ns(length_s))]
    return timeline(Observations(records(rows)), spans, length_s, telemetry)


def samples(*of: tuple[float, str, float]) -> pa.Table:
    columns = {
        "t_ns": [ns(at) for at, _, _ in of],
        "source": ["server"] * len(of),
        "name": [name for _, name, _ in of],
        "value": [value for _, _, value in of],
    }
    arrays = []
    for field in SCHEMA:
        array = pa.array(columns[field.name])
        arrays.append(
            array.dictionary_encode().cast(field.type) if pa.types.is_dictionary(field.type) else array
        )
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


@pytest.mark.parametrize(
    ("length_s", "bin_s"), [(10, 0.1), (40, 1.0), (600, 1.0), (3600, 10.0), (86400, 300.0)]
)
def test_long_runs_have_coarser_bins(length_s: float, bin_s: float) -> None:
    found = line([ok(0, first_s=0.1, last_s=0.2)], length_s=length_s)
    assert found.bin_s == bin_s
    assert len(found.labels) == round(length_s / bin_s)


def test_each_series_counts_at_its_own_moment() -> None:
    # Planned in second 0, sent in 1, tokens in 2, 3 and 4, ended in 4; one failed in second 5.
    rows = [ok(0.5, sent_s=1.5, first_s=2.5, last_s=4.5, tokens=3), failed(5.0, "reset", end_s=5.5)]
    series = line(rows).series
    assert series["offered"][:6] == [1, 0, 0, 0, 0, 1]
    assert series["sent"][:6] == [0, 1, 0, 0, 0, 1]
    assert series["tokens"][:6] == pytest.approx([0, 0, 1, 1, 1, 0])
    assert series["served"][:6] == [0, 0, 0, 0, 1, 0]
    assert series["failed"][:6] == [0, 0, 0, 0, 0, 1]
    assert series["in_flight"][:6] == pytest.approx([0, 0.5, 1, 1, 0.5, 0.5])
    assert series["latency_p99"][:2] == [pytest.approx(4.0), None]


def test_what_never_ended_stays_in_flight_and_what_was_not_sent_never_was() -> None:
    rows = [failed(38.5, "unfinished"), failed(39.0, "not_sent")]
    series = line(rows).series
    assert series["in_flight"][37:] == pytest.approx([0, 0.5, 1])
    assert sum(value or 0 for value in series["failed"]) == 0


def test_the_servers_gauges_are_means_of_their_samples() -> None:
    telemetry = samples(
        (0.2, "vllm:num_requests_waiting", 10), (0.7, "vllm:num_requests_waiting", 30),
        (2.5, "vllm:num_requests_waiting", math.nan), (0.2, "vllm:num_requests_running", 8), (0.2, "other", 1),
    )  # fmt: skip
    found = line([ok(0, first_s=0.1, last_s=0.2)], telemetry=telemetry)
    assert found.series["server_waiting"][:3] == [20, 20, None]
    assert found.series["server_running"][0] == 8
    # F81
    json.dumps(asdict(found), allow_nan=False)


@pytest.mark.parametrize(
    ("gauge", "drawn"),
    [
        ("sglang:num_queue_reqs", "server_waiting"),
        ("sglang:num_running_reqs", "server_running"),
        ("sglang:token_usage", "kv_cache"),
        ("tgi_queue_size", "server_waiting"),
        ("tgi_batch_current_size", "server_running"),
        ("nv_inference_pending_request_count", "server_waiting"),
        ("vllm:gpu_cache_usage_perc", "kv_cache"),
    ],
)
def test_the_gauges_of_each_server_are_drawn_under_one_name(gauge: str, drawn: str) -> None:
    found = line([ok(0, first_s=0.1, last_s=0.2)], telemetry=samples((0.2, gauge, 0.5)))
    assert found.series[drawn][0] == 0.5


def test_a_bin_that_an_injection_touches_is_the_injections() -> None:
    windows = [
        Window("baseline", 0, ns(10)), Window("peak-1", ns(10.5), ns(11.5)), Window("recovery-1", ns(11.5), ns(39)),
    ]  # fmt: skip
    labels = line([ok(0, first_s=0.1, last_s=0.2)], windows=windows).labels
    assert labels[9:13] == ("baseline", "peak-1", "peak-1", "recovery-1")
    assert labels[39] == "draining"


def test_bins_hold_every_request_whatever_the_length() -> None:
    rng = np.random.default_rng(1)
    for length_s in (0.05, 1.0, 29.9, 31.0, 601.0):
        rows = [ok(at, first_s=at, last_s=at) for at in rng.uniform(0, length_s, 50)]
        found = line(rows, length_s=length_s)
        assert sum(value or 0 for value in found.series["offered"]) * found.bin_s == pytest.approx(50)


def test_a_reading_holds_until_the_next_for_a_second_and_a_counter_is_its_growth() -> None:
    samples = Samples()
    for moment_s, waiting in ((0.05, 4.0), (0.55, 8.0)):
        samples.add(ns(moment_s), "server", "vllm:num_requests_waiting", waiting)
    # Within steps for 0.1 of 0.5 s, then for 0.5 of 0.5 s, then a server that began anew and was busy for 0.25 s.
    for moment_s, busy_s in ((0.0, 7.0), (0.5, 7.1), (1.0, 7.6), (1.5, 0.25)):
        samples.add(ns(moment_s), "server", "loadgen_target:step_busy_seconds_total", busy_s)
    seen = Observations(records([ok(0, first_s=0.1, last_s=0.2)]))
    line = timeline(seen, (Window("baseline", 0, ns(2)),), 2.0, samples.table())
    assert line.bin_s == 0.1
    waiting_shown = line.series["server_waiting"]
    assert waiting_shown[:6] == [4, 4, 4, 4, 4, 8]
    assert waiting_shown[15] == 8
    assert waiting_shown[16] is None
    busy = line.series["engine_active"]
    assert busy[:5] == [pytest.approx(0.2)] * 5
    assert busy[5:10] == [pytest.approx(1.0)] * 5
    assert busy[10:15] == [pytest.approx(0.5)] * 5
    assert busy[15:] == [None] * 5
