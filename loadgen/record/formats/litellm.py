"""LiteLLM standard logging payloads and spend logs: startTime is the arrival, in epoch seconds or ISO.

Source: docs.litellm.ai, logging_spec. Spend logs write ISO stamps, in UTC also where they carry no zone; an
answer of /spend/logs is an array, which the wrapper `array` takes apart. response_time is the time to first
token for streams, so endTime - response_time is not the arrival. Failures carry 0 tokens, which mean not
known.
"""

from __future__ import annotations

from loadgen.record.json_lines import JsonLayout, JsonLinesFormat


class LitellmFormat(JsonLinesFormat):
    """LiteLLM JSON lines."""

    layout = JsonLayout(
        keys=("startTime", "endTime", "prompt_tokens", "completion_tokens"),
        time=("startTime",),
        marks="arrival",
        zone="UTC",
        end="endTime",
        first_token="completionStartTime",
        lengths={"input_tokens": ("prompt_tokens",), "output_tokens": ("completion_tokens",)},
        model="model",
        stream="stream",
        session="session_id",
        prompt="messages",
        failed={"status": "failure"},
    )
