"""nginx access logs as JSON: msec and request_time, so arrival = msec - request_time.

$msec is taken at completion and is exact to 1 ms; it is a string or a number.
The names are those of nginx's variables.
"""

from __future__ import annotations

from loadgen.record.json_lines import JsonLayout, JsonLinesFormat


class NginxJsonFormat(JsonLinesFormat):
    """nginx JSON lines."""

    layout = JsonLayout(
        keys=("msec", "request_time"),
        time=("msec",),
        time_unit="s",
        marks="completion",
        duration="request_time",
        lengths={"input_bytes": ("request_length",), "output_bytes": ("bytes_sent", "body_bytes_sent")},
        status="status",
        request="request",
        method="request_method",
        target="request_uri",
    )
