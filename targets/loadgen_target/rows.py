"""Row: one request inside the engine, from the queue to its last token."""

from __future__ import annotations

from typing import NamedTuple

from loadgen_target.config import EOS
from loadgen_target.request import Began, Emission, Ended, Status, Work


class Row:
    """A request with its moments and its tokens so far; owned by the engine.

    slot: its place in the cache while it runs. num_read: tokens of its prompt that are in the cache.
    is_done: it has its last token, but its batch holds it.
    """

    __slots__ = (
        "batch_at_start",
        "batch_sum",
        "enqueued_ns",
        "exec_start_ns",
        "first_token_ns",
        "is_done",
        "last_token_ns",
        "matched_stop",
        "num_read",
        "output",
        "pre_end_ns",
        "pre_start_ns",
        "prompt",
        "slot",
        "work",
    )

    def __init__(self, work: Work, prompt: tuple[int, ...], enqueued_ns: int) -> None:
        self.work = work
        self.prompt = prompt
        self.enqueued_ns = enqueued_ns
        self.pre_start_ns = work.pre_start_ns
        self.pre_end_ns = work.pre_end_ns
        self.output: list[int] = []
        self.slot = -1
        self.num_read = 0
        self.is_done = False
        self.exec_start_ns: int | None = None
        self.first_token_ns: int | None = None
        self.last_token_ns: int | None = None
        self.batch_at_start: int | None = None
        self.batch_sum = 0
        self.matched_stop = 0

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt)

    @property
    def is_reading(self) -> bool:
        """Whether a part of its prompt is still to be read, so that it cannot decode yet."""
        return self.num_read < len(self.prompt)

    @property
    def num_cached(self) -> int:
        """Cache positions it has written."""
        return self.num_read + max(len(self.output) - 1, 0)

    @property
    def position(self) -> int:
        """Where the last token stands; the next decode step writes the cache there."""
        return len(self.prompt) + len(self.output) - 1

    def chunk(self, limit: int) -> Chunk:
        """The next part of its prompt, of at most `limit` tokens; it counts as read from now on."""
        start, self.num_read = self.num_read, min(len(self.prompt), self.num_read + limit)
        return Chunk(self, start, self.num_read - start)

    @property
    def may_end(self) -> bool:
        """Whether the next token may be the end token."""
        sampling = self.work.sampling
        return not sampling.ignore_eos and len(self.output) >= sampling.min_tokens

    def take(self, token: int, num_useful: int, now_ns: int) -> str | None:
        """Append `token`; the finish reason when it is the last one."""
        sampling, output = self.work.sampling, self.output
        output.append(token)
        self.last_token_ns = now_ns
        if self.first_token_ns is None:
            self.first_token_ns = now_ns
        self.batch_sum += num_useful
        if token == EOS:
            return "stop"
        if sampling.stops and len(output) >= max(1, sampling.min_tokens):
            tail = bytes(token & 0xFF for token in output[-max(map(len, sampling.stops)) :])
            # The longest of those that end here begins earliest, and the text is cut there.
            self.matched_stop = max((len(stop) for stop in sampling.stops if tail.endswith(stop)), default=0)
            if self.matched_stop:
                return "stop"
        return "length" if len(output) >= sampling.max_tokens else None

    def began(self) -> Began:
        """The moments known so far."""
        return Began(
            pre_start_ns=self.pre_start_ns,
            pre_end_ns=self.pre_end_ns,
            enqueued_ns=self.enqueued_ns,
            exec_start_ns=self.exec_start_ns,
            prefill_end_ns=self.first_token_ns,
            first_token_ns=self.first_token_ns,
            batch_at_start=self.batch_at_start,
        )

    def ended(self, status: Status, finish_reason: str | None = None) -> Ended:
        """The end, in this way."""
        return Ended(
            status=status,
            finish_reason=finish_reason,
            matched_stop=self.matched_stop,
            last_token_ns=self.last_token_ns,
            output_tokens=len(self.output),
            mean_batch=self.batch_sum / len(self.output) if self.output else None,
            steps=len(self.output),
        )

    def cut(self, status: Status) -> Emission:
        """The end without a last token: no tokens, the moments reached, and the reason."""
        return Emission(self.work.request_id, (), self.began(), self.ended(status))


class Chunk(NamedTuple):
    """A part of a row's prompt that one pass reads: `size` tokens from `start` on."""

    row: Row
    start: int
    size: int

    @property
    def is_last(self) -> bool:
        return self.start + self.size == len(self.row.prompt)


class Group:
    """A place for one batch: rows kept compact in the slots from `base_slot` on.

    Between two steps at most one row has a part of its prompt to read, and it is the last. num_cached: cache
    positions that its rows have written.
    """

    __slots__ = ("base_slot", "held", "idle_since_ns", "index", "num_cached", "rows")

    def __init__(self, index: int, base_slot: int) -> None:
        self.index = index
        self.base_slot = base_slot
        self.rows: list[Row] = []
        self.held: dict[int, Emission] = {}
        self.num_cached = 0
        self.idle_since_ns = 0

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    @property
    def num_unread_tokens(self) -> int:
        last = self.rows[-1] if self.rows else None
        return 0 if last is None else len(last.prompt) - last.num_read
