"""Connections take ports: how many a worker opened and held is told, whichever transport opened them."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.replay.connection_count import ConnectionCount, num_ports
from loadgen.replay.transport import TRANSPORT_NAMES
from loadgen.testing import Close, FakeTarget, chat_stream
from support.sending import send


def test_the_most_at_one_time_outlasts_their_end() -> None:
    count = ConnectionCount()
    for open_one in (True, True, False, True, False, False, True):
        count.open() if open_one else count.close()
    assert (count.num_opened, count.most_open) == (4, 2)


@pytest.mark.parametrize(
    ("text", "ports"), [("32768\t60999\n", 28_232), ("9\t9\n", 1), ("", None), ("a b", None)]
)
def test_the_ports_are_those_of_the_system(text: str, ports: int | None, tmp_path: Path) -> None:
    told = tmp_path / "range"
    told.write_text(text)
    assert num_ports(told) == ports
    assert num_ports(tmp_path / "absent") is None


@pytest.mark.parametrize("transport", TRANSPORT_NAMES)
def test_a_worker_tells_of_its_connections(transport: str) -> None:
    with FakeTarget(lambda _: chat_stream(1, first_s=0.5)) as fake:
        sent = send(fake.url, [0.0] * 5 + [2.5], transport=transport, warm_connections=0)
    assert sent.outcomes == ["ok"] * 6
    assert sent.health.most_connections == 5
    assert sent.health.num_connections == fake.num_connections


@pytest.mark.parametrize("transport", TRANSPORT_NAMES)
def test_connections_that_ended_are_not_held(transport: str) -> None:
    with FakeTarget(lambda _: [*chat_stream(1), Close()]) as fake:
        sent = send(fake.url, [0.0, 0.4, 0.8, 1.2], transport=transport, warm_connections=0)
    assert sent.outcomes == ["ok"] * 4
    assert sent.health.num_connections == 4
    assert sent.health.most_connections in (1, 2)  # where this machine is so busy that an end is heard late
