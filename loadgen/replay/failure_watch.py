"""FailureWatch: whether a run still does anything but fail."""

from __future__ import annotations

from collections.abc import Mapping

from loadgen.replay.request_record import OWN_FAULTS, UNDECIDED, Outcome

_NO_FAILURES = {Outcome.OK, *OWN_FAULTS, *UNDECIDED}


class FailureWatch:
    """Tells when requests have failed for so long, and none has succeeded in between.

    after_s: from the first failure since the last success to the latest one; None never tells.
    """

    def __init__(self, after_s: float | None) -> None:
        self._after_s = after_s
        self._outcomes: dict[int, Mapping[str, int]] = {}
        self._num_ok = 0
        self._num_failed = 0
        self._failing_since_s: float | None = None

    def observe(self, worker: int, elapsed_s: float, outcomes: Mapping[str, int]) -> str | None:
        """Take one worker's counts so far; the reason to end the run, or None.

        A success since the last look clears what failed, whichever came first.
        """
        self._outcomes[worker] = outcomes
        num_ok, num_failed = self._count(is_ok=True), self._count(is_ok=False)
        has_succeeded, has_failed = num_ok > self._num_ok, num_failed > self._num_failed
        self._num_ok, self._num_failed = num_ok, num_failed
        if has_succeeded:
            self._failing_since_s = None
        elif has_failed and self._failing_since_s is None:
            self._failing_since_s = elapsed_s
        if self._after_s is None or self._failing_since_s is None or not has_failed:
            return None
        failing_s = elapsed_s - self._failing_since_s
        if failing_s < self._after_s:
            return None
        return f"no request succeeded for {failing_s:.1f} s ({num_failed} failed so far)"

    def _count(self, *, is_ok: bool) -> int:
        return sum(
            count
            for counts in self._outcomes.values()
            for name, count in counts.items()
            if (name == Outcome.OK if is_ok else name not in _NO_FAILURES)
        )
