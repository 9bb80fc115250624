"""Mooncake traces, in and out: timestamp (ms), input_length, output_length, hash_ids.

Source: github.com/kvcache-ai/Mooncake. timestamp is ms since the start by the format's definition; some
writers put seconds there, so the unit can be given. One hash id for each 512 tokens of the prompt; equal
ids are equal blocks.

What a trace knows beyond these fields is written as an object `loadgen` in each line that has some of it, which
other readers leave alone: sessions, models, status, measured times, other lengths, and the origin of the clock.
session_id would be read, by AIPerf as turns to be sent behind those before, and is not used.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from loadgen.atomic_file import replacing
from loadgen.errors import TraceError
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.foreign.json_lines import count_of, first_keys, ids_of, json_objects, moment_of
from loadgen.trace.moments import UNIT_NS, epoch_unit
from loadgen.trace.schema import SCHEMA
from loadgen.trace.trace import Trace

BLOCK_TOKENS = 512
# Of other readers' fields none is called so.
_BEYOND = "loadgen"
_ORIGIN = "origin_unix_ns"
_OWN_COLUMNS = ("arrival_ns", "input_tokens", "output_tokens", "prefix_blocks")
_OTHER_COLUMNS = tuple(name for name in SCHEMA.names if name not in _OWN_COLUMNS)


class MooncakeFormat:
    """Mooncake JSONL."""

    name = "mooncake"

    def looks_like(self, head: str) -> bool:
        keys = first_keys(head)
        return {"timestamp", "input_length", "output_length"} <= keys

    def read(self, text: str, *, unit: str | None) -> ForeignRequests:
        stated = unit or _epoch_unit_of_first(text)
        unit_ns = UNIT_NS[stated or "ms"]
        moments: list[int] = []
        inputs: list[int] = []
        outputs: list[int] = []
        blocks: list[list[int] | None] = []
        others: dict[str, list[Any]] = {}
        origin_ns = None
        for line, document in json_objects(text):
            moments.append(moment_of(document, "timestamp", line, unit_ns))
            inputs.append(count_of(document, "input_length", line))
            outputs.append(count_of(document, "output_length", line))
            blocks.append(ids_of(document, "hash_ids", line))
            beyond = document.get(_BEYOND)
            if isinstance(beyond, dict):
                for name in _OTHER_COLUMNS:
                    if beyond.get(name) is not None:
                        # Rows before the first that has it: not known.
                        others.setdefault(name, []).extend([None] * (len(moments) - 1 - len(others[name])))
                        others[name].append(beyond[name])
                if type(beyond.get(_ORIGIN)) is int:
                    origin_ns = beyond[_ORIGIN]
        moments_ns = np.array(moments, dtype=np.int64) + (origin_ns or 0)
        has_blocks = any(ids is not None for ids in blocks)
        return ForeignRequests(
            moments_ns=moments_ns,
            columns={
                "input_tokens": inputs,
                "output_tokens": outputs,
                "prefix_blocks": blocks if has_blocks else None,
                **{name: values + [None] * (len(moments) - len(values)) for name, values in others.items()},
            },
            has_epoch=bool(moments) and (origin_ns is not None or epoch_unit(moments[0]) == "ns"),
            arrival_from="timestamp",
            unit=stated or "ms",
            prefix_block_tokens=BLOCK_TOKENS if has_blocks else None,
            notes=() if unit else (_unit_note(stated),),
        )


def _epoch_unit_of_first(text: str) -> str | None:
    """The unit of the first timestamp if it is so large that it can only be an epoch."""
    _, document = next(json_objects(text), (0, {}))
    first = document.get("timestamp")
    return epoch_unit(int(first)) if isinstance(first, int | float) else None


def _unit_note(guessed: str | None) -> str:
    if guessed:
        return f"timestamp is taken as epoch {guessed}, by its magnitude (--unit overrides)"
    return "timestamp is in ms by the format's definition (--unit overrides)"


def write_mooncake(trace: Trace, path: Path) -> tuple[str, ...]:
    """Write `trace` as Mooncake JSONL; returns what other readers will not find in it, in words.

    Timestamps are ms from the first arrival, with decimals where there are some. Smaller prefix blocks become
    blocks of 512 tokens: as each id stands for all blocks before it, too, the last of each 512 tokens is kept.
    Raises TraceError if a row lacks a token count, or if blocks do not fill 512.
    """
    block_tokens = trace.metadata.prefix_block_tokens or BLOCK_TOKENS
    if BLOCK_TOKENS % block_tokens:
        raise TraceError(
            f"prefix blocks stand for {block_tokens} tokens, which does not divide Mooncake's {BLOCK_TOKENS}"
        )
    in_one = BLOCK_TOKENS // block_tokens
    for column in ("input_tokens", "output_tokens"):
        missing = trace.table.column(column).null_count
        if missing:
            raise TraceError(
                f"{missing} of {trace.num_rows} rows lack {column}, which Mooncake requires",
                hint="record token counts, or keep the trace in its own format",
            )
    offsets_ns = trace.arrival_ns - trace.arrival_ns[0]
    beyond, known = _beyond(trace)
    rows = zip(
        offsets_ns.tolist(),
        *(trace.table.column(name).to_pylist() for name in _OWN_COLUMNS[1:]),
        beyond,
        strict=True,
    )
    buffer = io.BytesIO()
    for offset_ns, num_in, num_out, ids, more in rows:
        whole_ms, rest_ns = divmod(offset_ns, 10**6)
        row = {
            # The nearest double, which for 49 days tells one ns from the next.
            "timestamp": offset_ns / 10**6 if rest_ns else whole_ms,
            "input_length": num_in,
            "output_length": num_out,
        }
        if ids is not None:
            row["hash_ids"] = [ids[min(start + in_one, len(ids)) - 1] for start in range(0, len(ids), in_one)]
        if more:
            row[_BEYOND] = more
        buffer.write(orjson.dumps(row) + b"\n")
    with replacing(path) as aside:
        aside.write_bytes(buffer.getvalue())
    return tuple(_losses(trace, offsets_ns, in_one, known))


def _beyond(trace: Trace) -> tuple[list[dict[str, Any]], list[str]]:
    """What each row knows that Mooncake has no field for, and the names of it."""
    beyond: list[dict[str, Any]] = [{} for _ in range(trace.num_rows)]
    known = [name for name in _OTHER_COLUMNS if trace.table.column(name).null_count < trace.num_rows]
    for name in known:
        for row, value in zip(beyond, trace.table.column(name).to_pylist(), strict=True):
            if value is not None:
                row[name] = value
    if trace.metadata.origin_unix_ns is not None:
        beyond[0][_ORIGIN] = trace.metadata.origin_unix_ns + int(trace.arrival_ns[0])
        known.append("the first moment")
    return beyond, known


def _losses(
    trace: Trace, offsets_ns: npt.NDArray[np.int64], in_one: int, known: Sequence[str]
) -> Iterator[str]:
    has_decimals = np.count_nonzero(offsets_ns % 10**6)
    if has_decimals:
        yield f"{has_decimals} timestamps have decimals of a ms: readers of whole ms cut or refuse them"
    if known:
        yield f"only loadgen reads back, from the field {_BEYOND!r}: {', '.join(known)}"
    if in_one > 1:
        yield f"prefix blocks of {BLOCK_TOKENS // in_one} tokens were joined into blocks of {BLOCK_TOKENS}"
