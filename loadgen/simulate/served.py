"""Arrivals and Served: what a simulated server is given, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadgen.simulate.steps import Numbers, Prefills, Stretches

OK, REJECTED, TIMEOUT, INVALID = range(4)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests in order of time: when the server has them, and their lengths. int64 (num_requests,) each."""

    received_ns: Numbers
    prompt_tokens: Numbers
    output_tokens: Numbers


@dataclass(frozen=True, slots=True)
class Served:
    """What became of each arrival, in their order; moments in ns on the arrivals' clock, -1 where not reached.

    status: OK, REJECTED, TIMEOUT, INVALID. enqueued, exec_start, first_token, last_token, ended: ended is when the
    answer left, which in a static batch is its longest member's end. output_tokens: that were made. joined: how
    many steps its batch had made when it joined. batch_sum: useful rows summed over its steps.
    """

    status: npt.NDArray[np.int8]
    enqueued_ns: Numbers
    exec_start_ns: Numbers
    first_token_ns: Numbers
    last_token_ns: Numbers
    ended_ns: Numbers
    output_tokens: Numbers
    joined: Numbers
    batch: npt.NDArray[np.int8]
    batch_sum: Numbers
    stretches: tuple[Stretches, ...]
    prefills: Prefills
    length_ns: int
