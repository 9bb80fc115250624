"""A second network on this machine: a namespace of its own, joined to ours by a pair of virtual interfaces."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SecondNetwork:
    """name: of its namespace. here, there: our address and its own, each reached from both."""

    name: str
    here: str
    there: str

    @property
    def entering(self) -> list[str]:
        """What a command begins with that is to run in it; it stays the same process."""
        return ["nsenter", f"--net=/run/netns/{self.name}"]


@contextmanager
def second_network() -> Iterator[SecondNetwork]:
    """Make one, for the time of the context. Raises OSError or CalledProcessError where this user may not."""
    number = os.getpid()
    # 198.18.0.0/15 is set aside for tests of networks (RFC 2544).
    prefix = f"198.18.{number % 256}"
    network = SecondNetwork(f"loadgen-{number}", f"{prefix}.1", f"{prefix}.2")
    inner, outer = f"lg{number}i", f"lg{number}o"
    try:
        _ip("netns", "add", network.name)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", network.name)
        _ip("addr", "add", f"{network.here}/30", "dev", outer)
        _ip("link", "set", outer, "up")
        _ip("-n", network.name, "addr", "add", f"{network.there}/30", "dev", inner)
        _ip("-n", network.name, "link", "set", inner, "up")
        _ip("-n", network.name, "link", "set", "lo", "up")
        yield network
    finally:
        if shutil.which("ip"):
            # The pair of interfaces goes with the namespace.
            subprocess.run(["ip", "netns", "del", network.name], capture_output=True, check=False)


def can_make_networks() -> bool:
    """Whether this user may make one, with the commands `ip` and `nsenter`."""
    try:
        with second_network() as network:
            subprocess.run([*network.entering, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
