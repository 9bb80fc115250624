"""Html: what every page is made of, that of a run and that of a comparison; one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any

import loadgen
from loadgen.errors import UsageError
from loadgen.report import words
from loadgen.report.chart import Chart, Shade, Table

_MAX_ZOOMS = 8
# Room around a window that is zoomed to, of its own length.
_AROUND = 1.5
# Shown where the charts stay empty.
UNDRAWN = (
    '<p id="undrawn" class="state warn" hidden>This browser cannot draw the charts; each has its numbers '
    "in a table.</p><noscript><p>Without scripts, the numbers of each chart are in its table.</p></noscript>"
)


def page(title: str, body: Iterable[str], figures: Sequence[dict[str, Any]]) -> str:
    """The whole page. figures: of plotly_figures, in the order of their places in `body`.

    Raises UsageError where the charting library is not installed.
    """
    library = _library()
    script = _asset("page.js")
    # Only these two scripts run, whatever a target's text says, and nothing is asked of anywhere.
    policy = (
        f"default-src 'none'; script-src {_hash(script)} {_hash(library)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    packed = base64.b64encode(zlib.compress(library.encode(), 9)).decode()
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="generator" content="loadgen {escape(loadgen.__version__)}">',
            f"<title>{text(title)}</title>",
            f"<style>{_asset('page.css')}</style></head><body>",
            *body,
            f'<script type="application/json" id="figures">{_json(figures)}</script>',
            f'<script type="text/plain" id="library">{packed}</script>',
            f"<script>{script}</script>",
            "</body></html>\n",
        ]
    )


def header(title: str) -> Iterable[str]:
    """The headline and the switch of colours; what follows belongs to <main>."""
    yield f"<header><h1>{text(title)}</h1>"
    yield '<button id="theme" type="button" hidden>Dark colours</button></header><main>'


def section(title: str, lines: Iterable[str]) -> Iterable[str]:
    yield f"<section><h2>{text(title)}</h2>"
    yield from lines
    yield "</section>"


def state(kind: str, strong: str, rest: str) -> str:
    """A marked line. kind: good, bad or warn."""
    return f'<p class="state {kind}"><strong>{text(strong)}</strong>: {text(rest)}</p>'


def figure(chart: Chart, height_px: int, place: int, above: Iterable[str] = ()) -> Iterable[str]:
    """A chart with its words and its numbers. place: in the page's figures. above: lines before it."""
    name = escape(chart.name)
    yield f'<section aria-labelledby="h-{name}"><h2 id="h-{name}">{text(chart.title)}</h2>'
    yield from above
    yield f'<figure aria-describedby="w-{name}">'
    yield (
        f'<div class="plot" data-figure="{place}" style="height:{height_px}px" role="img" '
        f'aria-label="{text(chart.title)}: {text(chart.words)}"></div>'
    )
    yield f'<figcaption id="w-{name}">{text(chart.words)}</figcaption></figure>'
    yield f"<details><summary>{text(chart.title)}: the numbers</summary>"
    yield from table(chart.table, chart.title)
    yield "</details></section>"


def zooms(shaded: Sequence[Shade]) -> Iterable[str]:
    """Buttons that show a window in all charts over time."""
    yield '<div class="zoom" role="group" aria-label="Zoom of all charts over time">'
    yield '<button type="button" data-whole>Whole run</button>'
    for shade in shaded[:_MAX_ZOOMS]:
        around_s = _AROUND * (shade.end_s - shade.start_s)
        start_s, end_s = max(0.0, shade.start_s - around_s), shade.end_s + 2 * around_s
        yield (
            f'<button type="button" data-from="{start_s:.6g}" data-until="{end_s:.6g}">Zoom to '
            f"{text(shade.label)}</button>"
        )
    yield "</div>"
    yield (
        '<p class="faint">Drag in a chart to zoom, double-click to see all again; a click on a name in a legend '
        "hides its line. Injected windows are shaded.</p>"
    )


def table(found: Table, label: str, text_from: int = 99) -> Iterable[str]:
    """text_from: columns from this one on hold prose."""

    def cell(kind: str, place: int, content: str, scope: str) -> str:
        prose = ' class="text"' if place >= text_from else ""
        return f"<{kind}{scope}{prose}>{text(content)}</{kind}>"

    # A wide table scrolls by itself, also by keyboard.
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{text(label)}"><table><thead><tr>'
    yield "".join(cell("th", place, head, ' scope="col"') for place, head in enumerate(found.heads))
    yield "</tr></thead><tbody>"
    for row in found.rows:
        cells = [
            cell("th", 0, row[0], ' scope="row"'),
            *(cell("td", i, content, "") for i, content in enumerate(row[1:], 1)),
        ]
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def text(content: str) -> str:
    """Text, whoever wrote it, as text: no markup, nothing that turns the direction of writing."""
    return escape(words.plain(content))


def _json(figures: Sequence[dict[str, Any]]) -> str:
    return json.dumps(figures, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return resources.files("loadgen.report").joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def require_library() -> None:
    """Raises UsageError where the charting library is not installed: before hours of runs, not after."""
    _library()


def _library() -> str:
    try:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise UsageError(
            "a page (.html) needs the package plotly", hint="pip install 'loadgen[html]'"
        ) from exc
    return str(get_plotlyjs())
