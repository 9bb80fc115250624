"""EvalScope's workload traces: body, timestamp (epoch s or ISO), headers, request_id, completion_tokens.

Source: EvalScope perf, dataset `workload_trace`. body is the request as it was sent; of its texts only the lengths
in characters are kept. A stamp without a zone is UTC by the format. headers may hold keys and are not looked at.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import orjson

from loadgen.errors import TraceError
from loadgen.openai_texts import input_chars, input_ids
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.foreign.json_lines import count_of, first_keys, json_objects
from loadgen.trace.moments import UNIT_NS, calendar_ns, epoch_unit, number_ns

_NUMBER = re.compile(r"\d+(\.\d*)?")


class EvalscopeFormat:
    """EvalScope JSONL."""

    name = "evalscope"

    def looks_like(self, head: str) -> bool:
        return {"body", "timestamp"} <= first_keys(head)

    def read(self, text: str, *, unit: str | None) -> ForeignRequests:
        moments: list[int] = []
        columns: dict[str, list[Any]] = {
            name: [] for name in ("input_chars", "input_tokens", "output_tokens", "model", "stream")
        }
        is_local = False
        for line, document in json_objects(text):
            moment_ns, lacks_zone = _moment_ns(document.get("timestamp"), line, unit)
            is_local |= lacks_zone
            moments.append(moment_ns)
            body = _body(document.get("body"), line)
            columns["input_chars"].append(input_chars(body))
            columns["input_tokens"].append(input_ids(body))
            known = document.get("completion_tokens") is not None
            columns["output_tokens"].append(count_of(document, "completion_tokens", line) if known else None)
            model, stream = body.get("model"), body.get("stream")
            columns["model"].append(model if isinstance(model, str) else None)
            columns["stream"].append(stream if isinstance(stream, bool) else None)
        return ForeignRequests(
            moments_ns=np.array(moments, dtype=np.int64),
            columns={
                name: values if any(value is not None for value in values) else None
                for name, values in columns.items()
            },
            has_epoch=all(epoch_unit(moment_ns) == "ns" for moment_ns in moments),
            arrival_from="timestamp",
            unit=unit or "s",
            zone="UTC" if is_local else None,
            notes=("stamps without a zone are taken as UTC",) if is_local else (),
        )


def _moment_ns(value: object, line: int, unit: str | None) -> tuple[int, bool]:
    """(ns, whether it is of a calendar without a zone)."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return number_ns(str(value), UNIT_NS[unit or "s"]), False
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            return number_ns(value, UNIT_NS[unit or "s"]), False
        if isinstance(value, str):
            ns, offset_ns = calendar_ns(value)
            return ns - (offset_ns or 0), offset_ns is None
    except ValueError as exc:
        raise TraceError(f"line {line}: timestamp: {exc}") from exc
    raise TraceError(f"line {line}: timestamp is missing, or neither a number nor a text")


def _body(value: object, line: int) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError as exc:
            raise TraceError(f"line {line}: body is no JSON") from exc
    if not isinstance(value, dict):
        raise TraceError(f"line {line}: body is no object")
    return value
