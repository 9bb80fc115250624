"""Traces of Bailian, AIPerf, EvalScope and ServeGen; and Mooncake there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import TraceError
from loadgen.trace.assemble import assemble_trace
from loadgen.trace.foreign.catalog import read_foreign
from loadgen.trace.foreign.mooncake import write_mooncake
from loadgen.trace.parquet import read_trace
from loadgen.trace.trace import Trace, TraceMetadata
from support import command
from support.traces import written

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


def bailian(chat: int, parent: int, at_s: float, **more: Any) -> dict[str, Any]:
    """One line of a Bailian trace."""
    return {
        "chat_id": chat,
        "parent_chat_id": parent,
        "timestamp": at_s,
        "input_length": 5,
        "output_length": 2,
        **more,
    }


def test_turns_of_bailian_go_back_to_their_first_one_whatever_their_order(tmp_path: Path) -> None:
    trace = read_lines(
        tmp_path,
        bailian(3, 2, 3.0),
        bailian(2, 1, 2.0, type="search"),
        bailian(1, -1, 1.0, type="text"),
        # The turn before is not in the file: its answers still belong together.
        bailian(8, 99, 4.0, type="search"),
        bailian(9, 99, 5.0),
        # Ancestors of themselves.
        bailian(20, 21, 6.0),
        bailian(21, 20, 7.0),
    )
    assert column(trace, "session") == [0, 0, 0, 1, 1, 2, 2]
    assert trace.metadata.prefix_block_tokens is None
    assert trace.metadata.warnings == ("types other than text are kept as their lengths alone: 2 search",)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"chat_id": "a"}, "line 2: chat_id and parent_chat_id are no whole numbers"),
        ({"hash_ids": [1, "x"]}, "line 2: hash_ids is no list of whole numbers"),
        ({"hash_ids": [2**63]}, "line 2: hash_ids is no list of whole numbers"),
        ({"output_length": 1.5}, "line 2: output_length is 1.5"),
        ({"timestamp": "soon"}, "line 2: timestamp: no number"),
    ],
)
def test_a_broken_line_of_bailian_is_named(tmp_path: Path, broken: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_lines(tmp_path, bailian(1, -1, 0.0), bailian(2, -1, 1.0) | broken)
    assert message in caught.value.message


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
    # The second turn is sent behind the first and its answer.
    assert column(trace, "input_tokens") == [5, None, 5 + 2 + 9]
    assert column(trace, "input_chars") == [None, 4, None]
    early, behind = trace.metadata.warnings
    assert early.startswith("1 turns have no time of their own")
    assert behind.startswith("1 turns are counted with the turns before them")


def test_turns_within_a_line_of_aiperf(tmp_path: Path) -> None:
    turns = [{"timestamp": 0, "text": "abc"}, {"delay": 20, "text": "abcdef"}]
    trace = read_lines(tmp_path, {"session_id": "s", "turns": turns})
    assert trace.arrival_ns.tolist() == [0, 20_000_000]
    assert column(trace, "input_chars") == [3, 9]
    assert column(trace, "session") == [0, 0]


@pytest.mark.parametrize(
    ("turn", "tokens", "chars"),
    [
        ({"input_length": 600}, 1200 + 7 + 600, None),
        ({"input_length": 600, "context_mode": "message_array_with_responses"}, 600, None),
        ({"messages": [{"role": "user", "content": "all of it"}]}, None, 9),
        ({"payload": {"prompt": "whole", "model": "m", "stream": True}}, None, 5),
        ({"text": "apart"}, None, 5),
    ],
)
def test_a_turn_of_aiperf_that_holds_all_is_taken_as_it_is(
    tmp_path: Path, turn: dict[str, Any], tokens: int | None, chars: int | None
) -> None:
    first = {
        "session_id": 7,
        "timestamp": 0,
        "input_length": 1200,
        "output_length": 7,
        "hash_ids": [4, 5, 6],
    }
    trace = read_lines(tmp_path, first, {"session_id": 7, "timestamp": 9, **turn})
    assert column(trace, "input_tokens") == [1200, tokens]
    assert column(trace, "input_chars") == [None, chars]
    # Whole blocks of the first turn lead the second one; what follows does not begin with a block.
    assert column(trace, "prefix_blocks") == [[4, 5, 6], [4, 5] if tokens == 1807 else None]
    assert column(trace, "model")[1] == turn.get("payload", {}).get("model")


def test_a_delta_of_messages_is_put_behind_those_before(tmp_path: Path) -> None:
    def line(at_ms: int, text: str) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return {"session_id": "a", "message_mode": "delta", "messages": messages, "timestamp": at_ms}

    assert column(read_lines(tmp_path, line(0, "abc"), line(5, "de")), "input_chars") == [3, 5]


@pytest.mark.parametrize("prompt", ["short", "long " * 30_000])
def test_what_only_a_later_line_shows_tells_the_format(tmp_path: Path, prompt: str) -> None:
    plain = {"timestamp": 0, "input_length": 5, "output_length": 2}
    trace = read_lines(tmp_path, plain, {"text_input": prompt, "timestamp": 4, "session_id": "s"})
    assert trace.metadata.recorder["format"] == "aiperf"
    assert column(trace, "input_chars") == [None, len(prompt)]


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


@pytest.mark.parametrize(
    ("stamps", "origin_ns", "zone"),
    [
        (["2023-11-14T22:13:20", "2023-11-14 22:13:20.5"], 1_700_000_000 * 10**9, "UTC"),
        (["1700000000", "1700000000.5"], 1_700_000_000 * 10**9, None),
        ([0.0, 0.5], None, None),
    ],
)
def test_stamps_of_evalscope_may_be_of_any_kind(
    tmp_path: Path, stamps: list[Any], origin_ns: int | None, zone: str | None
) -> None:
    trace = read_lines(tmp_path, *({"body": {"prompt": "ab"}, "timestamp": stamp} for stamp in stamps))
    assert trace.metadata.recorder["format"] == "evalscope"
    assert trace.arrival_ns.tolist() == [0, 500_000_000]
    assert (trace.metadata.origin_unix_ns, trace.metadata.zone) == (origin_ns, zone)


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
    # 2/s for 100 s and 4/s for 50 s.
    assert first.num_rows == 400
    assert first.metadata.recorder["seed"] == 1
    assert [source.name for source in first.metadata.sources] == ["set"]
    assert first.metadata.counts["out_of_order"] == 0
    assert set(column(first, "input_tokens")) == {10, 20}
    assert set(column(first, "output_tokens")) == {3}
    assert any("1 clients have no" in warning for warning in first.metadata.warnings)
    # Client 1 is silent in the first half. The first request stands at 0, wherever it came in its window.
    assert 250 < np.count_nonzero(first.arrival_ns >= 50 * 10**9) <= 300


def test_servegen_draws_as_many_within_as_long_as_the_client_was_busy(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    # 60 requests in 600 s, with gaps of 0.5 * 1 s in the mean: busy for 29.5 s; then 4 in a window of no law.
    rows = "0,0.1,1.4,Gamma,0.5,1\n600,0,0,,0,0\n1200,0.00666666666,0,,0,0\n"
    (folder / "chunk-5-trace.csv").write_text(rows, encoding="utf-8")
    for seed in range(5):
        arrivals_s = read_foreign(folder, seed=seed).arrival_ns / 1e9
        assert len(arrivals_s) == 64
        assert arrivals_s[59] == pytest.approx(29.5)
        assert 600 < arrivals_s[60] < 1800


def test_a_law_of_longer_gaps_than_there_is_room_for_fills_the_window(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "chunk-1-trace.csv").write_text("0,0.5,1,Weibull,1,99\n600,0,0,,0,0\n", encoding="utf-8")
    trace = read_foreign(folder, seed=1)
    assert trace.num_rows == 300
    assert 500 < trace.span_s < 600


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
        ("chunk-0-trace.csv", "0,1,1,Gamma,0,0\n", "chunk-0-trace.csv"),
        ("chunk-0-dataset.json", '{"0": {"input_tokens": "{1:"}}', "chunk-0-dataset.json"),
        (
            "chunk-0-dataset.json",
            '{"0": {"input_tokens": "{1.5: 1}", "output_tokens": "{1: 1}"}}',
            "chunk-0-dataset.json",
        ),
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
    # 144 windows of 600 s: mean, least and peak rate of all clients together.
    assert trace.num_rows / 86_400 == pytest.approx(16.01, abs=0.01)
    # The first request is at 0 here, and a little later in its window there.
    rates = np.bincount(trace.arrival_ns // (600 * 10**9)) / 600
    assert rates.min() == pytest.approx(4.31, rel=0.03)
    assert rates.max() == pytest.approx(42.52, rel=0.03)


# All that the columns hold; lengths in tokens are known, and prefix blocks stand for 512 of them.
SMALL = st.none() | st.integers(0, 2**31 - 1)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            # Up to 46 days, to the ns.
            "moment_ns": st.integers(0, 4 * 10**15),
            "input_tokens": st.integers(0, 2**31 - 1),
            "output_tokens": st.integers(0, 2**31 - 1),
            "input_chars": SMALL,
            "output_bytes": SMALL,
            "duration_ns": st.none() | st.integers(0, 2**62),
            "status": st.none() | st.integers(100, 599),
            "model": st.none() | st.text(max_size=5),
            "session": SMALL,
            "stream": st.none() | st.booleans(),
            "prefix_blocks": st.none() | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
        }
    ),
    min_size=1,
    max_size=20,
)


@settings(deadline=None, max_examples=50)
@given(ROWS, st.none() | st.integers(10**18, 2 * 10**18))
def test_mooncake_there_and_back_is_equal(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], origin_ns: int | None
) -> None:
    has_blocks = any(row["prefix_blocks"] is not None for row in rows)
    metadata = TraceMetadata(origin_ns, "arrival", "made", prefix_block_tokens=512 if has_blocks else None)
    columns = {name: [row[name] for row in rows] for name in rows[0] if name != "moment_ns"}
    moments = np.array([row["moment_ns"] + (origin_ns or 0) for row in rows], dtype=np.int64)
    trace = assemble_trace(moments, columns, metadata)
    path = tmp_path_factory.mktemp("there") / "trace.jsonl"
    write_mooncake(trace, path)
    again = read_foreign(path, format_name="mooncake")
    assert again.table.to_pylist() == trace.table.to_pylist()
    assert again.trace_id == trace.trace_id
    assert again.metadata.origin_unix_ns == trace.metadata.origin_unix_ns
    assert again.metadata.prefix_block_tokens == trace.metadata.prefix_block_tokens


def test_what_mooncake_has_no_field_for_is_told_and_left_to_one_field(tmp_path: Path) -> None:
    metadata = TraceMetadata(1_700_000_000 * 10**9, "arrival", "made")
    columns = {"input_tokens": [5, 6], "output_tokens": [1, 2], "session": [0, None], "model": [None, "m"]}
    trace = assemble_trace(np.array([0, 1_500_000]) + 1_700_000_000 * 10**9, columns, metadata)
    told = write_mooncake(trace, tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == [
        {
            "timestamp": 0,
            "input_length": 5,
            "output_length": 1,
            "loadgen": {"session": 0, "origin_unix_ns": 1_700_000_000 * 10**9},
        },
        {"timestamp": 1.5, "input_length": 6, "output_length": 2, "loadgen": {"model": "m"}},
    ]
    assert told == (
        "1 timestamps have decimals of a ms: readers of whole ms cut or refuse them",
        "only loadgen reads back, from the field 'loadgen': model, session, the first moment",
    )


def test_a_plain_trace_is_written_without_more_fields_and_nothing_is_told(tmp_path: Path) -> None:
    columns = {"input_tokens": [5], "output_tokens": [1], "prefix_blocks": [[3]]}
    trace = assemble_trace(
        np.array([0]), columns, TraceMetadata(None, "arrival", "made", prefix_block_tokens=512)
    )
    assert write_mooncake(trace, tmp_path / "out.jsonl") == ()
    line = json.loads((tmp_path / "out.jsonl").read_text())
    assert line == {"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [3]}


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


def test_the_command_converts_there_and_back_and_tells_what_others_will_not_find(tmp_path: Path) -> None:
    source = written(tmp_path, [0.0, 0.0005, 2.0], session=[0, 0, 1])
    out = command.run("trace", "convert", source, "--to", "mooncake", "-o", tmp_path / "out.jsonl")
    assert out.returncode == 0
    assert "note: 1 timestamps have decimals" in out.stderr
    assert "note: only loadgen reads back, from the field 'loadgen': session" in out.stderr
    back = command.run("trace", "convert", tmp_path / "out.jsonl", "-o", tmp_path / "back.parquet")
    assert back.returncode == 0
    assert read_trace(tmp_path / "back.parquet").trace_id == read_trace(source).trace_id


def test_the_command_draws_from_a_client_set_by_its_seed(tmp_path: Path) -> None:
    folder = client_set(tmp_path / "set", chunk_0=LENGTHS)
    done = command.run("trace", "convert", folder, "--seed", 3, "--json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["metadata"]["recorder"]["seed"] == 3
    assert told["trace_id"] == read_foreign(folder, seed=3).trace_id
    assert (tmp_path / "set.parquet").exists()
