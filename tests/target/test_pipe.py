"""The pipe between the processes: messages come whole, however they are cut on the way."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest
import uvloop

from loadgen_target.pipe import BlockingPipe, LoopPipe


def pair(got: list[Any], lost: list[bool]) -> tuple[LoopPipe, socket.socket, BlockingPipe, socket.socket]:
    ours, theirs = socket.socketpair()
    return LoopPipe(got.append, lambda: lost.append(True)), ours, BlockingPipe(theirs), theirs


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_messages_come_whole_in_pieces_of_any_size(size: int) -> None:
    sent = ["first", {"second": list(range(50))}, None, b"x" * 300]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for message in sent:
            BlockingPipe(theirs).send(message)
        data = ours.recv(100_000)
    got: list[Any] = []
    pipe = LoopPipe(got.append, lambda: None)
    for start in range(0, len(data), size):
        pipe.data_received(data[start : start + size])
    assert got == sent


def test_large_messages_cross_both_ways_while_neither_end_reads_yet() -> None:
    large = b"x" * 3_000_000  # more than the sockets hold
    got: list[Any] = []
    lost: list[bool] = []

    async def talk() -> None:
        pipe, ours, engine, theirs = pair(got, lost)

        def send_three() -> None:
            for _ in range(3):
                engine.send(large)

        await pipe.open(ours)
        pipe.send(large)
        pipe.send("after")
        sender = threading.Thread(target=send_three)
        sender.start()
        received = await asyncio.to_thread(lambda: [engine.receive(), engine.receive()])
        assert received == [large, "after"]
        await asyncio.to_thread(sender.join)
        engine.close()
        theirs.close()
        while not lost:
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(talk())
    assert got == [large] * 3
    assert lost == [True]


def test_the_blocking_end_learns_that_the_other_is_gone() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    engine = BlockingPipe(theirs)
    with pytest.raises(EOFError):
        engine.receive()
    engine.close()
    theirs.close()
