"""The whole way with the bundled server: its own log and the client's records tell the same story."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from loadgen.percentiles import nearest_rank
from loadgen.replay.request_record import SERVER_STAGES
from loadgen.trace.parquet import read_trace
from support import command, traces

pytest.importorskip("torch", reason="the bundled server needs torch")

# Bursts of five within 20 ms, so that requests are batched and queue.
ARRIVALS_S = sorted(0.4 * burst + 0.005 * k for burst in range(8) for k in range(5))
# The status in the server's log for each outcome of the client.
SAME = {"ok": "ok", "rejected": "rejected"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]], list[dict[str, Any]]]:
    """(run folder, client records, server log) of one replay at a tiny model whose queue is short."""
    folder = tmp_path_factory.mktemp("end-to-end")
    log = folder / "server.parquet"
    trace = traces.written(folder, ARRIVALS_S, output_tokens=[3, 9, 5, 12, 7] * 8)
    flags = f"--preset tiny --policy dynamic --max-wait-ms 20 --max-queue-size 12 --timeout 60s --request-log {log}"
    ran = command.run(
        "replay", trace, "--serve", flags, "--inject-burst", "30", "--ignore-eos", "--chars-per-token", "1",
        "--out-dir", folder / "runs", "--max-lateness", "10s",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (run_folder,) = (folder / "runs").iterdir()
    return (
        run_folder,
        pq.read_table(run_folder / "requests.parquet").to_pylist(),
        pq.read_table(log).to_pylist(),
    )


Run = tuple[Path, list[dict[str, Any]], list[dict[str, Any]]]


def joined(run: Run) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    folder, records, log = run
    by_id = {row["x_request_id"]: row for row in log}
    return [(row, by_id[f"{folder.name}-{row['trace_row']}-{row['copy']}"]) for row in records]


def test_both_sides_know_the_same_requests(run: Run) -> None:
    _, records, log = run
    assert len(records) == len(log) == len(joined(run)) == 70


def test_both_sides_tell_the_same_outcome(run: Run) -> None:
    outcomes = {record["outcome"] for record, _ in joined(run)}
    assert outcomes >= {"ok", "rejected"}  # 30 at once at a queue of 12: some are refused
    assert outcomes <= set(SAME)
    for record, entry in joined(run):
        assert entry["status"] == SAME[record["outcome"]], (record, entry)
        assert entry["http_status"] == record["status_code"]


def test_both_sides_count_the_same_tokens_and_the_planned_ones(run: Run) -> None:
    for record, entry in joined(run):
        if record["outcome"] == "ok":
            assert record["output_tokens"] == entry["output_tokens"] == record["output_tokens_planned"]
            assert record["prompt_tokens"] == entry["prompt_tokens"] == record["input_tokens_planned"]
            assert record["num_chunks"] == record["output_tokens"]


def test_stages_are_in_order_and_add_up(run: Run) -> None:
    for record, _ in joined(run):
        if record["outcome"] == "ok":
            moments = [record[f"server_{stage}_us"] for stage in SERVER_STAGES]
            assert moments == sorted(moments)
            assert moments[0] >= 0
    folder = run[0]
    report = json.loads((folder / "report.json").read_text())
    parts = report["stages"]["parts"]
    assert sum(part["mean"] for part in parts.values()) == pytest.approx(report["stages"]["latency"]["mean"])
    assert abs(report["server_clock"]["offset_s"]) <= report["server_clock"]["residual_s"] + 0.001


def test_latency_is_the_network_and_the_stages_within_2_ms(run: Run) -> None:
    # One machine, one monotonic clock: the server's log tells when each request came and went, so the way there and
    # the way back are known apart from the stages that the answer tells. However slow the machine, the sum holds.
    folder = run[0]
    start_ns = json.loads((folder / "run.json").read_text())["start_monotonic_ns"]
    unexplained_s, on_the_way_s = [], []
    for record, entry in joined(run):
        if record["outcome"] != "ok":
            continue
        there_ns = entry["recv_ns"] - start_ns - record["sent_ns"]
        back_ns = start_ns + record["last_token_ns"] - entry["finished_ns"]
        waited_ns = record["sent_ns"] - record["planned_ns"]
        for stage in SERVER_STAGES:
            logged_ns = entry[f"{stage}_ns"] - entry["recv_ns"]
            assert record[f"server_{stage}_us"] * 1e3 == pytest.approx(logged_ns, abs=1e3)
        stages_ns = record["server_finished_us"] * 1e3
        latency_ns = record["last_token_ns"] - record["planned_ns"]
        unexplained_s.append((latency_ns - waited_ns - there_ns - stages_ns - back_ns) / 1e9)
        on_the_way_s.append((there_ns + back_ns) / 1e9)
    assert np.abs(unexplained_s).max() < 0.002
    # And what the report shows as network is that: it has no log, only what is left of the latency.
    shown = json.loads((folder / "report.json").read_text())["stages"]["parts"]["network and client"]
    assert shown["count"] == len(on_the_way_s)
    assert shown["p50"] == pytest.approx(nearest_rank(on_the_way_s, [50])[0], abs=0.002)
    assert shown["mean"] == pytest.approx(np.mean(on_the_way_s), abs=0.002)


def test_the_client_sees_the_end_no_earlier_than_the_server_made_it(run: Run) -> None:
    # One machine, one monotonic clock: the order of events on both sides is real.
    folder = run[0]
    start_ns = json.loads((folder / "run.json").read_text())["start_monotonic_ns"]
    for record, entry in joined(run):
        assert entry["recv_ns"] >= start_ns + record["sent_ns"]
        if record["outcome"] == "ok":
            assert start_ns + record["first_token_ns"] >= entry["first_token_ns"]


def test_receipt_minus_planned_is_the_reported_lateness_within_the_loopback(run: Run) -> None:
    folder = run[0]
    start_ns = json.loads((folder / "run.json").read_text())["start_monotonic_ns"]
    delays_s = np.array(
        [(entry["recv_ns"] - start_ns - record["sent_ns"]) / 1e9 for record, entry in joined(run)]
    )
    # From our send to the server's receipt: the loopback and a wait for a busy core, never less than nothing.
    assert delays_s.min() >= 0
    assert np.median(delays_s) < 0.5


def test_the_report_shows_the_burst_as_its_own_window(run: Run) -> None:
    report = json.loads((run[0] / "report.json").read_text())
    windows = {window["label"]: window for window in report["windows"]}
    assert windows["burst-1"]["requests"] >= 30
    assert windows["overall"]["requests"] == 70
    assert report["outcomes"]["rejected"]["count"] > 0
    assert report["windows"][0]["metrics"]["queue_share"]["value"] > 0


def test_the_servers_own_log_recorded_again_is_the_schedule_that_was_sent(run: Run, tmp_path: Path) -> None:
    folder, _, log = run
    again = tmp_path / "again.parquet"
    ran = command.run(
        "record", folder.parent.parent / "server.parquet", "--format", "parquet", "--time", "recv_unix_ns",
        "--input-tokens", "prompt_tokens", "--output-tokens", "max_tokens", "--status-field", "http_status",
        "-o", again,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    trace = read_trace(again)
    assert trace.metadata.resolution_ns == 1
    # The log's stamps to the ns, and what was planned for the request of each.
    received = sorted(
        ((entry["recv_unix_ns"], record, entry) for record, entry in joined(run)), key=lambda one: one[0]
    )
    first_ns = received[0][0]
    assert trace.arrival_ns.tolist() == [recv_ns - first_ns for recv_ns, _, _ in received]
    # What the server refused at receipt it did not read.
    planned = [
        (record["input_tokens_planned"], record["output_tokens_planned"], 200)
        if record["outcome"] == "ok"
        else (None, None, 429)
        for _, record, _ in received
    ]
    table = trace.table
    columns = [table.column(name).to_pylist() for name in ("input_tokens", "output_tokens", "status")]
    assert list(zip(*columns, strict=True)) == planned
    # From our send to the stamp of receipt: what the loopback takes, never less than nothing.
    start_ns = json.loads((folder / "run.json").read_text())["start_monotonic_ns"]
    shift_ns = log[0]["recv_unix_ns"] - log[0]["recv_ns"]
    for arrival_ns, (_, record, _) in zip(trace.arrival_ns.tolist(), received, strict=True):
        delay_ns = arrival_ns + first_ns - shift_ns - start_ns - record["sent_ns"]
        assert -1_000_000 < delay_ns < 500_000_000
