"""Where a source file lies: on this machine, or at a URL that fsspec knows (s3://, gs://, https:// ...)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO, cast

from loadgen.errors import UsageError

_URL = re.compile(r"[a-z][a-z0-9+]+://")
_URL_AS_PATH = re.compile(r"[a-z][a-z0-9+]+:/")


def location(text: str) -> Path:
    """`text` as a path; for a URL, an object that names, stats and opens it as a path does.

    Raises UsageError if what reads URLs of this kind is not installed.
    """
    if not _URL.match(text):
        return Path(text)
    try:
        from upath import UPath  # noqa: PLC0415  # an extra, loaded by those who need it

        path = UPath(text)
        # Only now is the library of this kind of URL loaded.
        _ = path.fs
        return cast(Path, path)
    except (ImportError, ValueError) as exc:
        raise UsageError(
            f"{text}: this kind of URL cannot be read here ({exc})",
            hint="pip install 'loadgen[remote]', and s3fs for s3://, gcsfs for gs://",
        ) from exc


def is_url(path: Path) -> bool:
    """Whether a path was made of the text of a URL, of which Path keeps one slash."""
    return _URL_AS_PATH.match(str(path)) is not None


def is_remote(path: Path) -> bool:
    """Whether this came from a URL."""
    return not isinstance(path, Path)


def open_raw(path: Path) -> BinaryIO:
    """The file's bytes, unbuffered where it is local. Raises OSError."""
    if not is_remote(path):
        return cast(BinaryIO, path.open("rb", buffering=0))
    try:
        return cast(BinaryIO, path.open("rb"))
    except OSError:
        raise
    except Exception as exc:
        # Each library has errors of its own for a key, a bucket or a network that is not there.
        raise OSError(5, str(exc).splitlines()[0] if str(exc) else type(exc).__name__) from exc
