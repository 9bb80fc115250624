"""A Ray cluster, joined for as long as a command needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from loadgen.errors import UsageError

LOCAL = "local"


@contextmanager
def joined_cluster(address: str, *, least_cpus: int = 1) -> Iterator[None]:
    """Be part of a Ray cluster.

    address: `local` begins one on this machine, which ends with the context; `auto` is the one that this machine
    is part of, or that RAY_ADDRESS names; else HOST:PORT of its head. least_cpus: that one on this machine has.
    Raises UsageError if there is none, or no Ray.
    """
    try:
        import ray  # noqa: PLC0415  # an extra, slow to import: only who asks for a cluster needs it
    except ImportError as exc:
        raise UsageError("--ray needs the package ray", hint="pip install 'loadgen[ray]'") from exc
    if address.startswith("ray://"):
        raise UsageError(
            f"--ray {address}: a client outside of the cluster cannot agree with it on a clock",
            hint="run loadgen on a machine of the cluster with --ray auto, by `ray job submit` for one",
        )
    if ray.is_initialized():  # by whoever calls us, and theirs to end
        yield
        return
    cpus = {"num_cpus": max(os.cpu_count() or 1, least_cpus)} if address == LOCAL else {}
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False, configure_logging=False, **cpus)
    except (ConnectionError, ValueError, RuntimeError) as exc:
        reason = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
        raise UsageError(
            f"--ray {address}: no cluster can be joined ({reason})",
            hint="`ray status` on this machine tells; --ray local begins one here",
        ) from exc
    try:
        yield
    finally:
        ray.shutdown()
