"""What passes between the HTTP process and the engine: work in, outcomes out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """How a request ended; each ends in exactly one."""

    OK = "ok"
    INVALID = "invalid"  # 400: the request itself is wrong
    REJECTED = "rejected"  # 429 or 503: refused at receipt
    TIMEOUT = "timeout"  # 504, or an error event after the first token
    CANCELLED = "cancelled"  # the client went away
    ERROR = "error"  # the server's own fault, or its end


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are chosen and when they end.

    temperature: 0 is greedy. stops: texts as bytes; a token is a byte, so they are matched on tokens.
    """

    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    stops: tuple[bytes, ...] = ()
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """A request as the engine gets it.

    prompt: token ids, or the text where the engine preprocesses it itself (inline).
    queue_deadline_ns, deadline_ns: CLOCK_MONOTONIC ns by which it must have started, must have ended.
    pre_start_ns, pre_end_ns: when it was preprocessed; None before that.
    enqueued_ns: when it was handed to the engine; None for unprepared work, whose wait in the queue begins later.
    """

    request_id: int
    prompt: tuple[int, ...] | str
    sampling: Sampling
    queue_deadline_ns: int | None = None
    deadline_ns: int | None = None
    pre_start_ns: int | None = None
    pre_end_ns: int | None = None
    enqueued_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Began:
    """Moments up to the first token, CLOCK_MONOTONIC ns, non-decreasing; None when not reached."""

    pre_start_ns: int | None
    pre_end_ns: int | None
    enqueued_ns: int | None
    exec_start_ns: int | None
    prefill_end_ns: int | None
    first_token_ns: int | None
    batch_at_start: int | None


@dataclass(frozen=True, slots=True)
class Ended:
    """How the engine is done with a request.

    finish_reason: stop or length; None when it did not end by itself.
    matched_stop: bytes at the end of the output that are the stop text; 0 without one.
    mean_batch: mean useful rows over the steps it took part in; None before the first.
    """

    status: Status
    finish_reason: str | None
    matched_stop: int
    last_token_ns: int | None
    output_tokens: int
    mean_batch: float | None
    steps: int


class Emission(NamedTuple):
    """Tokens of one request, with what is known at its first and at its last.

    A named tuple, as all that is sent at each step: it is pickled at half the cost of a dataclass.
    """

    request_id: int
    tokens: tuple[int, ...]
    began: Began | None = None
    ended: Ended | None = None


class StepRecord(NamedTuple):
    """One forward pass over a batch.

    kind: prefill, decode or mixed. rows: rows that got a token; useful_rows: those whose token somebody waits for.
    new_tokens: tokens computed, of prompts and of rows. kv_tokens: cache positions attended to. cpu_ns: CPU time
    inside the pass. active_ns: time with work on the device; on a CPU the pass itself. kernel_ns: time of the
    computing itself; on a CPU cpu_ns, on a GPU an estimate; None where not known. See device.CudaMeter.
    cpu_wait_ns: of the pass, time in which other programs had the CPU; None where not known.
    """

    start_ns: int
    end_ns: int
    kind: str
    group: int
    rows: int
    useful_rows: int
    new_tokens: int
    kv_tokens: int
    cpu_ns: int
    num_waiting: int
    num_running: int
    active_ns: int
    kernel_ns: int | None
    cpu_wait_ns: int | None


class Outcome(NamedTuple):
    """What one step did: who started, which tokens came, who ended, and the state after it."""

    started: tuple[int, ...]
    emissions: tuple[Emission, ...]
    record: StepRecord | None
    num_waiting: int
    num_running: int
    kv_tokens: int
