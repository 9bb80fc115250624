"""The file that a verb writes: its name where none is given, and when it may not be written."""

from __future__ import annotations

from pathlib import Path

from loadgen.errors import UsageError
from loadgen.trace.location import is_remote, is_url


def default_output(source: Path, suffix: str) -> Path:
    """Beside `source`, under its name with its endings replaced by `suffix`."""
    stem = source.name
    for ending in (".gz", ".bz2", ".xz", ".zst", ".csv", ".jsonl", ".json", ".log", ".parquet"):
        stem = stem.removesuffix(ending)
    return source.with_name(stem + suffix)


def refuse_to_overwrite(target: Path, source: Path, *, force: bool) -> None:
    """Raise UsageError if `target` exists and is not to be replaced, is the source itself, or can be no file."""
    if is_url(target):
        raise UsageError(f"{target}: a URL", hint="give a file of this machine with -o, and copy it there")
    folder = next((parent for parent in target.parents if parent.exists()), None)
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{target}: {folder} is no folder", hint="give another name with -o")
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "no file"
        raise UsageError(f"{target}: is {kind}", hint="give the name of a file with -o")
    if target.exists():
        if not is_remote(source) and source.exists() and target.samefile(source):
            raise UsageError(f"{target}: is the source itself", hint="give another name with -o")
        if not force:
            raise UsageError(f"{target}: exists already", hint="give another name with -o, or --force")
