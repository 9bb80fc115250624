"""Write aside, then rename: a file under its final name is complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to; on success it becomes `path`, on error it is removed.

    A process killed in between leaves `<name>.partial-<pid>` and the earlier `path` intact. Raises OSError for
    what is there and no file: renaming over a device such as /dev/null would take its place.
    """
    if path.exists() and not path.is_file():
        code = errno.EISDIR if path.is_dir() else errno.EEXIST
        raise OSError(code, "it is a folder" if path.is_dir() else "it is no file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.partial-{os.getpid()}")
    try:
        yield aside
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, whole or not at all."""
    with replacing(path) as aside:
        aside.write_text(text, encoding="utf-8")
