"""Caddy access logs: ts is the completion, so arrival = ts - duration.

ts is in epoch seconds as a float by default, or RFC 3339 by setting; duration is in seconds.
"""

from __future__ import annotations

from loadgen.record.json_lines import JsonLayout, JsonLinesFormat


class CaddyFormat(JsonLinesFormat):
    """Caddy JSON lines."""

    layout = JsonLayout(
        keys=("ts", "request", "duration", "size", "status"),
        time=("ts",),
        marks="completion",
        duration="duration",
        lengths={"input_bytes": ("bytes_read",), "output_bytes": ("size",)},
        status="status",
        method=("request.method",),
        target=("request.uri",),
    )
