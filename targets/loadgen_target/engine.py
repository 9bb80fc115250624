"""Engine: the only owner of the queue, the batches and the cache's slots. It knows no model and no process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from loadgen_target.clock import Clock
from loadgen_target.config import PolicyConfig
from loadgen_target.policies import Admit, Wait, make_policy
from loadgen_target.request import Emission, Outcome, Status, StepRecord, Work
from loadgen_target.rows import Chunk, Group, Row


class Runner(Protocol):
    """What computes. One token a row comes back, and it is on the host when the call returns."""

    def prefill(self, rows: Sequence[Row]) -> list[int]:
        """Read each row's prompt into its slot, and choose its first token."""
        ...

    def decode(self, rows: Sequence[Row]) -> list[int]:
        """One more token a row. The rows lie side by side, from the first one's slot on."""
        ...

    def mixed(self, rows: Sequence[Row], chunks: Sequence[Chunk]) -> list[int]:
        """One pass that decodes `rows`, of which there may be none, and reads parts of prompts.

        A token for each row, then one for each chunk, which means something where the chunk is its prompt's last.
        """
        ...

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of one slot to another."""
        ...


class PassMeter(Protocol):
    """The device's own times of the pass that has just ended."""

    def last_pass(self) -> tuple[int, int | None]:
        """ns with work on the device, and ns of its kernels; None where those are not known."""
        ...


class Engine:
    """Admits by policy, steps its batches, and tells what happened; driven by calls, with no loop of its own.

    prepare: makes tokens of a text, for work that comes unprepared (inline preprocessing).
    meter: the device's own times of a pass; None where the host's clock tells them, as on a CPU.
    """

    def __init__(
        self,
        config: PolicyConfig,
        runner: Runner,
        clock: Clock,
        prepare: Callable[[str], tuple[int, ...]] = lambda text: tuple(text.encode()),
        meter: PassMeter | None = None,
    ) -> None:
        self._config = config
        self._policy = make_policy(config)
        self._runner = runner
        self._clock = clock
        self._prepare_text = prepare
        self._meter = meter
        self._unprepared: list[Work] = []
        self._waiting: list[Row] = []
        self._groups = [Group(k, k * config.batch_rows) for k in range(config.max_inflight_batches)]
        self._cut: list[Emission] = []
        # No deadline lies before this moment, so that most steps need not look through the queue.
        self._deadline_ns: int | None = None

    @property
    def num_waiting(self) -> int:
        return len(self._unprepared) + len(self._waiting)

    @property
    def num_running(self) -> int:
        return sum(len(group.rows) for group in self._groups)

    @property
    def kv_tokens(self) -> int:
        """Cache positions that requests in execution hold."""
        return sum(group.num_cached for group in self._groups)

    def submit(self, work: Work) -> None:
        """Take a request into the queue; it counts as waiting from here on."""
        self._deadline_ns = _earlier(self._deadline_ns, _start_by_ns(work))
        if isinstance(work.prompt, str):
            self._unprepared.append(work)
        else:
            # The moment it was handed over, not the end of the step that ran meanwhile.
            enqueued_ns = self._clock.now_ns() if work.enqueued_ns is None else work.enqueued_ns
            self._waiting.append(Row(work, work.prompt, enqueued_ns))

    def abort(self, request_id: int, status: Status) -> None:
        """End a request wherever it is; its slot is free when this returns. An unknown id has ended already."""
        for work in self._unprepared:
            if work.request_id == request_id:
                self._unprepared.remove(work)
                self._cut.append(Row(work, (), self._clock.now_ns()).cut(status))
                return
        for row in self._waiting:
            if row.work.request_id == request_id:
                self._waiting.remove(row)
                self._cut.append(row.cut(status))
                return
        for group in self._groups:
            for row in group.rows:
                if row.work.request_id == request_id:
                    group.held.pop(request_id, None)
                    self._free(group, row)
                    self._cut.append(row.cut(status))
                    return

    def step(self) -> Iterator[Outcome]:
        """Drop what is overdue, admit, read new prompts, and run one decode step of each batch."""
        self._expire()
        self._prepare()
        admitted = self._admit()
        if admitted or self._cut:
            started = tuple(row.work.request_id for _, rows in admitted for row in rows)
            cut, self._cut = tuple(self._cut), []
            yield self._outcome(cut, None, started)
        if not self._config.splits_prompts:
            for group, rows in admitted:
                yield self._prefill(group, rows)
        for group in self._groups:
            if group.rows:
                yield self._mixed(group) if group.rows[-1].is_reading else self._decode(group)

    def wake_ns(self) -> int | None:
        """When to step next: now if there is work, the next deadline or wait, or None to sleep until a message."""
        now_ns = self._clock.now_ns()
        if self._cut or self.num_running or (self._unprepared and self._room() > 0):
            return now_ns
        decision = self._policy.decide(self._waiting, self._groups, now_ns)
        if isinstance(decision, Admit):
            return now_ns
        return _earlier(decision.until_ns, self._deadline_ns if self.num_waiting else None)

    def _expire(self) -> None:
        now_ns = self._clock.now_ns()
        if self._deadline_ns is None or now_ns < self._deadline_ns:
            return
        waiting = [*self._unprepared, *(row.work for row in self._waiting)]
        limits = [(work.request_id, _start_by_ns(work)) for work in waiting]
        for group in self._groups:
            # One that has its last token and waits for its batch is late all the same: nobody has the answer.
            limits += [(row.work.request_id, row.work.deadline_ns) for row in group.rows]
        self._deadline_ns = None
        for request_id, limit_ns in limits:
            if limit_ns is not None and now_ns >= limit_ns:
                self.abort(request_id, Status.TIMEOUT)
            else:
                self._deadline_ns = _earlier(self._deadline_ns, limit_ns)

    def _room(self) -> int:
        return self._config.num_slots - self.num_running - len(self._waiting)

    def _prepare(self) -> None:
        """Inline preprocessing: on this thread, while the device idles, as much as could run."""
        while self._unprepared and self._room() > 0:
            work = self._unprepared.pop(0)
            assert isinstance(work.prompt, str)
            start_ns = self._clock.now_ns()
            prompt = self._prepare_text(work.prompt)
            end_ns = self._clock.now_ns()
            row = Row(work, prompt, end_ns)
            row.pre_start_ns, row.pre_end_ns = start_ns, end_ns
            self._waiting.append(row)

    def _admit(self) -> list[tuple[Group, list[Row]]]:
        admitted: list[tuple[Group, list[Row]]] = []
        if not self._waiting:
            return admitted
        for _ in self._groups:
            decision = self._policy.decide(self._waiting, self._groups, self._clock.now_ns())
            if isinstance(decision, Wait):
                break
            group = self._groups[decision.group]
            rows, self._waiting = self._waiting[: decision.count], self._waiting[decision.count :]
            for row in rows:
                row.slot = group.base_slot + len(group.rows)
                group.rows.append(row)
            assert len(group.rows) <= self._config.batch_rows
            admitted.append((group, rows))
        return admitted

    def _prefill(self, group: Group, rows: list[Row]) -> Outcome:
        """Whole prompts, in a pass of their own."""
        began = self._read_clock()
        num_tokens = sum(self._start(group, row, began.now_ns, len(row.prompt)).size for row in rows)
        tokens = self._runner.prefill(rows)
        passed = _Pass("prefill", began, num_tokens, num_tokens)
        return self._finish_step(group, rows, tokens, passed)

    def _decode(self, group: Group) -> Outcome:
        began = self._read_clock()
        rows = list(group.rows)
        # Each row attends to all it has and to its last token, which this step writes.
        passed = _Pass("decode", began, len(rows), group.num_cached + len(rows))
        tokens = self._runner.decode(rows)
        return self._finish_step(group, rows, tokens, passed)

    def _mixed(self, group: Group) -> Outcome:
        """The rows that decode, and as much of the prompts as the budget of tokens has room for, in one pass."""
        began = self._read_clock()
        rows = [row for row in group.rows if not row.is_reading]
        num_decoding = len(rows)
        kv_tokens = num_decoding + sum(row.num_cached for row in rows)
        budget = self._config.max_num_batched_tokens - num_decoding
        chunks = []
        for row in group.rows[num_decoding:]:
            chunk = self._start(group, row, began.now_ns, budget)
            budget -= chunk.size
            kv_tokens += row.num_read
            chunks.append(chunk)
        tokens = self._runner.mixed(rows, chunks)
        said = [
            (chunk.row, token)
            for chunk, token in zip(chunks, tokens[num_decoding:], strict=True)
            if chunk.is_last
        ]
        rows += [row for row, _ in said]
        num_tokens = num_decoding + sum(chunk.size for chunk in chunks)
        passed = _Pass("mixed", began, num_tokens, kv_tokens)
        return self._finish_step(group, rows, tokens[:num_decoding] + [token for _, token in said], passed)

    def _start(self, group: Group, row: Row, start_ns: int, limit: int) -> Chunk:
        """Take a part of a row's prompt; with its first one the row is in execution."""
        if row.exec_start_ns is None:
            row.exec_start_ns, row.batch_at_start = start_ns, len(group.rows)
        chunk = row.chunk(limit)
        group.num_cached += chunk.size
        return chunk

    def _finish_step(self, group: Group, rows: list[Row], tokens: list[int], passed: _Pass) -> Outcome:
        """Hand out the tokens of `rows`; those that have ended leave, or wait for their batch."""
        begin, now = passed.began, self._read_clock()
        end_ns, cpu_ns = now.now_ns, now.cpu_ns - begin.cpu_ns
        active_ns, kernel_ns = (
            (end_ns - begin.now_ns, cpu_ns) if self._meter is None else self._meter.last_pass()
        )
        holds = self._config.is_static and self._config.release == "batch"
        num_useful = len(rows) - len(group.held)
        emissions: list[Emission] = []
        ended: list[tuple[Row, Emission]] = []
        # All take their token before any leaves: a row that moves is copied as far as it has come.
        for row, token in zip(rows, tokens, strict=True):
            if row.is_done:
                continue
            is_first = not row.output
            group.num_cached += not is_first
            reason = row.take(token, num_useful, end_ns)
            began = row.began() if is_first else None
            if reason is None:
                emissions.append(Emission(row.work.request_id, (token,), began))
            else:
                end = row.ended(Status.OK, reason)
                ended.append((row, Emission(row.work.request_id, (token,), began, end)))
        for row, emission in ended:
            if holds:
                # The last token and the end go out together, and the end waits for the batch.
                row.is_done = True
                group.held[row.work.request_id] = emission
            else:
                self._free(group, row)
                emissions.append(emission)
        if holds and len(group.held) == len(group.rows):
            emissions += group.held.values()
            group.held.clear()
            for row in list(group.rows):
                self._free(group, row)
        num_waiting, num_running = self.num_waiting, self.num_running
        record = StepRecord(
            start_ns=begin.now_ns,
            end_ns=end_ns,
            kind=passed.kind,
            group=group.index,
            rows=len(rows),
            useful_rows=num_useful,
            new_tokens=passed.num_tokens,
            kv_tokens=passed.kv_tokens,
            cpu_ns=cpu_ns,
            num_waiting=num_waiting,
            num_running=num_running,
            active_ns=active_ns,
            kernel_ns=kernel_ns,
            cpu_wait_ns=None
            if begin.cpu_wait_ns is None or now.cpu_wait_ns is None
            else now.cpu_wait_ns - begin.cpu_wait_ns,
        )
        return Outcome((), tuple(emissions), record, num_waiting, num_running, self.kv_tokens)

    def _read_clock(self) -> _Reading:
        return _Reading(self._clock.now_ns(), self._clock.cpu_ns(), self._clock.cpu_wait_ns())

    def _free(self, group: Group, row: Row) -> None:
        """Take a row out; others move up, so that a batch is one range of slots, and one that reads stays last."""
        rows, hole = group.rows, row.slot - group.base_slot
        last_decoding = len(rows) - 1 - rows[-1].is_reading
        for source in (last_decoding, len(rows) - 1):
            if source > hole:
                moved = rows[source]
                self._runner.move(moved.slot, group.base_slot + hole, moved.num_cached)
                rows[hole] = moved
                moved.slot = group.base_slot + hole
                hole = source
        rows.pop()
        group.num_cached -= row.num_cached
        if not rows:
            group.idle_since_ns = self._clock.now_ns()
            group.held.clear()

    def _outcome(
        self, emissions: tuple[Emission, ...], record: StepRecord | None, started: tuple[int, ...] = ()
    ) -> Outcome:
        return Outcome(started, emissions, record, self.num_waiting, self.num_running, self.kv_tokens)


class _Reading(NamedTuple):
    """What the clock told at one moment."""

    now_ns: int
    cpu_ns: int
    cpu_wait_ns: int | None


class _Pass(NamedTuple):
    """A forward pass that has begun. num_tokens: it computes; kv_tokens: cache positions it attends to."""

    kind: str
    began: _Reading
    num_tokens: int
    kv_tokens: int


def _start_by_ns(work: Work) -> int | None:
    """The moment by which a waiting request must have started, whichever limit comes first."""
    return _earlier(work.queue_deadline_ns, work.deadline_ns)


def _earlier(first_ns: int | None, second_ns: int | None) -> int | None:
    """The earlier of two moments; None is never."""
    if first_ns is None or second_ns is None:
        return second_ns if first_ns is None else first_ns
    return min(first_ns, second_ns)
