"""A log's files read by tasks of a cluster give the trace that one machine gives."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadgen.errors import RecordError
from loadgen.record.recorder import record_logs
from loadgen.record.recording import Recording
from loadgen.record.settings import RecordSettings

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'loadgen[ray]'"
    ),
    # Ray's own, while a cluster begins and ends in this process.
    pytest.mark.filterwarnings("default"),
]
SETTINGS = RecordSettings(
    time_field="t", length_fields={"input_tokens": "in"}, status_field="code", session_field="s"
)
NUM_FILES, ROWS = 64, 40


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    from loadgen.ray_cluster import joined_cluster

    with joined_cluster("local", least_cpus=2):
        yield


def rotated(folder: Path) -> list[Path]:
    """64 files, newest first, some compressed; ties between files, a malformed line in each, one begins with the
    end of the one before."""
    paths: list[Path] = []
    previous: list[str] = []
    for number in range(NUM_FILES):
        lines = [
            json.dumps(
                {"t": 1_700_000_000 + number * ROWS // 2 + row, "in": row, "code": 200, "s": f"u{row % 7}"}
            )
            for row in range(ROWS)
        ]
        lines.insert(3, "Traceback (most recent call last):")
        if number == 30:
            lines = previous[-5:] + lines
        previous = lines
        text = ("\n".join(lines) + "\n").encode()
        path = folder / f"app.log.{NUM_FILES - number}{'.gz' if number % 3 else ''}"
        path.write_bytes(gzip.compress(text) if number % 3 else text)
        paths.append(path)
    return paths[::-1]


def found(recording: Recording) -> object:
    trace = recording.trace
    return trace.trace_id, recording.fidelity, trace.metadata.counts, trace.metadata.sources


def test_64_rotated_files_give_the_trace_of_one_machine(tmp_path: Path) -> None:
    from loadgen.record.ray_files import RayFiles

    paths = rotated(tmp_path)
    num_bytes: list[int] = []
    alone = record_logs(paths, "jsonl", SETTINGS)
    on_ray = record_logs(paths, "jsonl", SETTINGS, files_reader=RayFiles(), on_bytes=num_bytes.append)
    assert found(on_ray) == found(alone)
    assert on_ray.fidelity.num_duplicates == 5
    assert on_ray.fidelity.num_requests == NUM_FILES * ROWS
    assert sum(num_bytes) == sum(path.stat().st_size for path in paths)


def test_a_log_whose_lines_depend_on_each_other_is_read_in_order(tmp_path: Path) -> None:
    from loadgen.record.ray_files import RayFiles

    paths = rotated(tmp_path)
    settings = RecordSettings(time_field="t", zone="Europe/Berlin", length_fields={"input_tokens": "in"})
    alone, on_ray = (
        found(record_logs(paths, "jsonl", settings, files_reader=reader)) for reader in (None, RayFiles())
    )
    assert alone == on_ray


def test_what_a_task_finds_wrong_is_told_as_on_one_machine(tmp_path: Path) -> None:
    from loadgen.record.ray_files import RayFiles

    paths = rotated(tmp_path)
    paths[0].write_text('{"t": "2026-10-25 00:59:58", "in": 1}\n', encoding="utf-8")
    with pytest.raises(RecordError, match="has no zone") as caught:
        record_logs(paths, "jsonl", SETTINGS, files_reader=RayFiles())
    assert caught.value.hint is not None and "--zone" in caught.value.hint
