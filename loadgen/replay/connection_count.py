"""ConnectionCount: how many connections a worker opened, and held at one time; each takes a port."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(slots=True)
class ConnectionCount:
    """num_opened: since the worker began. most_open: at one time."""

    num_opened: int = 0
    most_open: int = 0
    _num_open: int = 0

    def open(self) -> None:
        self.num_opened += 1
        self._num_open += 1
        self.most_open = max(self.most_open, self._num_open)

    def close(self) -> None:
        self._num_open -= 1


def num_ports(port_range: Path = _RANGE) -> int | None:
    """Ports that this system gives to connections to one address; None where it does not say (only Linux does)."""
    try:
        first, last = map(int, port_range.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return None
    return last - first + 1
