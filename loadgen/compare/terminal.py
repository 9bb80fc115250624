"""A comparison on a terminal, in a pipe, at 80 columns, without colour: the answer first, then its reasons."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.compare import words
from loadgen.compare.comparison import CellResult, Comparison
from loadgen.durations import format_duration

_MAX_ROWS = 12


def render(comparison: Comparison, console: Console) -> None:
    """Print `comparison`."""
    style = {0: "bold green", 1: "bold red"}.get(int(comparison.exit_code), "bold yellow")
    console.print(Text(words.headline(comparison), style=style), soft_wrap=True)
    _line(console, f"{words.design(comparison)}; {words.method(comparison)}")
    for reason in comparison.weak:
        _line(console, f"  evidence weak: {reason}")
    if comparison.weak:
        _line(console, "  run `loadgen ab` for an answer that holds")
    if (text := words.more(comparison)) is not None:
        _line(console, f"  {text}")
    for one in comparison.gates:
        _line(console, f"gate {words.gate_words(one)}")
    if (text := words.changed(comparison)) is not None:
        _line(console, f"changed: {text}")
    console.print()
    _table(comparison.deciding, console)
    for reason in words.reasons(comparison):
        _line(console, f"  {reason}")
    _others(comparison, console)
    _success(comparison, console)
    _where(comparison, console)
    for metric in comparison.refused:
        _line(console, f"not compared: {metric.field}, defined as {metric.base} and as {metric.candidate}")
    for note in comparison.notes:
        _line(console, f"note: {note}")


def _table(results: Iterable[CellResult], console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("")
    for heading in ("base", "candidate", "change", "interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for result in results:
        table.add_row(*words.row(result))
    console.print(table)


def _others(comparison: Comparison, console: Console) -> None:
    others = words.beyond_deciding(comparison)
    rest = len(comparison.results) - len(comparison.deciding) - len(others)
    if others:
        console.print()
        console.print(Text("other figures and windows that differ:", style="bold"))
        _table(others[:_MAX_ROWS], console)
        if len(others) > _MAX_ROWS:
            _line(console, f"  and {len(others) - _MAX_ROWS} more; --json has them")
    if rest:
        _line(console, f"{rest} other figures show no change that is sure; --json has them")


def _success(comparison: Comparison, console: Console) -> None:
    console.print()
    for line in words.failures(comparison):
        _line(console, line)
    if comparison.has_equal_successes:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("each side's own successes")
    for heading in ("base", "candidate"):
        table.add_column(heading, justify="right")
    for result in comparison.deciding:
        if result.cell.statistic is not None:
            table.add_row(*words.own_row(result))
    console.print(table)


def _where(comparison: Comparison, console: Console) -> None:
    if not comparison.parts:
        return
    console.print()
    console.print(Text("where (mean latency of twins; says where, not whether):", style="bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for justify in ("left", "left", "right", "right", "right"):
        table.add_column(justify=justify)
    for kind, label, twins, values, change in words.part_words(comparison.parts):
        table.add_row(f"  {kind}", label, twins, values, change)
    console.print(table)
    if comparison.worst:
        console.print(Text("grew most:", style="bold"))
    for twin in comparison.worst:
        known = ((twin.input_tokens, "in"), (twin.output_tokens, "out"))
        lengths = ", ".join(f"{tokens} {way}" for tokens, way in known if tokens is not None)
        copy = f" copy {twin.copy}" if twin.copy else ""
        _line(
            console,
            f"  row {twin.trace_row}{copy} at {twin.planned_s:.2f} s [{twin.window}]{lengths and ' '}{lengths}: "
            f"{format_duration(twin.base_s)} to {format_duration(twin.candidate_s)}",
        )


def _line(console: Console, text: str) -> None:
    console.print(Text(text))
