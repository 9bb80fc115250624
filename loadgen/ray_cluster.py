"""A Ray cluster, joined for as long as a command needs it."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from loadgen.errors import UsageError

LOCAL = "local"
_ANSWERS_WITHIN_S = 5.0
# RFC 9113, 3.4: each side begins with its settings, here none. Type of a frame: its fourth byte.
_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HTTP2_BEGINS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS
_MOST_SHOWN = 400  # characters of what Ray says


@contextmanager
def joined_cluster(address: str, *, least_cpus: int = 1) -> Iterator[None]:
    """Be part of a Ray cluster.

    address: `local` begins one on this machine, which ends with the context; `auto` is the one that this machine
    is part of, or that RAY_ADDRESS names; else HOST:PORT of its head. least_cpus: that one on this machine has.
    Raises UsageError if there is none, or none of this version, or no Ray.
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
    _refuse_silent(address)
    on_term = signal.getsignal(signal.SIGTERM)
    cpus = {}
    if address == LOCAL:
        cpus["num_cpus"] = max(os.cpu_count() or 1, least_cpus)
        # Without it, Ray's workers stand behind every ordinary process.
        os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False, configure_logging=False, **cpus)
    except (ConnectionError, ValueError, RuntimeError) as exc:
        raise _not_joined(address, " ".join(str(exc).split())[:_MOST_SHOWN] or type(exc).__name__) from exc
    finally:
        # Ray's own handler would end this process as if it had crashed.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_term)
    try:
        yield
    finally:
        ray.shutdown()


def free_cpus() -> int:
    """CPUs of the cluster that nobody has taken."""
    import ray  # noqa: PLC0415  # see joined_cluster

    return int(ray.available_resources().get("CPU", 0))


def _refuse_silent(address: str) -> None:
    """Raise UsageError where nobody listens, or nobody who speaks HTTP/2, as gRPC does.

    Ray would ask again for minutes, deaf to Ctrl-C.
    """
    named = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    host, _, port = named.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return  # Ray says what is wrong with it, if anything
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWERS_WITHIN_S) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                connection.sendall(_HTTP2_BEGINS)
                if connection.recv(len(_SETTINGS))[3:4] != _SETTINGS[3:4]:
                    raise _not_joined(
                        address, f"what answers at {named} is no head of Ray, whose port is 6379 unless set"
                    )
    except (OSError, OverflowError) as exc:
        raise _not_joined(address, f"{named}: {getattr(exc, 'strerror', None) or exc}") from exc


def _not_joined(address: str, reason: str) -> UsageError:
    return UsageError(
        f"--ray {address}: no cluster can be joined ({reason})",
        hint="`ray status` on this machine tells; --ray local begins one here",
    )
