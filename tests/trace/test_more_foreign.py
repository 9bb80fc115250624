"""Traces of Bailian, AIPerf, EvalScope and ServeGen; and Mooncake there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import TraceError
from loadgen.trace.assemble import assemble_trace
from loadgen.trace.foreign.catalog import read_foreign
from loadgen.trace.foreign.mooncake import write_mooncake
from loadgen.trace.trace import Trace, TraceMetadata

SERVEGEN = Path(__file__).resolve().parents[3] / "shared" / "traces" / "servegen_deepseek-r1"


def read_lines(tmp_path: Path, *documents: dict[str, Any], format_name: str = "auto") -> Trace:
    path = tmp_path / "source.jsonl"
    path.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
    return read_foreign(path, format_name=format_name)


def column(trace: Trace, name: str) -> list[Any]:
    return list(trace.table.column(name).to_pylist())


def test_turns_of_bailian_are_one_session(tmp_path: Path) -> None:
    rows = [(159, -1, 61.114, 1), (160, -1, 62.5, 1), (161, 159, 70.25, 2), (162, 161, 80.0, 3)]
    trace = read_lines(
        tmp_path,
        *(
            {"chat_id": chat, "parent_chat_id": parent, "timestamp": at_s, "input_length": 521,
             "output_length": 132, "type": "text", "turn": turn, "hash_ids": [1089, 1090]}
            for chat, parent, at_s, turn in rows
        ),
    )  # fmt: skip
    assert trace.metadata.recorder["format"] == "bailian"
    assert trace.arrival_ns.tolist() == [0, 1_386_000_000, 9_136_000_000, 18_886_000_000]
    assert column(trace, "session") == [0, 1, 0, 0]
    assert trace.metadata.prefix_block_tokens == 16


def test_delays_of_aiperf_are_counted_from_the_turn_before(tmp_path: Path) -> None:
    trace = read_lines(
        tmp_path,
        {"session_id": "a", "timestamp": 100, "input_length": 5, "output_length": 2},
        {"session_id": "b", "timestamp": 150.5, "text_input": "häh?", "output_length": 3},
        {"session_id": "a", "delay": 1000, "input_length": 9, "output_length": 4},
    )
    assert trace.metadata.recorder["format"] == "aiperf"
    assert trace.arrival_ns.tolist() == [0, 50_500_000, 1_000_000_000]
    assert column(trace, "session") == [0, 1, 0]
    assert column(trace, "input_tokens") == [5, None, 9]
    assert column(trace, "input_chars") == [None, 4, None]
    assert "too early" in trace.metadata.warnings[0]


def test_turns_within_a_line_of_aiperf(tmp_path: Path) -> None:
    turns = [{"timestamp": 0, "text": "abc"}, {"delay": 20, "text": "abcdef"}]
    trace = read_lines(tmp_path, {"session_id": "s", "turns": turns})
    assert trace.arrival_ns.tolist() == [0, 20_000_000]
    assert column(trace, "input_chars") == [3, 6]
    assert column(trace, "session") == [0, 0]


def test_payloads_without_times_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="without times"):
        read_lines(tmp_path, {"data": [{"session_id": "s", "payloads": [{"messages": []}]}]})
    with pytest.raises(TraceError, match="a first turn has no timestamp"):
        read_lines(tmp_path, {"session_id": "s", "delay": 5, "input_length": 3})


def test_evalscope_keeps_lengths_and_nothing_else(tmp_path: Path) -> None:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "a secret"}]}
    trace = read_lines(
        tmp_path,
        {
            "body": body,
            "timestamp": 1_700_000_000.25,
            "headers": {"authorization": "key"},
            "completion_tokens": 7,
        },
        {"body": json.dumps(body), "timestamp": "2023-11-14T22:13:20.500Z", "completion_tokens": None},
    )
    assert trace.metadata.origin_unix_ns == 1_700_000_000_250_000_000
    assert trace.arrival_ns.tolist() == [0, 250_000_000]
    assert column(trace, "input_chars") == [8, 8]
    assert column(trace, "output_tokens") == [7, None]
    assert "secret" not in str(trace.table.to_pylist()) + str(trace.metadata)


def client_set(folder: Path, **datasets: object) -> Path:
    """Two clients: Gamma gaps of 0.5 s for 100 s, and Weibull ones in the second window alone."""
    folder.mkdir()
    (folder / "chunk-0-trace.csv").write_text("0,2,1,Gamma,1,0.5\n50,2,1,Gamma,1,0.5\n", encoding="utf-8")
    (folder / "chunk-1-trace.csv").write_text("0,0,0,,0,0\n50,4,1,Weibull,1,0.25\n", encoding="utf-8")
    for name, document in datasets.items():
        (folder / f"{name.replace('_', '-')}-dataset.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


LENGTHS = {"0": {"input_tokens": "{10: 0.5, 20: 0.5}", "output_tokens": "{3: 1.0}"}}


def test_servegen_draws_the_same_for_the_same_seed(tmp_path: Path) -> None:
    folder = client_set(tmp_path / "set", chunk_0=LENGTHS)
    first, again, other = (read_foreign(folder, seed=seed) for seed in (1, 1, 2))
    assert first.trace_id == again.trace_id != other.trace_id
    # 2/s for 100 s and 4/s for 50 s: 400, give or take four standard deviations of a Poisson count.
    assert 320 < first.num_rows < 480
    assert set(column(first, "input_tokens")) == {10, 20}
    assert set(column(first, "output_tokens")) == {3}
    assert any("1 clients have no" in warning for warning in first.metadata.warnings)
    # Client 1 is silent in the first half.
    assert np.count_nonzero(first.arrival_ns < 50 * 10**9) < np.count_nonzero(first.arrival_ns >= 50 * 10**9)


def test_what_one_client_draws_does_not_depend_on_the_others(tmp_path: Path) -> None:
    both = client_set(tmp_path / "both", chunk_0=LENGTHS, chunk_1=LENGTHS)
    alone = client_set(tmp_path / "alone", chunk_0=LENGTHS)
    (alone / "chunk-1-trace.csv").unlink()
    moments = {
        name: set(read_foreign(folder).arrival_ns.tolist())
        for name, folder in (("both", both), ("alone", alone))
    }
    assert len(moments["alone"] & moments["both"]) > 0.9 * len(moments["alone"])


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("chunk-0-trace.csv", "0,a,b\n", "chunk-0-trace.csv"),
        ("chunk-0-dataset.json", '{"0": {"input_tokens": "{1:"}}', "chunk-0-dataset.json"),
    ],
)
def test_a_broken_file_of_a_client_set_is_named(tmp_path: Path, file: str, text: str, message: str) -> None:
    folder = client_set(tmp_path / "set", chunk_0=LENGTHS)
    (folder / file).write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=message):
        read_foreign(folder)


def test_a_folder_that_is_no_client_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no ServeGen client set"):
        read_foreign(tmp_path)


@pytest.mark.skipif(not SERVEGEN.is_dir(), reason="the folder of public traces is not here")
def test_the_published_set_has_its_published_rate() -> None:
    trace = read_foreign(SERVEGEN)
    # 144 windows of 600 s at 16.01/s on average.
    assert trace.num_rows / 86_400 == pytest.approx(16.01, rel=0.02)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 10**15), st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1),
        st.none() | st.lists(st.integers(0, 2**62), max_size=3),
    ),
    min_size=1, max_size=20,
)  # fmt: skip


@given(ROWS)
def test_mooncake_there_and_back_is_equal(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    moments, inputs, outputs, blocks = zip(*rows, strict=True)
    has_blocks = any(ids is not None for ids in blocks)
    metadata = TraceMetadata(None, "arrival", "made", prefix_block_tokens=512 if has_blocks else None)
    columns = {"input_tokens": list(inputs), "output_tokens": list(outputs), "prefix_blocks": list(blocks)}
    trace = assemble_trace(np.array(moments, dtype=np.int64), columns, metadata)
    path = tmp_path_factory.mktemp("there") / "trace.jsonl"
    write_mooncake(trace, path)
    assert read_foreign(path, format_name="mooncake", unit="ms").trace_id == trace.trace_id


def test_small_blocks_are_joined_for_mooncake(tmp_path: Path) -> None:
    metadata = TraceMetadata(None, "arrival", "made", prefix_block_tokens=256)
    columns = {
        "input_tokens": [1000, 600],
        "output_tokens": [1, 1],
        "prefix_blocks": [[1, 2, 3, 4], [1, 2, 9]],
    }
    write_mooncake(assemble_trace(np.array([0, 1]), columns, metadata), tmp_path / "out.jsonl")
    written = [json.loads(line)["hash_ids"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert written == [[2, 4], [2, 9]]
