"""What a worker on Ray costs the machine that began the run: CPU of taking its messages and keeping its records.

A message holds what one worker has to say in half a second; where it leaves its records in a shared folder, in two
seconds, and the records are merged at the end. Run: python benchmarks/ray_driver.py
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

from loadgen.replay.clock_offset import ClockOffset, TrackedClock
from loadgen.replay.journal import JournalWriter
from loadgen.replay.record_parts import PartsWriter, batches_of, made_folder, parts_of
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


def progress_alone(num_recent: int) -> list[Any]:
    return [Progress(0, 1, 1, 1, {"ok": 1}, tuple((0.1, 0.1) for _ in range(num_recent)), 0.001)]


def said_with(num_records: int, tokens: int) -> list[Any]:
    recent = tuple((0.1, 0.1) for _ in range(num_records // 2))
    progress = Progress(0, 1, 1, 1, {"ok": 1}, recent, 0.001)
    if not num_records:
        return [progress, progress]
    rows = [
        ok(k / 100, first_s=k / 100 + 0.1, last_s=k / 100 + 0.5, tokens=tokens) for k in range(num_records)
    ]
    return [progress, progress, records(rows).combine_chunks().to_batches()[0]]


def merged(folder: Path, num_records: int, tokens: int, num_parts: int) -> tuple[float, float]:
    """CPU seconds of taking so many parts into the journal, a million records; and their bytes a record.

    A part holds what one worker records in five seconds, its clock moved.
    """
    records_at = str(folder / "shared")
    made_folder(records_at)
    batch = next(one for one in said_with(num_records, tokens) if isinstance(one, pa.RecordBatch))

    async def write() -> None:
        writer = PartsWriter(records_at, 0)
        for _ in range(num_parts):
            for _ in range(10):
                writer.append(batch)
            await writer.write()

    asyncio.run(write())
    clock = TrackedClock(0, ClockOffset(0, 10))
    clock.check(10**9, ClockOffset(100, 200))
    journal = JournalWriter(folder / "merged")
    began_s = time.process_time()
    parts = parts_of(records_at)[0]
    for path in parts:
        for one in batches_of(path):
            journal.append(clock.corrected(one, 0))
    cpu_s = time.process_time() - began_s
    journal.close()
    num_all = num_records * 10 * num_parts
    return cpu_s / num_all * 1e6, sum(path.stat().st_size for path in parts) / num_all


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
        journal = JournalWriter(Path(folder) / "none")
        cpu_s = asyncio.run(heard(progress_alone(50), journal))
        print(f"progress alone: {cpu_s * 1e6:.0f} us CPU a message")
        for tokens in (20, 200):
            cpu_s, size = merged(Path(folder) / f"parts-{tokens}", 250, tokens, 40)
            print(
                f"merged at the end, {tokens} tokens: {cpu_s:.2f} s CPU a million records, {size:.0f} B each"
            )
    ray.shutdown()


if __name__ == "__main__":
    main()
