"""What a worker on Ray costs the machine that began the run: CPU of taking its messages and keeping its records.

A message holds what one worker has to say in half a second. Run: python benchmarks/ray_driver.py
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray

from loadgen.replay.journal import JournalWriter
from loadgen.replay.worker import Progress

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.runs import ok, records

_MESSAGES = 400


class Talker:
    """Says the same again and again, as fast as it is heard."""

    def __init__(self, said: list[Any]) -> None:
        self._said = said

    async def words(self) -> AsyncIterator[list[Any]]:
        for _ in range(_MESSAGES + 1):
            yield self._said


def said_with(num_records: int, tokens: int) -> list[Any]:
    recent = tuple((0.1, 0.1) for _ in range(num_records // 2))
    progress = Progress(0, 1, 1, 1, {"ok": 1}, recent, 0.001)
    if not num_records:
        return [progress, progress]
    rows = [
        ok(k / 100, first_s=k / 100 + 0.1, last_s=k / 100 + 0.5, tokens=tokens) for k in range(num_records)
    ]
    return [progress, progress, records(rows).combine_chunks().to_batches()[0]]


async def heard(said: list[Any], journal: JournalWriter) -> float:
    """CPU seconds of this process for each message."""
    talker = ray.remote(Talker).remote(said)
    began_s: float | None = None
    async for ref in talker.words.options(num_returns="streaming").remote():
        for one in await ref:
            if isinstance(one, pa.RecordBatch) and began_s is not None:
                journal.append(one)
        began_s = time.process_time() if began_s is None else began_s
    assert began_s is not None
    return (time.process_time() - began_s) / _MESSAGES


def main() -> None:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    with tempfile.TemporaryDirectory() as folder:
        for num_records, tokens in ((0, 0), (50, 20), (250, 20), (250, 200)):
            path = Path(folder) / f"{num_records}-{tokens}"
            journal = JournalWriter(path)
            cpu_s = asyncio.run(heard(said_with(num_records, tokens), journal))
            journal.close()
            a_million = f", {cpu_s / num_records * 1e6:.1f} s a million records" if num_records else ""
            print(
                f"{num_records} records of {tokens} tokens a message: {cpu_s * 1e6:.0f} us CPU{a_million}, "
                f"{path.stat().st_size / _MESSAGES / 1e3:.1f} kB of journal"
            )
    ray.shutdown()


if __name__ == "__main__":
    main()
