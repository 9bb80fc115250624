"""Retry: whether and when a rejected request is sent again. By default, never: a retry is load nobody planned."""

from __future__ import annotations

from dataclasses import dataclass

# Where the server names no time.
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """max_retries: how often a request that was rejected (429 or 503) is sent again."""

    max_retries: int = 0

    def wait_s(self, num_retries: int, retry_after_s: float | None) -> float | None:
        """How long to wait before the next retry; None for no more.

        As the server asked (Retry-After), else 1 s, doubled with each, 30 s at most.
        """
        if num_retries >= self.max_retries:
            return None
        if retry_after_s is not None and retry_after_s >= 0:
            return retry_after_s
        return float(min(_FIRST_WAIT_S * 2**num_retries, _LONGEST_WAIT_S))
