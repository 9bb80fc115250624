"""Descriptors: how many connections a plan needs at least, beside how many this user may have."""

from __future__ import annotations

import resource

import numpy as np
import numpy.typing as npt

from loadgen.errors import GeneratorLimit

# A process of ours has so many open besides its connections.
_OWN = 64
# No server answers sooner: what is sent within this time is open at once.
_AT_ONCE_NS = 1_000_000


def least_connections(planned_ns: npt.NDArray[np.int64], max_concurrency: int | None) -> int:
    """Connections that must be open at one time, however fast the server is."""
    ends = np.searchsorted(planned_ns, planned_ns + _AT_ONCE_NS, side="left")
    at_once = int((ends - np.arange(planned_ns.size)).max(initial=0))
    return at_once if max_concurrency is None else min(at_once, max_concurrency)


def refuse_beyond_descriptors(needed: int, limit: int | None = None) -> None:
    """Raise GeneratorLimit where one worker needs more connections at once than it may have descriptors.

    limit: None for this user's hard limit, which every worker takes as its own.
    """
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if limit is None else limit
    if allowed != resource.RLIM_INFINITY and needed + _OWN > allowed:
        raise GeneratorLimit(
            f"the plan has {needed} requests open at once in one worker, which needs {needed + _OWN} descriptors; "
            f"this user may have {allowed}",
            hint="raise the hard limit (ulimit -Hn), or give more --workers or --max-concurrency",
        )
