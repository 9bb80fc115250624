"""Advice on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.advise.advice import Advice
from loadgen.advise.arithmetic import WAIT_SHARE, fills
from loadgen.advise.search import Outlook
from loadgen.durations import format_duration

_WIDE = 240  # columns: flags are not squeezed


def render(advice: Advice, out: Console) -> None:
    """Everything, in the order in which it is found: rates, arithmetic, simulation, certainty, other servers."""
    budget, rates = advice.budget, advice.rates
    tail = f"p{budget.percent:g}"

    def say(text: str) -> None:
        out.print(Text(text), soft_wrap=True)

    mean = "within an instant" if rates.mean is None else f"{rates.mean:.3g}/s on average"
    say(
        f"arrivals: {mean}; {rates.busy:.3g}/s in the second that a request finds itself in; at most "
        f"{rates.peak:.3g} in one second"
    )
    say(
        f"\na batch fills in max batch / arrival rate; that should be under {WAIT_SHARE:.0%} of the budget of "
        f"{format_duration(budget.latency_s)}, which is {format_duration(WAIT_SHARE * budget.latency_s)}"
    )
    table = _table(("max batch", "at the busy rate", "", "at the mean rate", ""))
    at_mean = None if rates.mean is None else fills(rates.mean, budget.latency_s)
    for place, fill in enumerate(fills(rates.busy, budget.latency_s)):
        other = None if at_mean is None else at_mean[place]
        cells = [
            f"{fill.max_batch} / {rates.busy:.3g} = {format_duration(fill.wait_s)}",
            _fits(fits=fill.fits),
        ]
        if other is not None:
            cells += [
                f"{fill.max_batch} / {rates.mean:.3g} = {format_duration(other.wait_s)}",
                _fits(fits=other.fits),
            ]
        else:
            cells += ["-", ""]
        table.add_row(str(fill.max_batch), *cells)
    out.print(table)
    if (law := advice.law) is not None:
        rows = advice.best.setting.max_batch
        batches = "1 batch" if law.batches == 1 else f"{law.batches} batches"
        waits = (
            f"of what waits, {law.capacity:.3g}/s x ({format_duration(budget.latency_s)} - "
            f"{format_duration(law.service_s)}) = {law.high_water} still come out in time: refuse above that"
            if law.high_water
            else "which alone is longer than the budget, so that nothing that waits comes out in time"
        )
        say(
            f"\nLittle's law: {law.rate:.3g}/s x {format_duration(law.service_s)} in execution = "
            f"{law.in_execution:.3g} at once, {batches} of {rows}; {waits}"
        )
    say(
        f"\nsettings simulated: {len(advice.outlooks)}, steps as {advice.cost_from} says; the best of each policy:"
    )
    table = _table(("setting", tail, "mean", "failed", "in time", "served /s", "engine busy"))
    for best in advice.by_policy.values():
        table.add_row(*_cells(best.setting.flags, best))
    if advice.present is not None:
        table.add_row(*_cells(f"now: {advice.present_flags}", advice.present))
    usual, out.width = out.width, _WIDE
    out.print(table)
    out.width = usual
    held = "holds" if advice.best.holds(budget) else "does NOT hold; no setting does: this is the least bad"
    say(f"\nadvised ({held}):\n  loadgen serve {advice.flags}")
    if advice.alone_s > budget.latency_s:
        say(
            f"no setting can hold it: {tail} is {format_duration(advice.alone_s)} where every request is served by "
            "itself; shorten the answers, make steps cheaper, or give a longer budget"
        )
    sure = advice.certainty
    spread = "" if sure.tails_s is None else (
        f", {tail} {format_duration(sure.tails_s[0])} to {format_duration(sure.tails_s[2])}"
    )  # fmt: skip
    slower = (
        "not even with steps 5 % slower" if sure.slower == 1 and sure.breaks_at is not None
        else f"with steps up to {sure.slower:g} times as slow"
        + ("" if sure.breaks_at is None else f", no more at {sure.breaks_at:g} times")
    )  # fmt: skip
    also = f"; {slower}" if advice.best.holds(budget) else ""
    say(f"how sure: it holds on {sure.held} of {sure.draws} traces drawn like this one{spread}{also}")
    if (others := advice.as_good - 1) > 0:
        say(
            f"{others} other setting{'s are' if others > 1 else ' is'} as good, within what chance decides; "
            "this one asks for least: the smallest batches, the shortest wait"
        )
    for note in advice.notes:
        say(f"note: {note}")
    if advice.present is not None:
        verdict = "holds" if advice.present.holds(budget) else "does not hold"
        say(
            f"the present setting {verdict}: {tail} {_time(advice.present.tail_s)}, "
            f"{advice.present.error_rate:.1%} fail"
        )
    if advice.elsewhere:
        say("\nnearest elsewhere:")
    for one in advice.elsewhere:
        say(f"  {one.server}: {one.text}\n    ({one.how_near})")


def _table(heads: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place == 0 else "right", no_wrap=True)
    return table


def _cells(name: str, one: Outlook) -> list[str]:
    return [
        name,
        _time(one.tail_s),
        _time(one.mean_s),
        f"{one.error_rate:.1%}",
        f"{one.good_share:.1%}",
        "-" if one.throughput is None else f"{one.throughput:.3g}",
        "-" if one.busy_share is None else f"{one.busy_share:.0%}",
    ]


def _fits(*, fits: bool) -> str:
    return "fits" if fits else "too long"


def _time(value_s: float | None) -> str:
    return "-" if value_s is None else format_duration(value_s)
