"""CostModel: what steps cost, its file, and its fit to logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadgen.errors import UsageError
from loadgen.simulate.cost_model import CostModel, cost_model_from, cost_model_toml, read_cost_model
from loadgen.simulate.fitting import fit_cost_model

MODEL = CostModel(
    prefill_us=5_000,
    prefill_token_us=300,
    prefill_row_us=100,
    decode_us=((1, 4_000), (4, 4_000), (8, 6_000)),
    kv_token_ns=700,
    receive_us=1_200,
    reply_us=400,
)


@pytest.mark.parametrize(
    ("rows", "expected_us"), [(1, 4_000), (2, 4_000), (4, 4_000), (6, 5_000), (8, 6_000), (16, 10_000)]
)
def test_a_decode_step_lies_on_the_lines_between_the_known_row_counts(rows: int, expected_us: float) -> None:
    assert MODEL.decode_ns(rows, 0) == expected_us * 1000


def test_each_cache_position_and_each_prompt_token_cost_the_same() -> None:
    assert MODEL.decode_ns(1, 100) - MODEL.decode_ns(1, 0) == 70_000
    assert MODEL.prefill_ns(10, 2) == (5_000 + 3_000 + 200) * 1000


def test_the_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "cost.toml"
    path.write_text(cost_model_toml(MODEL, "made for a test"), encoding="utf-8")
    assert read_cost_model(path) == MODEL
    assert cost_model_from(MODEL.as_dict(), where="run.json") == MODEL


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("prefill = 3", "unknown key prefill"),
        ("prefill_us = -1", "prefill_us"),
        ("decode_us = [[8, 1], [1, 1]]", "decode_us"),
        ("decode_us = [[1, 0]]", "decode_us"),
        ("decode_us = []", "decode_us"),
        ("decode_us = 3", "another form"),
        ("prefill_us = nan", "prefill_us"),
        ("not toml", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_reason(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "cost.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=named):
        read_cost_model(path)


def step_log(path: Path, *, count: int = 400, pause_ns: int = 0, noise: float = 0.0) -> Path:
    """Steps that cost what MODEL says, back to back, and then a pause while nothing runs."""
    rng = np.random.default_rng(2)
    rows: list[dict[str, Any]] = []
    now = 0
    for number in range(count):
        num_rows = int(rng.choice([1, 4, 8]))
        is_prefill = number % 4 == 0
        tokens = int(rng.integers(4, 60)) * num_rows if is_prefill else num_rows
        kv = int(rng.integers(10, 200)) * num_rows
        took = MODEL.prefill_ns(tokens, num_rows) if is_prefill else MODEL.decode_ns(num_rows, kv)
        took = round(took * (1 + noise * rng.standard_normal()))
        rows.append(
            {
                "t_start_ns": now, "t_end_ns": now + took - pause_ns, "kind": "prefill" if is_prefill else "decode",
                "rows": num_rows, "new_tokens": tokens, "kv_tokens": kv, "num_running": num_rows,
            }
        )  # fmt: skip
        now += took
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_the_fit_finds_what_the_steps_cost(tmp_path: Path) -> None:
    fit = fit_cost_model([step_log(tmp_path / "steps.parquet")])
    assert (fit.prefills, fit.decodes) == (100, 300)
    assert fit.model.prefill_us == pytest.approx(5_000, rel=1e-3)
    assert fit.model.prefill_token_us == pytest.approx(300, rel=1e-3)
    assert fit.model.prefill_row_us == pytest.approx(100, rel=1e-2)
    assert fit.model.kv_token_ns == pytest.approx(700, rel=1e-2)
    assert dict(fit.model.decode_us) == pytest.approx({1: 4_000, 4: 4_000, 8: 6_000}, rel=1e-3)
    assert fit.error == pytest.approx(0, abs=1e-3)


def test_what_the_engine_does_between_two_steps_is_part_of_their_cost(tmp_path: Path) -> None:
    fit = fit_cost_model([step_log(tmp_path / "steps.parquet", pause_ns=500_000)])
    assert dict(fit.model.decode_us)[4] == pytest.approx(4_000, rel=1e-2)


def test_noise_leaves_the_time_in_all_right(tmp_path: Path) -> None:
    fit = fit_cost_model([step_log(tmp_path / "steps.parquet", count=2_000, noise=0.2)])
    assert abs(fit.error) < 0.02
    assert 0.08 < fit.spread < 0.2


def test_more_rows_never_cost_less(tmp_path: Path) -> None:
    fit = fit_cost_model([step_log(tmp_path / "steps.parquet", noise=0.4)])
    values = [us for _, us in fit.model.decode_us]
    assert values == sorted(values)


def test_reception_and_reply_come_from_a_request_log(tmp_path: Path) -> None:
    ok = {"recv_ns": 0, "enqueued_ns": 900_000, "last_token_ns": 5_000_000, "status": "ok"}
    rows: list[dict[str, Any]] = [{**ok, "finished_ns": 5_300_000 + wait} for wait in (0, 0, 0, 0, 9_000_000)]
    rows.append({**dict.fromkeys(ok), "recv_ns": 0, "finished_ns": 1, "status": "rejected"})
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "requests.parquet")
    fit = fit_cost_model([step_log(tmp_path / "steps.parquet"), tmp_path / "requests.parquet"])
    assert (fit.model.receive_us, fit.model.reply_us) == (900, 300)


def test_a_request_log_without_an_answer_tells_nothing(tmp_path: Path) -> None:
    names = ("recv_ns", "enqueued_ns", "last_token_ns", "finished_ns")
    pq.write_table(
        pa.table({**{name: pa.array([1], pa.int64()) for name in names}, "status": ["rejected"]}),
        tmp_path / "requests.parquet",
    )
    fit = fit_cost_model(
        [step_log(tmp_path / "steps.parquet"), tmp_path / "requests.parquet"],
        given=CostModel(receive_us=77, reply_us=88),
    )
    assert (fit.model.receive_us, fit.model.reply_us) == (77, 88)


def test_passes_that_read_and_decode_at_once_are_left_out_and_a_log_of_them_alone_is_refused(
    tmp_path: Path,
) -> None:
    path = step_log(tmp_path / "steps.parquet")
    plain = fit_cost_model([path])
    steps = pq.read_table(path).to_pylist()
    mixed = [{**step, "kind": "mixed", "t_start_ns": step["t_start_ns"] + 10**12} for step in steps]
    for step in mixed:
        step["t_end_ns"] = step["t_start_ns"] + 10**9
    pq.write_table(pa.Table.from_pylist([*steps, *mixed]), path)
    found = dict(fit_cost_model([path]).model.decode_us)
    assert found == pytest.approx(dict(plain.model.decode_us), rel=1e-2)
    pq.write_table(pa.Table.from_pylist(mixed), path)
    with pytest.raises(UsageError, match="0 prefill steps") as refused:
        fit_cost_model([path])
    assert "chunked-prefill" in str(refused.value.hint)


def test_a_file_that_is_no_log_and_a_log_too_short_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(UsageError, match="no step log and no request log"):
        fit_cost_model([tmp_path / "other.parquet"])
    with pytest.raises(UsageError, match="too few"):
        fit_cost_model([step_log(tmp_path / "short.parquet", count=40)])
    with pytest.raises(UsageError, match="cannot be read"):
        fit_cost_model([tmp_path / "none.parquet"])
