"""nginx access logs as JSON: msec and request_time, so arrival = msec - request_time.

$msec is taken at completion and is exact to 1 ms; it is a string or a number. Without it the completion is
$time_iso8601 or $time_local, in whole seconds. The names are those of nginx's variables, or those that the
documentation of ingress-nginx gives them (time, method, path).
"""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.record.json_lines import JsonLayout, JsonLinesFormat, has_keys

_COARSE = ("time_iso8601", "time_local", "time")
# What tells a `time` of nginx from one of any other program.
_SIZES = ("request_length", "bytes_sent", "body_bytes_sent")


class NginxJsonFormat(JsonLinesFormat):
    """nginx JSON lines."""

    layout = JsonLayout(
        keys=("request_time",),
        time=("msec", *_COARSE),
        whole_seconds=_COARSE,
        marks="completion",
        duration="request_time",
        lengths={
            "input_bytes": ("request_length", "content_length"),
            "output_bytes": ("bytes_sent", "body_bytes_sent"),
        },
        status="status",
        request="request",
        method=("request_method", "method"),
        target=("request_uri", "uri", "path"),
    )

    @classmethod
    def looks_like(cls, head: Sequence[bytes]) -> bool:
        """Whether one of these first lines has the names of a time and of the duration."""
        needed = [(time,) for time in cls.layout.time if time != "time"] + [("time", size) for size in _SIZES]
        return any(has_keys(head, (*cls.layout.keys, *names)) for names in needed)
