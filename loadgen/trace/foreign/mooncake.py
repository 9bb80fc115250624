"""Mooncake traces, in and out: timestamp (ms), input_length, output_length, hash_ids.

Source: github.com/kvcache-ai/Mooncake. timestamp is ms since the start by the format's definition; some
writers put seconds there, so the unit can be given. One hash id for each 512 tokens of the prompt; equal
ids are equal blocks.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import orjson

from loadgen.atomic_file import replacing
from loadgen.errors import TraceError
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.foreign.json_lines import count_of, first_keys, json_objects, moment_text
from loadgen.trace.moments import UNIT_NS, epoch_unit, number_ns
from loadgen.trace.trace import Trace

BLOCK_TOKENS = 512


class MooncakeFormat:
    """Mooncake JSONL."""

    name = "mooncake"

    def looks_like(self, head: str) -> bool:
        keys = first_keys(head)
        return {"timestamp", "input_length", "output_length"} <= keys

    def read(self, text: str, *, unit: str | None) -> ForeignRequests:
        stated = unit or _epoch_unit_of_first(text)
        unit_ns = UNIT_NS[stated or "ms"]
        moments_ns: list[int] = []
        inputs: list[int] = []
        outputs: list[int] = []
        blocks: list[list[int] | None] = []
        for line, document in json_objects(text):
            try:
                moments_ns.append(number_ns(moment_text(document, "timestamp", line), unit_ns))
            except ValueError as exc:
                raise TraceError(f"line {line}: timestamp: {exc}") from exc
            inputs.append(count_of(document, "input_length", line))
            outputs.append(count_of(document, "output_length", line))
            blocks.append(document.get("hash_ids"))
        has_blocks = any(ids is not None for ids in blocks)
        return ForeignRequests(
            moments_ns=np.array(moments_ns, dtype=np.int64),
            columns={
                "input_tokens": inputs,
                "output_tokens": outputs,
                "prefix_blocks": blocks if has_blocks else None,
            },
            has_epoch=bool(moments_ns) and epoch_unit(moments_ns[0]) == "ns",
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


def write_mooncake(trace: Trace, path: Path) -> None:
    """Write `trace` as Mooncake JSONL: timestamps in ms from the first arrival, with decimals where there are some.

    Smaller prefix blocks become blocks of 512 tokens: as each id stands for all blocks before it, too, the last
    of each 512 tokens is kept. Raises TraceError if a row lacks a token count, or if blocks do not fill 512.
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
    inputs = trace.table.column("input_tokens").to_pylist()
    outputs = trace.table.column("output_tokens").to_pylist()
    blocks = trace.table.column("prefix_blocks").to_pylist()
    buffer = io.BytesIO()
    first_ns = int(trace.arrival_ns[0])
    for arrival_ns, num_in, num_out, ids in zip(
        trace.arrival_ns.tolist(), inputs, outputs, blocks, strict=True
    ):
        whole_ms, rest_ns = divmod(arrival_ns - first_ns, 10**6)
        row = {
            # Shorter than 16 digits for a year and more, so that a double holds each ns.
            "timestamp": whole_ms + rest_ns / 10**6 if rest_ns else whole_ms,
            "input_length": num_in,
            "output_length": num_out,
        }
        if ids is not None:
            row["hash_ids"] = [ids[min(start + in_one, len(ids)) - 1] for start in range(0, len(ids), in_one)]
        buffer.write(orjson.dumps(row) + b"\n")
    with replacing(path) as aside:
        aside.write_bytes(buffer.getvalue())
