"""Record parts: what a worker records, as whole files in a folder that its machine and others reach."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa

from loadgen.errors import UsageError
from loadgen.replay.request_record import SCHEMA
from loadgen.trace.location import is_remote, location

# Written by whoever began the run: a machine that does not see it has another folder under this name.
_MARK = "loadgen-run"


def checked_folder(text: str) -> str:
    """The folder of --records-to, absolute. Raises UsageError, without showing it, if it holds a secret."""
    if "://" not in text:
        return str(Path(text).absolute())
    parts = urlsplit(text)
    if parts.username or parts.password or parts.query:
        raise UsageError(
            "--records-to holds a user, a password or a query",
            hint="leave them out; its library finds credentials in the environment of each node",
        )
    location(text)
    return text.rstrip("/")


def made_folder(records_at: str) -> None:
    """Make the folder for the parts of a run. Raises UsageError if it cannot be written to."""
    folder = location(records_at)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MARK).write_bytes(b"")
    except Exception as exc:  # each library of a URL has errors of its own
        raise UsageError(
            f"--records-to {records_at}: cannot be written to ({_line(exc)})", hint="choose another place"
        ) from exc


class PartsWriter:
    """The parts of one worker, each whole under its name. What cannot be written is kept, and tried again.

    Raises UsageError where this machine does not see the folder that was made.
    """

    def __init__(self, records_at: str, worker: int) -> None:
        folder = location(records_at)
        self._folder = folder / f"worker-{worker}"
        try:
            if not (folder / _MARK).is_file():
                raise FileNotFoundError("it has not what was written there when the run began")
            self._folder.mkdir(parents=True, exist_ok=True)
        except Exception as exc:  # each library of a URL has errors of its own
            raise UsageError(
                f"--records-to {records_at}: not the same folder for all nodes ({_line(exc)})",
                hint="give a shared folder, or a URL that all nodes may write to",
            ) from exc
        self._held: list[pa.RecordBatch] = []
        self._num_parts = 0
        self._writing = asyncio.Lock()
        self.failure: str | None = None

    @property
    def held(self) -> list[pa.RecordBatch]:
        """What is not written yet."""
        return list(self._held)

    def append(self, batch: pa.RecordBatch) -> None:
        """Take records; they are written with the next `write`."""
        self._held.append(batch)

    async def write(self) -> None:
        """Write what is held as one more part, in a thread. failure says why where that is not possible."""
        async with self._writing:
            batches, self._held = self._held, []
            if not batches:
                return
            path = self._folder / f"{self._num_parts:06d}.arrows"
            try:
                await asyncio.get_running_loop().run_in_executor(None, _write, path, batches)
            except Exception as exc:  # whatever it is, sending goes on
                self.failure = _line(exc)
                self._held = batches + self._held
            else:
                self._num_parts += 1


def parts_of(records_at: str) -> dict[int, list[Path]]:
    """The whole parts of each worker, in the order they were written."""
    folder = location(records_at)
    if is_remote(folder):
        folder.fs.invalidate_cache()  # type: ignore[attr-defined]  # a listing from before the run is none
    found: dict[int, list[Path]] = {}
    for of_worker in folder.iterdir() if folder.is_dir() else ():
        number = of_worker.name.removeprefix("worker-")
        if number.isdigit():
            parts = [path for path in of_worker.iterdir() if path.name.endswith(".arrows")]
            found[int(number)] = sorted(parts, key=lambda path: path.name)
    return dict(sorted(found.items()))


def batches_of(path: Path) -> Iterator[pa.RecordBatch]:
    """The record batches of one part. Raises OSError or ArrowException where it cannot be read."""
    with _opened(path) as source, pa.ipc.open_stream(source) as stream:
        yield from stream


def remove_parts(records_at: str) -> None:
    """Remove the folder of a run's parts. Raises OSError."""
    folder = location(records_at)
    if is_remote(folder):
        folder.fs.rm(folder.path, recursive=True)  # type: ignore[attr-defined]
        return
    for of_worker in folder.glob("worker-*"):
        for path in of_worker.iterdir():
            path.unlink()
        of_worker.rmdir()
    (folder / _MARK).unlink(missing_ok=True)
    folder.rmdir()


def _opened(path: Path) -> pa.NativeFile:
    if not is_remote(path):
        return pa.OSFile(str(path), "rb")
    try:
        return pa.BufferReader(path.read_bytes())
    except Exception as exc:  # each library of a URL has errors of its own
        raise OSError(5, _line(exc)) from exc


def _write(path: Path, batches: list[pa.RecordBatch]) -> None:
    if is_remote(path):
        sink = pa.BufferOutputStream()
        _stream(sink, batches)
        path.write_bytes(sink.getvalue())
        return
    aside = path.with_name(f"{path.name}.partial")
    with pa.OSFile(str(aside), "wb") as file:
        _stream(file, batches)
    aside.replace(path)


def _stream(sink: pa.NativeFile, batches: list[pa.RecordBatch]) -> None:
    # Dictionaries differ from batch to batch, which the stream format allows.
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        for batch in batches:
            stream.write_batch(batch)


def _line(exc: Exception) -> str:
    text = (exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)).strip()
    return text.splitlines()[0] if text else type(exc).__name__
