"""Words and tables of an experiment, shared by the terminal, the page and the Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadgen.durations import format_duration
from loadgen.experiment.placing import Claim, Machine
from loadgen.experiment.result import COLUMNS, Column, Row
from loadgen.report.chart import Chart, Line, LineChart, Panel, Table

# Above this many injected windows of a load, its table has the worst of each kind only.
_MAX_WINDOWS = 8


def cell(column: Column, value: float | None) -> str:
    """A figure for people; `-` where there is none."""
    if value is None:
        return "-"
    if column.kind == "time":
        return format_duration(value)
    if column.kind == "share":
        return f"{value:.0%}"
    return f"{value:g}" if column.kind == "count" else f"{value:.3g}"


def shown_columns(rows: Sequence[Row]) -> list[Column]:
    """Those that any row has a value for."""
    return [column for column in COLUMNS if any(row.values[column.key] is not None for row in rows)]


def table(rows: Sequence[Row]) -> Table:
    """Targets side by side, one row for each load and target; medians over repeats, with the range of p99."""
    columns = shown_columns(rows)
    judged = any(row.kept is not None for row in rows)
    heads = ("load", "target", *(column.head for column in columns), *(("limits held",) if judged else ()))
    many = any(row.runs > 1 for row in rows)
    found = []
    for row in rows:
        cells = [cell(column, row.values[column.key]) for column in columns]
        if many and "latency_p99" in row.spread:
            place = [column.key for column in columns].index("latency_p99")
            low, high = row.spread["latency_p99"]
            cells[place] += f" ({format_duration(low)} .. {format_duration(high)})"
        if judged:
            cells.append("-" if row.kept is None else f"{row.kept} of {row.runs}")
        found.append((row.load, row.target + ("*" if row.invalid else ""), *cells))
    return Table(heads, tuple(found))


def notes(rows: Sequence[Row]) -> list[str]:
    """What a reader of the table must know."""
    found = []
    if any(row.runs > 1 for row in rows):
        found.append("medians over the repeats of a cell; of p99 also the lowest and highest")
    if invalid := [row for row in rows if row.invalid]:
        names = ", ".join(f"{row.target} at {row.load} ({row.invalid} of {row.runs})" for row in invalid)
        found.append(f"* the generator was late in {names}: their latencies hold its own delay, too")
    return found


def side_by_side(claims: Mapping[str, Claim], machines: Sequence[Machine]) -> list[str]:
    """What goes side by side on a cluster, and why the rest does not. claims: by target."""
    hosts = len({machine.host for machine in machines})
    nodes = len(machines)
    on_machines = "" if hosts == nodes else f" on {hosts} {'machine' if hosts == 1 else 'machines'}"
    found = [f"{nodes} {'node' if nodes == 1 else 'nodes'}{on_machines}"]
    if alone := [name for name, claim in claims.items() if claim.servers is None]:
        found.append(
            f'nothing runs beside {_listed(alone)}: where it runs is not known; tell it, on = ["MACHINE"]'
        )
    if whole := [name for name, claim in claims.items() if claim.cpus is None]:
        several = "" if hosts > 1 else ", so that one follows the other"
        found.append(
            f"a whole machine for each run of {_listed(whole)}{several}; cpus = N takes N CPUs of one"
        )
    if shared := [name for name, claim in claims.items() if claim.servers is not None and claim.cpus]:
        found.append(f"side by side, also on one machine: {_listed(shared)}")
    return found


def _listed(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def windows_table(rows: Sequence[Row], load: str) -> Table | None:
    """p99 latency of each window of a load, targets side by side; None where it has one window only."""
    mine = [row for row in rows if row.load == load]
    labels = [
        name for name in dict.fromkeys(label for row in mine for label in row.windows) if name != "overall"
    ]
    if len(labels) < 2:
        return None
    shown = labels[:_MAX_WINDOWS]
    found = tuple(
        (
            row.target,
            *(format_duration(row.windows[label][1]) if label in row.windows else "-" for label in shown),
        )
        for row in mine
    )
    return Table(("p99 latency", *shown), found)


def charts(rows: Sequence[Row]) -> list[Chart]:
    """Latency against throughput, a line for each target through its loads."""
    targets = list(dict.fromkeys(row.target for row in rows))
    panels = []
    for key, title in (("latency_p99", "p99 latency"), ("latency_mean", "mean latency")):
        lines = []
        for target in targets:
            points = sorted(
                (row.values["throughput"], row.values[key])
                for row in rows
                if row.target == target
                and row.values["throughput"] is not None
                and row.values[key] is not None
            )
            if points:
                mark = "line" if len(points) > 1 else "dots"
                lines.append(Line(target, tuple(x for x, _ in points), tuple(y for _, y in points), mark))
        if lines:
            panels.append(Panel(title, "s", tuple(lines), is_log=True))
    if not panels:
        return []
    heads = ("target", "load", "served /s", "mean", "p99")
    by_key = {column.key: column for column in COLUMNS}
    numbers = tuple(
        (
            row.target,
            row.load,
            *(cell(by_key[key], row.values[key]) for key in ("throughput", "latency_mean", "latency_p99")),
        )
        for row in rows
    )
    served = [row for row in rows if row.values["throughput"] is not None]
    most = max(served, key=lambda row: row.values["throughput"] or 0.0)
    return [
        LineChart(
            "latency-throughput",
            "Latency against throughput",
            f"Each line is a target, each point one of its loads. The most is served by {most.target}: "
            f"{most.values['throughput']:.3g} answers a second at {most.load}. Down and to the right is better.",
            Table(heads, numbers),
            "answers a second",
            tuple(panels),
        )
    ]


def markdown(title: str, rows: Sequence[Row], loads: Sequence[str]) -> str:
    """The table, its notes, and each load's windows."""
    lines = [f"## {title}", "", *_as_markdown(table(rows)), ""]
    lines += [f"{note}  " for note in notes(rows)]
    for load in loads:
        if (found := windows_table(rows, load)) is not None:
            lines += ["", f"### Windows of {load}", "", *_as_markdown(found)]
    return "\n".join(lines).rstrip() + "\n"


def _as_markdown(found: Table) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"

    return [line(found.heads), "|" + "---|" * len(found.heads), *(line(row) for row in found.rows)]
