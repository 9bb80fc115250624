"""Helicone exports: request_created_at is the arrival at the gateway.

Newest first; tokens are null on failure.
"""

from __future__ import annotations

from loadgen.record.json_lines import JsonLayout, JsonLinesFormat


class HeliconeFormat(JsonLinesFormat):
    """Helicone JSON lines."""

    layout = JsonLayout(
        keys=("request_created_at", "prompt_tokens", "completion_tokens"),
        time=("request_created_at",),
        marks="arrival",
        end="response_created_at",
        lengths={"input_tokens": ("prompt_tokens",), "output_tokens": ("completion_tokens",)},
        status="response_status",
        model="request_model",
    )
