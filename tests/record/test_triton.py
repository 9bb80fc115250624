"""Triton's trace: entries of one id joined, on a clock without an epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from loadgen.trace.parquet import read_trace
from support.logs import counts, recorded, rows

AT = 2_259_961_222_771_924


def entry(number: int, stamps: dict[str, int] | None = None, **fields: Any) -> dict[str, Any]:
    listed = [{"name": name, "ns": AT + ns} for name, ns in (stamps or {}).items()]
    return {"id": number, **({"timestamps": listed} if listed else {}), **fields}


MODEL: dict[str, Any] = {"model_name": "demo", "model_version": 1}
HTTP = {"HTTP_RECV_START": 0, "REQUEST_START": 40, "REQUEST_END": 900, "HTTP_SEND_END": 1000}


def test_entries_of_one_id_are_joined_and_only_gaps_are_known(tmp_path: Path) -> None:
    entries = [
        entry(2, {"HTTP_RECV_START": 500, "HTTP_SEND_END": 700}, **MODEL),
        entry(1, **MODEL),
        *(entry(1, {name: ns}) for name, ns in HTTP.items()),
    ]
    recording = recorded(tmp_path, json.dumps(entries))
    assert recording.fidelity.format_name == "triton"
    assert [(row["arrival_ns"], row["duration_ns"], row["model"]) for row in rows(recording)] == [
        (0, 1000, "demo"),
        (500, 200, "demo"),
    ]
    assert recording.trace.metadata.origin_unix_ns is None
    path = tmp_path / "trace.parquet"
    recording.write(path)
    assert read_trace(path).metadata.origin_unix_ns is None


def test_a_wait_for_a_request_is_not_its_arrival(tmp_path: Path) -> None:
    entries = [
        entry(1, {"HTTP_RECV_START": 0}, **MODEL),
        entry(2, {"GRPC_WAITREAD_START": -90, "GRPC_WAITREAD_END": 10, "REQUEST_START": 40}, **MODEL),
    ]
    recording = recorded(tmp_path, json.dumps(entries, indent=1))
    assert [row["arrival_ns"] for row in rows(recording)] == [0, 10]


def test_older_names_and_several_arrays_are_read(tmp_path: Path) -> None:
    first = [entry(1, {"http recv start": 0, "request handler end": 900}, **MODEL)]
    second = [entry(2, {"http recv start": 30}, **MODEL)]
    recording = recorded(tmp_path, json.dumps(first) + "\n" + json.dumps(second) + "\n")
    assert [(row["arrival_ns"], row["duration_ns"]) for row in rows(recording)] == [(0, 900), (30, None)]


def test_parts_of_an_ensemble_and_traces_without_a_start_are_other(tmp_path: Path) -> None:
    entries = [entry(1, HTTP, **MODEL), entry(2, HTTP, parent_id=1, **MODEL), entry(3, **MODEL)]
    assert counts(recorded(tmp_path, json.dumps(entries))) == (1, 2, 0)


def test_a_tensor_of_token_ids_gives_the_length(tmp_path: Path) -> None:
    tensor = {"name": "input_ids", "data": "1,2,3", "shape": "1,3", "dtype": "INT32"}
    entries = [
        entry(1, HTTP, **MODEL),
        entry(1, activity="TENSOR_QUEUE_INPUT", tensor=tensor),
        entry(1, activity="TENSOR_QUEUE_INPUT", tensor=tensor | {"name": "temperature", "shape": "1"}),
        entry(1, activity="TENSOR_BACKEND_OUTPUT", tensor=tensor | {"shape": "1,99"}),
    ]
    assert rows(recorded(tmp_path, json.dumps(entries)))[0]["input_tokens"] == 3


def test_what_is_no_entry_is_malformed_and_sampling_is_told(tmp_path: Path) -> None:
    entries = [entry(1, HTTP, **MODEL), {"id": "x"}, {"id": 2, "timestamps": [{"name": "QUEUE_START"}]}]
    recording = recorded(tmp_path, json.dumps(entries))
    assert counts(recording) == (1, 1, 2)
    assert any("N-th request" in text for text in recording.fidelity.warnings)
