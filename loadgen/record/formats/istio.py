"""Envoy and Istio access logs as JSON: start_time is the arrival, in ms, UTC.

duration is in ms from start to last byte; bytes are those of the bodies. Values are numbers or strings by version.
"""

from __future__ import annotations

from loadgen.record.json_lines import JsonLayout, JsonLinesFormat


class IstioFormat(JsonLinesFormat):
    """Envoy and Istio JSON lines."""

    layout = JsonLayout(
        keys=("start_time", "bytes_received", "bytes_sent", "response_code"),
        time=("start_time",),
        marks="arrival",
        duration="duration",
        duration_unit="ms",
        lengths={"input_bytes": ("bytes_received",), "output_bytes": ("bytes_sent",)},
        status="response_code",
        method=("method",),
        target=("path",),
    )
