"""TGI's log as text -> the same values as of its JSON log.

    2026-10-25T00:59:59.704511Z  INFO generate{parameters=... total_time="1.503122004s" validation_time="412.5µs"
    queue_time="61.2µs" inference_time="1.502648304s" time_per_token="21.4664ms" seed="None"}:
    text_generation_router::server: router/src/server.rs:402: Success

Source: router/src/server.rs and logging.rs of text-generation-inference. The times stand at the end of the
innermost span; the parameters before them may hold texts of the user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from loadgen.record.formats.source_prefix import SOURCE_PREFIX
from loadgen.record.json_columns import JsonColumns
from loadgen.record.line_batch import LineBatch

_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_STAMPED = re.compile(rb"%s(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z) +[A-Z]+ (.*)" % SOURCE_PREFIX)
_SUCCESS = re.compile(
    rb'.*[ {]total_time="([^"]*)" .*inference_time="([^"]*)" time_per_token="([^"]*)".*\}: ?'
    rb"text_generation_router\b.*: Success\s*$"
)
_SPAN = re.compile(rb"(?:.*?\}:)??(generate_stream|generate)\{")


def is_text_log(head: Sequence[bytes]) -> bool:
    """Whether one of these lines is one that the router or the launcher writes as text."""
    found = (_STAMPED.match(_COLOUR.sub(b"", line)) for line in head)
    return any(match is not None and b"text_generation_" in match[2] for match in found)


class TgiTextColumns:
    """Reads lines of text as JsonColumnReader reads those of JSON; lines of other messages have None everywhere."""

    def read(self, batch: LineBatch) -> JsonColumns:
        numbers: list[int] = []
        values: dict[str, list[str | None]] = {
            path: []
            for path in (
                "timestamp",
                "span.name",
                "span.total_time",
                "span.inference_time",
                "span.time_per_token",
            )
        }
        for index, line in enumerate(batch.lines()):
            stamped = _STAMPED.match(_COLOUR.sub(b"", line))
            found = None if stamped is None else _SUCCESS.match(stamped[2])
            if stamped is None or found is None:
                continue
            numbers.append(index)
            span = _SPAN.match(stamped[2])
            row = (stamped[1], span[1] if span else b"", *found.groups())
            for column, value in zip(values.values(), row, strict=True):
                column.append(value.decode("utf-8", "replace"))
        return JsonColumns(numbers, values, [])
