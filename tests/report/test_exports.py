"""What other tools read: every field they ask for, with the value that this run has by hand."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import inference_doctor.adapters as doctor
import numpy as np
import pyarrow.parquet as pq
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from loadgen.plan.schedule import Window
from loadgen.report.export.forms import FORMS, write_exports
from loadgen.report.export.statistics import most_at_once
from loadgen.report.goodput import Bound
from loadgen.report.junit import as_junit
from loadgen.report.limit import parse_limit
from loadgen.report.markdown import as_markdown
from loadgen.report.recorded_run import RecordedRun, read_run
from loadgen.report.report import Report, report_of
from loadgen.report.validity import Thresholds
from support.command import run as run_command
from support.runs import failed, ns, ok, written

# Three successes and a failure in 4 s. Sent 10 ms late; 100, 200 and 300 ms to the first token and 100 ms more to
# the last of 2, 3 and 5 tokens.
ROWS = [
    ok(k, sent_s=k + 0.01, first_s=k + 0.01 + (k + 1) / 10, last_s=k + 0.11 + (k + 1) / 10, tokens=tokens,
       prompt_tokens=10 * (k + 1), input_tokens_planned=7)
    for k, tokens in enumerate((2, 3, 5))
] + [
    failed(3.0, "http_error", end_s=3.2, status_code=500, error="HTTP 500: =1+1", input_tokens_planned=7)
]  # fmt: skip


def a_run(folder: Path, rows: Any = ROWS, limits: Any = (), **facts: Any) -> tuple[Report, RecordedRun]:
    made = read_run(written(folder, rows, length_s=4.0, **facts))
    return report_of(made, Thresholds(max_lateness_s=0.05), limits, [Bound("latency", 0.35)]), made


def exported(folder: Path, form: str, **more: Any) -> Path:
    report, made = a_run(folder, **more)
    return write_exports(report, made, [form], folder / "out")[0]


def strict(path: Path) -> Any:
    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


VLLM = {
    "date": "20261201-000000", "backend": "openai-chat", "endpoint_type": "chat", "model_id": "m", "num_prompts": 4,
    "request_rate": 1.0, "duration": 4.0, "completed": 3, "failed": 1, "total_input_tokens": 60,
    "total_output_tokens": 10, "request_throughput": 0.75, "request_goodput": 0.5, "output_throughput": 2.5,
    "total_token_throughput": 17.5, "max_concurrent_requests": 1,
    "mean_ttft_ms": 200, "median_ttft_ms": 200, "std_ttft_ms": 100 * (2 / 3) ** 0.5, "p99_ttft_ms": 300,
    "mean_tpot_ms": (100 + 50 + 25) / 3, "median_tpot_ms": 50, "p99_tpot_ms": 100,
    "mean_itl_ms": 300 / 7, "median_itl_ms": 25, "p99_itl_ms": 100,
    "mean_e2el_ms": 300, "median_e2el_ms": 300, "p95_e2el_ms": 400, "p99_e2el_ms": 400,
    "mean_client_queue_time_ms": 10, "p99_client_queue_time_ms": 10,
    "mean_e2el_including_client_queue_ms": 310, "p99_e2el_including_client_queue_ms": 410,
}  # fmt: skip


@pytest.mark.parametrize("field", VLLM)
def test_a_vllm_result_holds_what_its_readers_ask_for(tmp_path: Path, field: str) -> None:
    found = strict(exported(tmp_path, "vllm-json"))[field]
    expected = VLLM[field]
    assert found == (pytest.approx(expected) if isinstance(expected, float | int) else expected)


def test_a_detailed_vllm_result_has_an_entry_a_request(tmp_path: Path) -> None:
    found = strict(exported(tmp_path, "vllm-json-detailed"))
    assert found["input_lens"] == [10, 20, 30, 7]
    assert found["output_lens"] == [2, 3, 5, None]
    assert found["ttfts"] == [pytest.approx(0.1), pytest.approx(0.2), pytest.approx(0.3), None]
    assert found["latencies"][:3] == pytest.approx([0.2, 0.3, 0.4])
    assert found["itls"] == [[0.1], [0.05, 0.05], [0.025] * 4, []]
    assert found["start_times"] == pytest.approx([0.01, 1.01, 2.01, 3.0])
    assert found["errors"] == ["", "", "", "HTTP 500: =1+1"]


def test_what_is_not_known_is_null_in_a_vllm_result(tmp_path: Path) -> None:
    rows = [ok(k, first_s=k + 0.1, last_s=k + 0.2) for k in range(3)]
    found = strict(exported(tmp_path, "vllm-json", rows=rows))
    assert found["total_input_tokens"] is None
    assert found["total_token_throughput"] is None
    nothing = strict(exported(tmp_path / "b", "vllm-json", rows=[failed(1.0, "refused", end_s=1.0)]))
    assert nothing["completed"] == 0
    assert nothing["mean_ttft_ms"] is None
    assert nothing["std_itl_ms"] is None


SUMMARY: dict[str, tuple[str, dict[str, float]]] = {
    "request_latency": ("ms", {"avg": 300, "p50": 300, "p1": 200, "p99": 400, "min": 200, "max": 400, "std": 100,
                               "count": 3, "sum": 900}),
    "time_to_first_token": ("ms", {"avg": 200, "p90": 300}),
    "inter_token_latency": ("ms", {"avg": 175 / 3, "p50": 50}),
    "output_sequence_length": ("tokens", {"avg": 10 / 3, "sum": 10}),
    "input_sequence_length": ("tokens", {"avg": 20, "sum": 60}),
    "request_count": ("requests", {"avg": 3}),
    "error_request_count": ("requests", {"avg": 1}),
    "request_throughput": ("requests/sec", {"avg": 0.75}),
    "output_token_throughput": ("tokens/sec", {"avg": 2.5}),
    "benchmark_duration": ("sec", {"avg": 4}),
}  # fmt: skip


def test_an_aiperf_summary_has_a_block_of_statistics_a_metric(tmp_path: Path) -> None:
    found = strict(exported(tmp_path, "aiperf"))
    for name, (unit, values) in SUMMARY.items():
        assert found[name]["unit"] == unit
        assert {key: found[name][key] for key in values} == pytest.approx(values), name
        # A single value has no distribution.
        assert ("p50" in found[name]) == ("count" in found[name])
    assert found["error_summary"] == [
        {"error_details": {"type": "http_error", "message": "HTTP 500: =1+1"}, "count": 1}
    ]
    assert (found["start_time"], found["end_time"]) == (
        "2026-12-01T00:00:00+00:00",
        "2026-12-01T00:00:04+00:00",
    )


def test_aiperf_records_are_one_a_line_with_times_on_the_wall_clock(tmp_path: Path) -> None:
    report, made = a_run(tmp_path)
    _, path = write_exports(report, made, ["aiperf"], tmp_path / "out")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 4
    started = 1_796_083_200_000_000_000
    required = {"session_num", "request_start_ns", "request_end_ns", "worker_id", "record_processor_id",
                "benchmark_phase", "was_cancelled", "credit_issued_ns", "x_request_id"}  # fmt: skip
    for number, line in enumerate(lines):
        assert set(line) == {"metadata", "metrics", "error"}
        assert required <= set(line["metadata"])
        assert line["metadata"]["session_num"] == number
        assert all(set(metric) == {"value", "unit"} for metric in line["metrics"].values())
    first = lines[0]["metadata"]
    assert first["credit_issued_ns"] == started
    assert first["request_start_ns"] == started + 10_000_000
    assert first["request_end_ns"] == started + 210_000_000
    assert first["lateness_ns"] == 10_000_000
    assert lines[1]["metrics"]["time_to_first_token"] == {"value": pytest.approx(200), "unit": "ms"}
    assert lines[3]["error"] == {"code": 500, "type": "http_error", "message": "HTTP 500: =1+1"}
    assert lines[3]["metrics"] == {"loadgen_lateness": {"value": 0.0, "unit": "ms"}}


def test_a_request_that_was_not_sent_is_no_aiperf_record(tmp_path: Path) -> None:
    report, made = a_run(tmp_path, [ROWS[0], failed(1.0, "not_sent")])
    _, path = write_exports(report, made, ["aiperf"], tmp_path / "out")
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1


@pytest.mark.parametrize(("form", "name"), [("vllm-json", "vllm"), ("aiperf", "aiperf")])
def test_a_gate_that_others_wrote_reads_the_same_figures(tmp_path: Path, form: str, name: str) -> None:
    loaded = doctor.load_directory(exported(tmp_path, form).parent)
    assert loaded.format == name
    (record,) = loaded.records
    result = record.result
    metrics = result.metrics
    assert metrics.ttft_ms.p99 == pytest.approx(300)
    assert metrics.tpot_ms.median == pytest.approx(50)
    assert metrics.e2el_ms.mean == pytest.approx(300)
    assert metrics.request_throughput == pytest.approx(0.75)
    assert metrics.output_token_throughput == pytest.approx(2.5)
    assert (metrics.requests.successful, metrics.requests.failed) == (3, 1)
    assert result.environment.model == "m"
    assert result.failed_requests_reported


def test_csv_and_parquet_have_a_row_a_request_and_no_value_is_empty(tmp_path: Path) -> None:
    with exported(tmp_path, "csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["outcome"] for row in rows] == ["ok", "ok", "ok", "http_error"]
    assert [float(row["latency_s"]) for row in rows[:3]] == pytest.approx([0.21, 0.31, 0.41])
    assert rows[3]["latency_s"] == ""
    table = pq.read_table(exported(tmp_path / "b", "parquet"))
    assert table.column_names == list(rows[0])
    assert table.column("latency_s").to_pylist() == [pytest.approx(x) for x in (0.21, 0.31, 0.41)] + [None]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@cmd"])
def test_text_of_a_target_is_no_formula_in_a_spreadsheet(tmp_path: Path, text: str) -> None:
    rows = [failed(1.0, "http_error", end_s=1.1, error=text)]
    with exported(tmp_path, "csv", rows=rows).open(newline="", encoding="utf-8") as file:
        (row,) = list(csv.DictReader(file))
    assert row["error"] == f"'{text}"


def test_openmetrics_is_read_by_its_own_parser(tmp_path: Path) -> None:
    report, made = a_run(tmp_path, [*ROWS, failed(3.5, "http_error", end_s=3.6, error='a"b\\c')])
    (path,) = write_exports(report, made, ["openmetrics"], tmp_path / "out")
    parsed = text_string_to_metric_families(path.read_text(encoding="utf-8"))  # type: ignore[no-untyped-call]
    families = {one.name: one for one in parsed}
    latency = {tuple(s.labels.values()): s.value for s in families["loadgen_latency_seconds"].samples}
    assert latency["p99", "overall"] == pytest.approx(0.41)
    assert [s.value for s in families["loadgen_requests"].samples] == [3, 2]
    assert families["loadgen_valid"].samples[0].value == 1
    assert "loadgen_queue_ratio" not in families


def test_the_most_at_once_do_not_count_who_leaves_as_another_comes() -> None:
    assert most_at_once(np.array([0.0, 1.0, 1.5]), np.array([1.0, 2.0, 1.8])) == 2
    assert most_at_once(np.array([]), np.array([])) == 0


def cases(report: Report) -> dict[str, str]:
    """Name and state of each case."""
    suite = ET.fromstring(as_junit(report))
    found = {str(one.get("name")): one[0].tag if len(one) else "passed" for one in suite}
    states = list(found.values())
    assert (suite.get("tests"), suite.get("failures")) == (str(len(found)), str(states.count("failure")))
    assert (suite.get("errors"), suite.get("skipped")) == (
        str(states.count("error")),
        str(states.count("skipped")),
    )
    return found


def test_junit_fails_where_a_limit_is_broken_overall(tmp_path: Path) -> None:
    limits = [parse_limit("latency p99 < 1s"), parse_limit("error_rate < 1%")]
    report, _ = a_run(tmp_path, limits=limits)
    assert cases(report) == {
        "run": "passed",
        "valid": "passed",
        "latency p99 < 1s": "passed",
        "latency p99 < 1s in baseline": "passed",
        "error_rate < 1%": "failure",
        "error_rate < 1% in baseline": "skipped",
    }


def test_junit_has_an_error_for_a_run_that_says_nothing_of_the_target(tmp_path: Path) -> None:
    report, _ = a_run(tmp_path, [failed(1.0, "client_error", error="bad \x00 char")])
    assert cases(report) == {"run": "error", "valid": "error"}


def test_markdown_shows_the_answer_and_no_markup_of_a_target(tmp_path: Path) -> None:
    rows = [*ROWS, failed(3.5, "http_error", end_s=3.6, error="<img src=x> [a](http://b) @all |x|")]
    report, _ = a_run(tmp_path, rows[3:] + ROWS[:3], [parse_limit("latency p99 < 300ms")])
    text = as_markdown(report)
    assert text.startswith("### loadgen: run test-run: complete, valid\n")
    assert "| latency p99 \\< 300ms | **broken** (410 ms) | **broken** (410 ms) |" in text
    assert "| latency p99 | 410 ms | 410 ms |" in text
    for markup in ("<img", "](", " @all", "| |x", "http://"):
        assert markup not in text
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("| latency p")}
    assert len(widths) == 1


def test_the_label_of_a_window_is_no_markup_in_markdown(tmp_path: Path) -> None:
    label = "peak-<b>|`x`"
    rows = [{**row, "window": label} for row in ROWS]
    run = written(tmp_path, rows, length_s=4.0, windows=[Window(label, 0, ns(4))])
    text = as_markdown(report_of(read_run(run), Thresholds()))
    assert re.search(r"(?<!\\)[<`]", text) is None
    assert re.search(r"\w(?<!\\)\|", text) is None


def test_the_command_writes_every_form(tmp_path: Path) -> None:
    folder = written(tmp_path, ROWS, length_s=4.0)
    options = [word for form in FORMS for word in ("--export", form)]
    done = run_command(
        "report", folder.path, *options, "--markdown", tmp_path / "r.md", "--junit", tmp_path / "r.xml"
    )
    assert done.returncode == 4, done.stderr  # sent 10 ms late
    names = {path.name for path in (folder.path / "export").iterdir()}
    assert names == {"vllm.json", "vllm-detailed.json", "profile_export_aiperf.json", "profile_export.jsonl",
                     "requests.csv", "requests-flat.parquet", "metrics.om"}  # fmt: skip
    assert (tmp_path / "r.md").is_file()
    assert (tmp_path / "r.xml").is_file()


def test_an_unknown_form_is_named(tmp_path: Path) -> None:
    done = run_command("report", written(tmp_path, ROWS, length_s=4.0).path, "--export", "xlsx")
    assert done.returncode == 2
    assert "--export xlsx: no such form" in done.stderr
    assert "vllm-json" in done.stderr
