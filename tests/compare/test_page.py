"""The page of a comparison: one file, the answer first, its numbers those of the comparison, drawn in a browser."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from loadgen.compare.charts import charts_of
from loadgen.compare.comparing import compare_runs
from loadgen.compare.comparison import Comparison, Terms
from loadgen.compare.gate import parse_gate
from loadgen.compare.outputs import write_outputs
from loadgen.compare.overlay import overlay
from loadgen.plan.schedule import Window
from loadgen.report.chart import IntervalsChart, LineChart
from support import compared_runs as sides
from support.browser import Browser, chromium

NOISY = (0.100, 0.102, 0.099, 0.101, 0.1005)
WINDOWS = (
    Window("baseline", 0, 2_000_000_000), Window("peak-1", 2_000_000_000, 3_000_000_000),
    Window("recovery-1", 3_000_000_000, 4_000_000_000),
)  # fmt: skip
HOSTILE = "</script><script>alert(1)</script><img src=x>"


def rows(latency_s: float, peak: float = 1.0, failed: int = 0) -> sides.Rows:
    """Requests of which those under the peak take `peak` times as long."""
    made = sides.rows(latency_s, failed=failed)
    for row in made[20:]:
        row["window"] = "peak-1" if row["planned_ns"] < WINDOWS[1].end_ns else "recovery-1"
    for row in made[20:30]:
        row["last_token_ns"] = row["planned_ns"] + round((row["last_token_ns"] - row["planned_ns"]) * peak)
        row["end_ns"] = row["last_token_ns"]
    return made


def compared(folder: Path, peak: float = 1.5, count: int = 5, failed: int = 0, **terms: Any) -> Comparison:
    def run(made: sides.Rows, minute: int, version: str) -> Any:
        target = {"url": "http://h", "model": "m", "dialect": "chat", "facts": {"version": version}}
        return sides.run(folder, made, minute=minute, windows=WINDOWS, target=target)

    base = [run(rows(one), 2 * n, "1") for n, one in enumerate(NOISY[:count])]
    candidate = [run(rows(one, peak, failed), 2 * n + 1, HOSTILE) for n, one in enumerate(NOISY[:count])]
    return compare_runs(base, candidate, Terms(**terms))


def page_of(comparison: Comparison, folder: Path) -> str:
    path = folder / "page.html"
    write_outputs(comparison, page=path)
    return path.read_text(encoding="utf-8")


def shown(page: str) -> str:
    main = page.partition("<main>")[2].partition("</main>")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", main))


def line_chart(comparison: Comparison, name: str) -> LineChart:
    (chart,) = [one for one in charts_of(comparison, overlay(comparison)) if one.name == name]
    assert isinstance(chart, LineChart)
    return chart


def test_the_page_asks_for_nothing_and_its_answer_stands_first(tmp_path: Path) -> None:
    page = page_of(compared(tmp_path), tmp_path)
    assert not re.search(
        r"<(link|iframe|img|object|embed)\b|<[^>]+\s(src|href)=", page.partition("<script")[0]
    )
    assert "default-src 'none'" in page
    text = shown(page)
    places = [
        text.index(words) for words in ("WORSE in", "Figures that decide", "Change of times", "All figures")
    ]
    assert places == sorted(places)
    assert '<p id="undrawn" class="state warn" hidden>' in page


def test_what_a_target_says_stays_text(tmp_path: Path) -> None:
    page = page_of(compared(tmp_path), tmp_path)
    assert page.count("<script") == 3
    assert "&lt;script&gt;alert(1)" in page


def test_each_chart_has_its_words_and_numbers(tmp_path: Path) -> None:
    page = page_of(compared(tmp_path), tmp_path)
    (figures,) = re.findall(r'id="figures">(.*?)</script>', page)
    names = re.findall(r'<section aria-labelledby="h-([\w-]+)">', page)
    assert names == ["change-by-window", "pairs", "runs", "time-lines", "latency-ecdf", "ttft-ecdf"]
    assert len(json.loads(figures)) == len(names) == page.count('class="plot"')
    assert page.count(": the numbers</summary>") == len(names)


def test_intervals_stand_by_window_with_the_numbers_of_the_comparison(tmp_path: Path) -> None:
    comparison = compared(tmp_path)
    chart = charts_of(comparison, overlay(comparison))[0]
    assert isinstance(chart, IntervalsChart)
    spans = {span.label: span for span in chart.spans}
    assert spans["latency p50 @peak-1"].middle == pytest.approx(50, abs=0.01)
    assert spans["latency p50 @peak-1"].kind == "WORSE"
    assert spans["latency p50 @baseline"].middle == pytest.approx(0, abs=1e-6)
    assert spans["latency p50 @baseline"].kind == "same"
    assert chart.band == 5.0


def test_pairs_show_the_change_of_each(tmp_path: Path) -> None:
    base, candidate = sides.interleaved(tmp_path, (0.1, 0.2, 0.4), (0.11, 0.2, 0.5))
    comparison = compare_runs(base, candidate, Terms())
    changes = {line.name: line.y for line in line_chart(comparison, "pairs").panels[0].lines}
    assert changes["latency p50"] == pytest.approx((10, 0, 25), abs=1e-6)
    first = line_chart(comparison, "runs").panels[0]
    assert [line.name for line in first.lines] == ["base", "candidate"]


def test_a_side_that_fails_does_not_reach_all_of_what_was_planned(tmp_path: Path) -> None:
    chart = line_chart(compared(tmp_path, peak=1.0, failed=10), "latency-ecdf")
    highest = {line.name: line.y[-1] for line in chart.panels[0].lines}
    assert highest == {"base (200)": 100.0, "candidate (150)": 75.0}
    assert "candidate: 150 of 200 answered" in chart.words


def test_time_lines_lie_over_each_other_with_the_injected_window_shaded(tmp_path: Path) -> None:
    chart = line_chart(compared(tmp_path), "time-lines")
    assert [(shade.label, shade.start_s, shade.end_s) for shade in chart.shaded] == [("peak-1", 2.0, 3.0)]
    base, candidate = chart.panels[1].lines
    ratios = {
        x: theirs / ours
        for x, ours, theirs in zip(base.x, base.y, candidate.y, strict=True)
        if ours is not None and theirs is not None
    }
    assert {round(ratio, 6) for x, ratio in ratios.items() if 2 < x < 3} == {1.5}
    assert {round(ratio, 6) for x, ratio in ratios.items() if x < 2} == {1.0}


@pytest.mark.parametrize("case", ["one run a side", "all failed", "unpaired", "gates"])
def test_every_kind_of_answer_makes_a_page(tmp_path: Path, case: str) -> None:
    if case == "unpaired":
        base, candidate = sides.interleaved(tmp_path, NOISY, NOISY)
        page = page_of(compare_runs(base, candidate[:3], Terms()), tmp_path)
        assert "5 runs against 3" in shown(page)
        assert "h-pairs" not in page
    elif case == "all failed":
        made = [sides.run(tmp_path, sides.rows(1.0, failed=40), minute=n) for n in range(6)]
        page = page_of(compare_runs(made[::2], made[1::2], Terms()), tmp_path)
        assert "120 timeout_total" in shown(page)
    elif case == "gates":
        gate = parse_gate("latency p50 @peak-1 > +5%")
        assert "GATE BROKEN" in shown(page_of(compared(tmp_path, gates=(gate,)), tmp_path))
    else:
        assert "Evidence weak" in shown(page_of(compared(tmp_path, count=1), tmp_path))


@pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")
def test_a_browser_draws_every_chart_on_wide_and_narrow_screens(tmp_path: Path) -> None:
    page_of(compared(tmp_path), tmp_path)
    path = tmp_path / "page.html"

    async def check() -> None:
        async with Browser() as browser:
            page = await browser.open(path)
            await page.until("document.documentElement.dataset.drawn === '6'")
            plots = "Array.from(document.querySelectorAll('.plot'))"
            marks = f"{plots}[0].data.filter((one) => one.mode === 'markers').map((one) => one.name).sort()"
            assert "WORSE" in await page.value(marks)
            assert await page.value(f"{plots}[0].layout.xaxis.range[0] < 0")
            await page.value("document.querySelector('button[data-from]').click()")
            await page.until(f"{plots}[3].layout.xaxis.range[0] === 0.5")
            assert await page.value(f"{plots}[1].layout.xaxis.range[0]") != 0.5
            await page.resize(400, 800)
            await page.until(f"{plots}[0]._fullLayout.width < 400")
            assert await page.value("document.documentElement.scrollWidth <= innerWidth")
            assert page.complaints == []
            assert [url for url in page.requests if not url.startswith("data:")] == [path.as_uri()]

    asyncio.run(check())
