"""A process of ours ends with the one that started it, however early that one died."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from types import SimpleNamespace

import pytest

from loadgen import parent


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is of Linux")
@pytest.mark.parametrize(("present_pid", "ended"), [(7, []), (1, [signal.SIGTERM])])
def test_a_parent_that_died_before_the_call_ends_the_process_too(
    monkeypatch: pytest.MonkeyPatch, present_pid: int, ended: list[int]
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(prctl=lambda *_: 0))
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: SimpleNamespace(pid=7))
    monkeypatch.setattr(os, "getppid", lambda: present_pid)
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(number))
    parent.end_with_parent()
    assert sent == ended
