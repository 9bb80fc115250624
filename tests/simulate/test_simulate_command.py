"""`loadgen simulate` as a user runs it: its run folder is a run's, for report and compare too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from loadgen.replay.request_record import SCHEMA
from support import command, traces


@pytest.fixture
def bursty(tmp_path: Path) -> Path:
    arrivals = sorted(0.5 * (k // 6) + 0.004 * (k % 6) for k in range(60))
    return traces.written(tmp_path, arrivals, output_tokens=[2 + k % 19 for k in range(60)])


def simulated(trace: Path, out: Path, *arguments: object, name: str) -> tuple[Path, dict[str, Any]]:
    ran = command.run("simulate", trace, *arguments, "--out-dir", out, "--name", name, "--json")
    assert ran.returncode == 0, ran.stderr
    (folder,) = out.glob(f"{name}-*")
    return folder, json.loads(ran.stdout)


def latency(document: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = document["windows"][0]["metrics"]["latency"]
    return found


def test_its_run_is_reported_and_compared_like_any_other(bursty: Path, tmp_path: Path) -> None:
    static, slow = simulated(bursty, tmp_path / "runs", "--policy", "dynamic", name="static")
    joined, fast = simulated(bursty, tmp_path / "runs", "--policy", "continuous", name="joined")
    assert latency(fast)["mean"] < latency(slow)["mean"]

    facts = json.loads((static / "run.json").read_text())
    assert facts["simulated"]["cost_model"]["prefill_us"] > 0
    assert facts["target"]["facts"]["flags"]["max_batch_size"] == 8
    records = pq.read_table(static / "requests.parquet")
    assert records.schema.equals(SCHEMA)
    for row in records.to_pylist():
        assert row["outcome"] == "ok"
        assert row["output_tokens"] == row["output_tokens_planned"] == len(row["chunk_gap_us"]) + 1
        moments = [row[name] for name in ("planned_ns", "first_token_ns", "last_token_ns")]
        assert moments == sorted(moments)
        gaps_ns = sum(row["chunk_gap_us"]) * 1000
        assert abs(row["last_token_ns"] - row["first_token_ns"] - gaps_ns) < 2_000

    shown = command.run("report", static)
    assert shown.returncode == 0
    assert "simulated" in shown.stdout.splitlines()[0]
    compared = command.run("compare", static, "--to", joined, "--json")
    assert compared.returncode == 3, compared.stderr  # one run a side is weak evidence
    assert json.loads(compared.stdout)["cells"]


def test_the_same_seed_gives_the_same_run(bursty: Path, tmp_path: Path) -> None:
    tables = [
        pq.read_table(
            simulated(bursty, tmp_path, "--inject-peak", "--seed", 3, name=name)[0] / "requests.parquet"
        )
        for name in ("one", "two")
    ]
    assert tables[0].equals(tables[1])


def test_a_full_queue_and_a_limit_of_time_fail_requests_as_the_server_does(
    bursty: Path, tmp_path: Path
) -> None:
    folder, document = simulated(
        bursty, tmp_path, "--serve", "--policy serial --timeout 400ms", "--max-queue-size", 3, name="tight"
    )  # fmt: skip
    outcomes = {name: one["count"] for name, one in document["outcomes"].items()}
    assert set(outcomes) == {"ok", "rejected", "http_error", "stream_error"}
    rows = pq.read_table(folder / "requests.parquet").to_pylist()
    assert {row["outcome"]: row["status_code"] for row in rows} == {
        "ok": 200,
        "rejected": 429,
        "http_error": 504,
        "stream_error": 200,
    }
    assert all(
        (row["first_token_ns"] is None) == (row["outcome"] in ("rejected", "http_error")) for row in rows
    )


def test_telemetry_counts_what_the_servers_counters_would(bursty: Path, tmp_path: Path) -> None:
    folder, _ = simulated(bursty, tmp_path, "--policy", "dynamic", name="counted")
    rows = pq.read_table(folder / "requests.parquet").to_pylist()
    samples = pq.read_table(folder / "telemetry.parquet").to_pylist()
    last = {sample["name"]: sample["value"] for sample in samples}
    assert last["loadgen_target:useful_rows_total"] == pytest.approx(
        sum(row["output_tokens"] for row in rows)
    )
    assert last["loadgen_target:rows_total"] > last["loadgen_target:useful_rows_total"]
    assert last["vllm:num_requests_waiting"] == last["vllm:num_requests_running"] == 0


def test_a_fitted_model_can_be_kept_and_used_again(bursty: Path, tmp_path: Path) -> None:
    from simulate.test_cost_model import step_log

    log = step_log(tmp_path / "steps.parquet")
    cost = tmp_path / "cost.toml"
    _, fitted = simulated(bursty, tmp_path, "--fit", log, "--write-cost-model", cost, name="fitted")
    _, again = simulated(bursty, tmp_path, "--cost-model", cost, name="again")
    assert latency(fitted) == pytest.approx(latency(again), rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--policy", "null"], "null"),
        (["--policy", "clever"], "clever"),
        (["--serve", "--max-batch-size 0"], "--max-batch-size"),
        (["--cost-model", "none.toml"], "none.toml"),
        (["--fit", "none.parquet"], "none.parquet"),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_one_line(
    bursty: Path, arguments: list[str], named: str
) -> None:
    ran = command.run("simulate", bursty, *arguments)
    assert ran.returncode == 2
    assert named in ran.stderr
    assert "Traceback" not in ran.stderr


def test_what_is_made_of_a_simulated_run_says_that_it_is_simulated(bursty: Path, tmp_path: Path) -> None:
    one, _ = simulated(bursty, tmp_path, "--policy", "dynamic", name="one")
    other, _ = simulated(bursty, tmp_path, "--policy", "serial", name="other")
    page, markdown = tmp_path / "run.html", tmp_path / "compared.md"
    assert command.run("report", one, "--html", page, "--export", "vllm-json").returncode == 0
    assert "simulated, nothing was sent" in page.read_text(encoding="utf-8")
    assert json.loads((one / "export" / "vllm.json").read_text())["loadgen_simulated"] is True
    compared = command.run("compare", one, "--to", other, "--markdown", markdown)
    assert "simulated, nothing was sent: 1 of 1 candidate runs" in compared.stdout
    assert "simulated, nothing was sent: 1 of 1 base runs" in markdown.read_text(encoding="utf-8")
