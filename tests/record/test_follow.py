"""A log that is being written, across its rotation: nothing lost, nothing twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loadgen.record.followed_log import FollowedLog
from loadgen.trace.parquet import read_trace
from loadgen.trace.trace import Trace
from support import command


class Script:
    """A writer's steps, one each time that the reader sleeps; after the last the reader is stopped."""

    def __init__(self, path: Path, steps: list[Callable[[], None]]) -> None:
        self._steps = iter(steps)
        self._now_s = 0.0
        self._is_over = False
        self.log = FollowedLog(path, lambda: self._is_over, now_s=lambda: self._now_s, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self._now_s += seconds
        step = next(self._steps, None)
        if step is None:
            self._is_over = True
        else:
            step()

    def read(self) -> list[str]:
        return b"".join(self.log.blocks()).decode().split()


def wait(count: int) -> list[Callable[[], None]]:
    return [lambda: None] * count


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "app.log"
    path.write_text("1\n2\n", encoding="utf-8")
    return path


def append(path: Path, text: str) -> Callable[[], None]:
    def write() -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)

    return write


def test_what_is_there_comes_first_then_what_is_written(path: Path) -> None:
    assert Script(path, [append(path, "3\n"), *wait(3), append(path, "4\n5\n")]).read() == [
        "1",
        "2",
        "3",
        "4",
        "5",
    ]


def test_half_a_line_waits_for_its_end(path: Path) -> None:
    script = Script(path, [append(path, "3"), *wait(2), append(path, "3\n4")])
    blocks = [block for block in script.log.blocks() if block]
    assert blocks == [b"1\n2\n", b"33\n", b"4"]


def test_a_renamed_file_is_read_to_its_end_also_what_comes_late(path: Path) -> None:
    old = path.with_name("app.log.1")

    def rename() -> None:
        path.rename(old)
        path.write_text("5\n", encoding="utf-8")

    steps = [append(path, "3\n"), rename, append(old, "4\n"), *wait(30), append(path, "6\n")]
    script = Script(path, steps)
    assert script.read() == ["1", "2", "3", "4", "5", "6"]
    assert script.log.num_rotations == 1


def test_two_rotations_soon_after_each_other(path: Path) -> None:
    def rename(number: int) -> Callable[[], None]:
        def step() -> None:
            path.rename(path.with_name(f"app.log.{number}"))
            path.write_text(f"{number + 2}\n", encoding="utf-8")

        return step

    assert Script(path, [rename(1), rename(2), *wait(60)]).read() == ["1", "2", "3", "4"]


def test_a_name_that_is_missing_for_a_while(path: Path) -> None:
    def take_away() -> None:
        path.rename(path.with_name("old"))

    steps = [take_away, *wait(5), append(path, "3\n"), *wait(30)]
    assert Script(path, steps).read() == ["1", "2", "3"]


def test_a_cut_file_is_read_from_its_start(path: Path) -> None:
    def cut() -> None:
        os.truncate(path, 0)
        append(path, "3\n4\n5\n6\n")()  # longer than what was read before

    assert Script(path, [cut, *wait(3)]).read() == ["1", "2", "3", "4", "5", "6"]


def test_what_was_written_just_before_the_cut_is_in_the_copy(path: Path) -> None:
    def copy_and_cut() -> None:
        append(path, "3\n4\n")()
        shutil.copyfile(path, path.with_name("app.log.1"))
        os.truncate(path, 0)
        append(path, "5\n")()

    path.with_name("app.log.2").write_text("of another day\n", encoding="utf-8")
    assert Script(path, [copy_and_cut, *wait(3)]).read() == ["1", "2", "3", "4", "5"]


def test_the_source_is_hashed_as_read(path: Path) -> None:
    script = Script(path, [])
    script.read()
    assert script.log.source_file.bytes == 4
    assert script.log.source_file.name == "app.log"


def line(number: int) -> bytes:
    return (
        f'192.0.2.1 - - [25/Oct/2026:02:00:01 +0100] "POST /v1 HTTP/1.1" 200 8 "-" "d/{number}" '
        f"rt=0.100 msec={time.time():.3f} rl={number + 1} bs=9\n"
    ).encode()


def write_for(path: Path, seconds: float, rotate: Callable[[Path, int], bool]) -> int:
    """Write about 2,000 lines/s; rotate twice: by a new file if that says so. The number of lines."""
    file = path.open("ab", buffering=0)
    started_s, number, rotations = time.monotonic(), 0, 0
    while (elapsed_s := time.monotonic() - started_s) < seconds:
        while number < elapsed_s * 2000:
            file.write(line(number))
            number += 1
        if rotations < 2 and elapsed_s > (rotations + 1) * seconds / 3:
            rotations += 1
            if rotate(path, rotations):
                # The writer goes on in the renamed file until it is told to open the new one.
                for _ in range(50):
                    file.write(line(number))
                    number += 1
                file.close()
                file = path.open("ab", buffering=0)
        time.sleep(0.002)
    file.close()
    return number


def by_renaming(path: Path, number: int) -> bool:
    path.rename(f"{path}.{number}")
    return True


def by_copying(path: Path, number: int) -> bool:
    shutil.copyfile(path, f"{path}.{number}")
    os.truncate(path, 0)
    return False


def follow(path: Path, trace: Path, *options: object) -> subprocess.Popen[bytes]:
    """Start to follow; returns when the file is about to be opened."""
    path.touch()
    process = command.start("record", path, "--format", "nginx", "--follow", "-o", trace, *options)
    assert process.stderr is not None
    assert b"following" in process.stderr.readline()
    return process


def stopped(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    time.sleep(0.5)  # a few looks at the log
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err.decode()


@pytest.mark.parametrize("rotate", [by_renaming, by_copying])
def test_two_rotations_lose_and_repeat_nothing(tmp_path: Path, rotate: Callable[[Path, int], bool]) -> None:
    path, trace = tmp_path / "access.log", tmp_path / "live.parquet"
    process = follow(path, trace)
    number = write_for(path, 3.0, rotate)
    # The last file is read once the one before has been quiet for 2 s.
    deadline_s = time.monotonic() + 30
    while not trace.exists() and time.monotonic() < deadline_s:
        time.sleep(0.1)
    code, err = stopped(process)
    assert code == 0, err
    lengths = read_trace(trace).table.column("input_bytes").to_pylist()
    assert sorted(lengths) == list(range(1, number + 1))


def whole_traces(trace: Path, process: subprocess.Popen[bytes]) -> Iterator[Trace]:
    deadline_s = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline_s:
        if trace.exists():
            yield read_trace(trace)
        time.sleep(0.05)


def test_the_trace_is_whole_at_all_times_and_after_a_kill(tmp_path: Path) -> None:
    path, trace = tmp_path / "access.log", tmp_path / "live.parquet"
    path.write_bytes(b"".join(line(number) for number in range(100)))
    process = follow(path, trace)
    written = next(whole_traces(trace, process))
    assert written.num_rows == 100
    writer = threading.Thread(target=write_for, args=(path, 1.0, lambda path, number: False))
    writer.start()
    process.kill()
    process.wait(timeout=30)
    writer.join()
    assert read_trace(trace).num_rows >= 100
    process.communicate()


def test_a_duration_ends_it(tmp_path: Path) -> None:
    path, trace = tmp_path / "access.log", tmp_path / "live.parquet"
    path.write_bytes(b"".join(line(number) for number in range(10)))
    process = follow(path, trace, "--duration", "300ms")
    assert process.wait(timeout=60) == 0
    assert read_trace(trace).num_rows == 10
    process.communicate()


def test_standard_input_is_followed_to_its_end(tmp_path: Path) -> None:
    trace = tmp_path / "live.parquet"
    text = b"".join(line(number) for number in range(10))
    ran = subprocess.run(
        [sys.executable, "-m", "loadgen", "record", "-", "--format", "nginx", "--follow", "-o", trace],
        input=text,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert read_trace(trace).num_rows == 10


def test_a_log_that_stays_empty_is_told(tmp_path: Path) -> None:
    process = follow(tmp_path / "access.log", tmp_path / "live.parquet", "--duration", "100ms")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert b"the log is empty" in err
