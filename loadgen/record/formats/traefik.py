"""Traefik access logs as JSON: StartUTC is the arrival, to 1 ns; StartLocal is the same moment.

Source: traefik/traefik pkg/middlewares/accesslog.
Duration is in ns; time is the moment of logging, in whole seconds, and is not used.
"""

from __future__ import annotations

from loadgen.record.json_lines import JsonLayout, JsonLinesFormat


class TraefikFormat(JsonLinesFormat):
    """Traefik JSON lines."""

    layout = JsonLayout(
        keys=("Duration", "DownstreamStatus"),
        time=("StartUTC", "StartLocal"),
        marks="arrival",
        duration="Duration",
        duration_unit="ns",
        lengths={"input_bytes": ("RequestContentSize",), "output_bytes": ("DownstreamContentSize",)},
        status="DownstreamStatus",
        method=("RequestMethod",),
        target=("RequestPath",),
    )
