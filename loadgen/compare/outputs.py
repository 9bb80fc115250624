"""Writing a comparison to files, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from loadgen.atomic_file import write_text
from loadgen.compare.charts import charts_of
from loadgen.compare.comparison import Comparison
from loadgen.compare.junit import as_junit
from loadgen.compare.markdown import as_markdown
from loadgen.compare.overlay import overlay
from loadgen.compare.page import as_page
from loadgen.errors import RunError


def write_outputs(
    comparison: Comparison,
    *,
    markdown: Path | None = None,
    junit: Path | None = None,
    page: Path | None = None,
) -> None:
    """Write what is asked for. Raises RunError naming the file that cannot be written."""
    for path, make in ((markdown, as_markdown), (junit, as_junit), (page, _page)):
        if path is None:
            continue
        try:
            write_text(path, make(comparison))
        except OSError as exc:
            raise RunError(f"{path}: cannot be written ({exc.strerror or exc})") from exc


def _page(comparison: Comparison) -> str:
    return as_page(comparison, charts_of(comparison, overlay(comparison)))
