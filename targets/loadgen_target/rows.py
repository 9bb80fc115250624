"""Row: one request inside the engine, from the queue to its last token."""

from __future__ import annotations

from loadgen_target.config import EOS
from loadgen_target.request import Began, Emission, Ended, Status, Work


class Row:
    """A request with its moments and its tokens so far; owned by the engine.

    slot: its place in the cache while it runs. is_done: it has its last token, but its batch holds it.
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
        "output",
        "pre_end_ns",
        "pre_start_ns",
        "prompt",
        "slot",
        "steps",
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
        self.is_done = False
        self.exec_start_ns: int | None = None
        self.first_token_ns: int | None = None
        self.last_token_ns: int | None = None
        self.batch_at_start: int | None = None
        self.batch_sum = 0
        self.steps = 0
        self.matched_stop = 0

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt)

    @property
    def position(self) -> int:
        """Where the last token stands; the next decode step writes the cache there."""
        return len(self.prompt) + len(self.output) - 1

    @property
    def may_end(self) -> bool:
        """Whether the next token may be the end token."""
        sampling = self.work.sampling
        return not sampling.ignore_eos and len(self.output) >= sampling.min_tokens

    def take(self, token: int, num_useful: int, now_ns: int) -> str | None:
        """Append `token`; the finish reason when it is the last one."""
        sampling = self.work.sampling
        self.output.append(token)
        self.last_token_ns = now_ns
        if self.first_token_ns is None:
            self.first_token_ns = now_ns
        self.steps += 1
        self.batch_sum += num_useful
        if token == EOS:
            return "stop"
        if sampling.stops and len(self.output) >= max(1, sampling.min_tokens):
            tail = bytes(token & 0xFF for token in self.output[-max(map(len, sampling.stops)) :])
            # The longest of those that end here begins earliest, and the text is cut there.
            self.matched_stop = max((len(stop) for stop in sampling.stops if tail.endswith(stop)), default=0)
            if self.matched_stop:
                return "stop"
        return "length" if len(self.output) >= sampling.max_tokens else None

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
            mean_batch=self.batch_sum / self.steps if self.steps else None,
            steps=self.steps,
        )

    def cut(self, status: Status) -> Emission:
        """The end without a last token: no tokens, the moments reached, and the reason."""
        return Emission(self.work.request_id, (), self.began(), self.ended(status))


class Group:
    """A place for one batch: rows kept compact in the slots from `base_slot` on."""

    __slots__ = ("base_slot", "held", "idle_since_ns", "index", "rows")

    def __init__(self, index: int, base_slot: int) -> None:
        self.index = index
        self.base_slot = base_slot
        self.rows: list[Row] = []
        self.held: dict[int, Emission] = {}
        self.idle_since_ns = 0

    @property
    def num_rows(self) -> int:
        return len(self.rows)
