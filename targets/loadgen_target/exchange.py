"""Exchange: one request as the HTTP process sees it, from receipt to its row in the log."""

from __future__ import annotations

import asyncio
from typing import Any

from loadgen_target.openai import Asked
from loadgen_target.request import Began, Emission, Ended, Status

STAGES_VERSION = 1
# The stages after receipt, in order; each is CLOCK_MONOTONIC ns, and none lies before the one above it.
STAGES = (
    "parsed",
    "pre_start",
    "pre_end",
    "enqueued",
    "exec_start",
    "prefill_end",
    "first_token",
    "last_token",
    "finished",
)


class Exchange:
    """Moments, outcome, and the mailbox through which the engine's tokens come.

    is_waiting: it counts against the queue's limit. status: None while it runs.
    """

    __slots__ = (
        "_mailbox",
        "_waiter",
        "asked",
        "began",
        "ended",
        "finished_ns",
        "http_status",
        "is_gone",
        "is_waiting",
        "output_tokens",
        "parsed_ns",
        "pre_end_ns",
        "pre_start_ns",
        "recv_ns",
        "recv_unix_ns",
        "request_id",
        "status",
        "x_request_id",
    )

    def __init__(self, request_id: int, x_request_id: str | None, recv_ns: int, recv_unix_ns: int) -> None:
        self.request_id = request_id
        self.x_request_id = x_request_id
        self.recv_ns = recv_ns
        self.recv_unix_ns = recv_unix_ns
        self.is_waiting = False
        self.is_gone = False
        self.asked: Asked | None = None
        self.parsed_ns: int | None = None
        self.pre_start_ns: int | None = None
        self.pre_end_ns: int | None = None
        self.began: Began | None = None
        self.ended: Ended | None = None
        self.finished_ns: int | None = None
        self.output_tokens = 0
        self.status: Status | None = None
        self.http_status: int | None = None
        self._mailbox: list[Emission] = []
        self._waiter: asyncio.Future[None] | None = None

    def push(self, emission: Emission) -> None:
        """Take what the engine says of this request, and wake who waits for it."""
        if emission.began is not None:
            self.began = emission.began
        if emission.ended is not None:
            self.ended = emission.ended
        self.output_tokens += len(emission.tokens)
        self._mailbox.append(emission)
        self._wake()

    def leave(self) -> None:
        """The client has gone."""
        self.is_gone = True
        self._wake()

    async def take(self) -> list[Emission]:
        """All that has come since the last call; waits for something, or for the client to leave."""
        if not self._mailbox and not self.is_gone:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        taken, self._mailbox = self._mailbox, []
        return taken

    def stage_ns(self, stage: str) -> int | None:
        """The moment of a stage, CLOCK_MONOTONIC ns; None when it was not reached."""
        if stage in ("parsed", "finished"):
            value = getattr(self, f"{stage}_ns")
        elif stage == "last_token":
            value = self.ended.last_token_ns if self.ended else None
        elif stage in ("pre_start", "pre_end"):
            value = getattr(self, f"{stage}_ns")
            if value is None and self.began:  # inline: the engine preprocessed it
                value = getattr(self.began, f"{stage}_ns")
        else:
            value = getattr(self.began, f"{stage}_ns") if self.began else None
        assert value is None or isinstance(value, int)
        return value

    def span_s(self, start: str, end: str) -> float | None:
        """Seconds between two stages (`recv` is one too); None when either was not reached."""
        start_ns = self.recv_ns if start == "recv" else self.stage_ns(start)
        end_ns = self.stage_ns(end)
        return None if start_ns is None or end_ns is None else (end_ns - start_ns) * 1e-9

    def server_timing(self) -> str:
        """The Server-Timing header at the first token, ms."""
        spans = (
            ("pre", self.span_s("recv", "pre_end")),
            ("queue", self.span_s("pre_end", "exec_start")),
            ("prefill", self.span_s("exec_start", "prefill_end")),
        )
        return ", ".join(f"{name};dur={span_s * 1e3:.3f}" for name, span_s in spans if span_s is not None)

    def metrics(self, policy: str) -> dict[str, Any]:
        """The `metrics` object of the last chunk: five common names, and every stage under `loadgen`.

        Offsets are whole microseconds from receipt; recv_mono_ns is CLOCK_MONOTONIC, for clients on this machine.
        """
        offsets = {f"{stage}_us": self._offset_us(stage) for stage in STAGES}
        generation_s = self.span_s("first_token", "last_token")
        tokens = self.output_tokens
        running_s = self.span_s("exec_start", "last_token")
        return {
            "time_to_first_token_ms": _ms(self.span_s("exec_start", "first_token")),
            "generation_time_ms": _ms(generation_s),
            "queue_time_ms": _ms(self.span_s("enqueued", "exec_start")),
            "mean_itl_ms": _ms(generation_s / (tokens - 1))
            if generation_s is not None and tokens > 1
            else None,
            "tokens_per_second": round(tokens / running_s, 3) if running_s else None,
            "loadgen": {
                "v": STAGES_VERSION,
                "recv_unix_ns": self.recv_unix_ns,
                "recv_mono_ns": self.recv_ns,
                **offsets,
                "policy": policy,
                "batch_at_start": self.began.batch_at_start if self.began else None,
                "mean_batch": round(self.ended.mean_batch, 3)
                if self.ended and self.ended.mean_batch
                else None,
                "steps": self.ended.steps if self.ended else 0,
            },
        }

    def _offset_us(self, stage: str) -> int | None:
        moment_ns = self.stage_ns(stage)
        return None if moment_ns is None else (moment_ns - self.recv_ns) // 1000

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._waiter = None


def _ms(span_s: float | None) -> float | None:
    return None if span_s is None else round(span_s * 1e3, 3)
