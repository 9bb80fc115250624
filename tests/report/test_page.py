"""The page in HTML: one file, its texts escaped, its numbers those of the report, and alive in a browser."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from loadgen.plan.schedule import Window
from loadgen.replay.run_folder import RunFolder
from loadgen.report.charts import charts_of
from loadgen.report.curves import curves
from loadgen.report.page import as_page
from loadgen.report.recorded_run import read_run
from loadgen.report.report import report_of
from loadgen.report.validity import Thresholds
from loadgen.telemetry.samples import GPU_ACTIVE, GPU_SM_ACTIVE, HOST_CPU, Samples
from support.browser import Browser, Page, chromium
from support.command import run
from support.runs import Row, failed, ns, ok, written

WINDOWS = (Window("baseline", 0, ns(8)), Window("peak-1", ns(8), ns(9)), Window("recovery-1", ns(9), ns(12)))
EVIL = "HTTP 500: </script><script>alert(1)</script><img src=x onerror=alert(2)> \u202ereversed"


def stages(service_s: float) -> Row:
    """The server tells of nine tenths of the service; the rest is the network's."""
    shares = {"parsed": 0.0, "pre_start": 0.0, "pre_end": 0.01, "enqueued": 0.01, "exec_start": 0.7,
              "prefill_end": 0.74, "first_token": 0.75, "last_token": 0.89, "finished": 0.9}  # fmt: skip
    return {f"server_{name}_us": round(share * service_s * 1e6) for name, share in shares.items()} | {
        "server_mean_batch": 3.0
    }


def rows() -> list[Row]:
    steady = [ok(k / 5, first_s=k / 5 + 0.05, last_s=k / 5 + 0.1) | stages(0.1) for k in range(40)]
    peak = [
        ok(8 + k / 40, first_s=8.4 + k / 40, last_s=8.8 + k / 40, window="peak-1") | stages(0.8)
        for k in range(30)
    ]
    refused = [failed(8.8 + k / 100, "rejected", end_s=8.9, window="peak-1", error=EVIL) for k in range(5)]
    after = [
        ok(9 + k / 5, first_s=9.05 + k / 5, last_s=9.1 + k / 5, window="recovery-1") | stages(0.1)
        for k in range(15)
    ]
    return [*steady, *peak, *refused, *after]


def a_run(folder: Path, **facts: Any) -> RunFolder:
    target = {"url": "http://127.0.0.1:8000", "model": "<b>m</b>", "dialect": "chat", "facts": None}
    return written(folder, rows(), windows=WINDOWS, length_s=12.0, target=target, **facts)


def page_of(folder: RunFolder) -> str:
    read = read_run(folder)
    built = report_of(read, Thresholds())
    shown = curves(read.seen, built.timeline.bin_s, len(built.timeline.labels))
    return as_page(built, charts_of(built, shown))


class Elements(HTMLParser):
    """Tags with their attributes, and the text outside of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._is_code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._is_code = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._is_code = False

    def handle_data(self, data: str) -> None:
        if not self._is_code:
            self.text += data


def read_page(text: str) -> Elements:
    parser = Elements()
    parser.feed(text)
    return parser


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(a_run(tmp_path_factory.mktemp("page")))


def test_the_page_is_one_file_well_under_three_megabytes(made: str) -> None:
    assert len(made.encode()) < 2_400_000
    for tag, attributes in read_page(made).tags:
        assert tag not in ("link", "iframe", "img", "object", "embed"), tag
        assert "src" not in attributes, (tag, attributes)
        assert "href" not in attributes, (tag, attributes)


def test_text_of_a_target_stays_text(made: str) -> None:
    found = read_page(made)
    assert [tag for tag, _ in found.tags].count("script") == 3
    assert "</script><script>alert(1)</script><img src=x onerror=alert(2)> ?reversed" in found.text
    assert "model <b>m</b>" in found.text
    assert "\u202e" not in made


def test_only_the_scripts_of_the_page_may_run_and_nothing_may_be_asked_for(made: str) -> None:
    policies = [
        a["content"] for tag, a in read_page(made).tags if a.get("http-equiv") == "Content-Security-Policy"
    ]
    (policy,) = policies
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]


def test_the_answer_comes_before_every_chart(made: str) -> None:
    text = read_page(made).text
    places = [
        text.index(words) for words in ("Valid", "did not hold", "Why", "Next:", "Figures", "Over time")
    ]
    assert places == sorted(places)


def test_each_worker_and_each_clock_is_told_as_in_the_terminal(tmp_path: Path) -> None:
    worker = {"worker": 0, "cpu_s": 3.0, "wall_s": 12.0, "loop_lag_p99_s": 0.004, "lateness_p99_s": 0.0013,
              "lateness_max_s": 0.021, "num_connections": 7, "most_connections": 5}  # fmt: skip
    clock = {
        "offset_ns": 1_500_000,
        "uncertainty_ns": 40_000,
        "drift_ns": 2_000,
        "residual_ns": 9_000,
        "num_checks": 6,
    }
    nodes = [
        {"host": "far", "address": "10.0.0.2", "workers": [0], "clock": clock},
        {"host": "near", "address": "10.0.0.3", "workers": [1], "clock": None},
    ]
    quiet = dict.fromkeys(worker) | {"worker": 1, "cpu_s": 0.0, "wall_s": 0.0}
    generator = {"workers": [worker, quiet], "lost": [], "nodes": nodes}
    text = read_page(page_of(a_run(tmp_path, generator=generator))).text
    sending = text[text.index("Sending") : text.index("What was run")]
    assert (
        "node far (10.0.0.2), workers 0: its clock is 1.500 ms ahead of ours (±0.040; corrected)" in sending
    )
    assert "node near (10.0.0.3), workers 1: its clock is not known" in sending
    assert "025%4 ms1.3 ms21 ms75" in sending.replace("\n", "")
    assert "1------" in sending.replace("\n", "")


def test_each_chart_has_words_and_a_table(made: str) -> None:
    tags = read_page(made).tags
    plots = [attributes for tag, attributes in tags if attributes.get("class") == "plot"]
    names = ["Over time", "Latency: share", "Latency over time", "Where the time",
             "Latency from the send, by output", "Failures over time", "How late"]  # fmt: skip
    assert len(plots) == len(names)
    for plot, name in zip(plots, names, strict=True):
        assert plot["role"] == "img"
        assert (plot["aria-label"] or "").startswith(name)
        assert len(plot["aria-label"] or "") > 80
    assert sum(a.get("role") == "region" for _, a in tags) >= len(plots)


def test_the_numbers_of_the_tables_are_those_of_the_run(made: str) -> None:
    body = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", made.partition("<main>")[2].partition("</main>")[0]))
    assert "requests 90 40 35 15" in body
    assert "latency p99 800 ms 100 ms 800 ms 100 ms" in body
    assert "rejected 5 5.56% the target" in body
    assert "offered_rate req/s 7.50 5.00 35.00 5.00" in body


def test_the_parts_of_the_stages_add_up_to_the_latency(made: str) -> None:
    (figures,) = re.findall(r'id="figures">(.*?)</script>', made)
    (trace,) = [
        figure["data"][0] for figure in json.loads(figures) if figure["data"][0].get("orientation") == "h"
    ]
    *parts, whole = trace["x"]
    assert sum(parts) == pytest.approx(whole, rel=1e-3)
    # 55 answers of 100 ms and 30 of 800 ms.
    assert whole == pytest.approx((55 * 100 + 30 * 800) / 85, rel=1e-3)
    assert trace["y"][-2:] == ["network and client", "= latency"]
    assert parts[-1] == pytest.approx(0.1 * whole, rel=1e-2)


def test_injected_windows_are_shaded_in_charts_over_time(made: str) -> None:
    (figures,) = re.findall(r'id="figures">(.*?)</script>', made)
    timed = [figure for figure in json.loads(figures) if figure["is_time"]]
    assert len(timed) == 4
    for figure in timed:
        (shape,) = figure["layout"]["shapes"]
        assert (shape["x0"], shape["x1"]) == (8.0, 9.0)


@pytest.mark.parametrize("outcome", ["refused", "not_sent"])
def test_a_run_without_a_success_makes_a_page(tmp_path: Path, outcome: str) -> None:
    made = page_of(written(tmp_path, [failed(k / 10, outcome) for k in range(20)]))
    assert f"20 {outcome}" in read_page(made).text


def test_the_command_writes_the_page_beside_the_report(tmp_path: Path) -> None:
    folder, page = a_run(tmp_path), tmp_path / "out" / "page.html"
    done = run("report", folder.path, "--html", page)
    assert done.returncode == 0, done.stderr
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert f"written: {page}" in done.stderr
    assert folder.report_path.is_file()


def in_browser(path: Path, check: Callable[[Page], Awaitable[None]], *, width: int = 1280) -> None:
    async def open_and_check() -> None:
        async with Browser() as browser:
            page = await browser.open(path, width=width)
            await page.until("document.documentElement.dataset.drawn")
            await check(page)
            assert page.complaints == []
            # Images that the page makes itself are no requests.
            assert [url for url in page.requests if not url.startswith("data:")] == [path.as_uri()]

    asyncio.run(open_and_check())


@pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")
def test_a_browser_draws_zooms_and_changes_colours(made: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(made, encoding="utf-8")

    async def check(page: Page) -> None:
        plots = "Array.from(document.querySelectorAll('.plot'))"
        assert await page.value("document.documentElement.dataset.drawn") == "7"
        # Numbers, as they are drawn: the highest p99 latency of the time line, in ms.
        highest = f"Math.max(...{plots}[0].data.find((line) => line.name === 'latency p99').y)"
        assert await page.value(highest) == 800
        whole = await page.value(f"{plots}[0].layout.xaxis.range")
        assert whole[0] <= 0
        assert whole[1] >= 11.9
        # Zoom: one button moves all charts over time and no others.
        others = await page.value(f"{plots}[1].layout.xaxis.range")
        await page.value("document.querySelector('button[data-from]').click()")
        await page.until(f"{plots}[6].layout.xaxis.range[0] === 6.5")
        assert await page.value(f"{plots}[0].layout.xaxis.range") == [6.5, 12]
        assert await page.value(f"{plots}[1].layout.xaxis.range") == others
        # A zoom within one chart is followed by the others.
        await page.value(f"Plotly.relayout({plots}[5], {{'xaxis.range[0]': 8, 'xaxis.range[1]': 9}}) && 0")
        await page.until(f"{plots}[0].layout.xaxis.range[1] === 9")
        # Colours: the toggle changes page and plots, and keeps the zoom.
        await page.prefer("light")
        before = await page.value(f"{plots}[0].layout.font.color")
        await page.value("document.getElementById('theme').click()")
        await page.until(f"{plots}[0].layout.font.color !== '{before}'")
        assert await page.value(f"{plots}[0].layout.xaxis.range") == [8, 9]
        assert await page.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
        await page.value("document.querySelector('button[data-whole]').click()")
        await page.until(f"{plots}[0].layout.xaxis.range[0] <= 0")
        # No chart runs over its place, and a narrow screen needs no scrolling sideways.
        await page.resize(400, 800)
        await page.until(f"{plots}[0]._fullLayout.width < 400")
        assert await page.value("document.documentElement.scrollWidth <= innerWidth")
        assert await page.value(
            f"{plots}.every((p) => p.firstElementChild.offsetHeight <= p.offsetHeight + 1)"
        )
        # What may be clicked cannot send a chart away.
        assert await page.value("document.body.innerHTML.includes('Share chart')") is False
        assert await page.value("typeof window.alerted") == "undefined"

    in_browser(path, check)


@pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [400, 1280])
def test_the_names_of_a_panel_do_not_touch_the_panel_above(tmp_path: Path, width: int) -> None:
    samples = Samples()
    for moment_ns in range(0, ns(12), ns(0.5)):
        for name in (GPU_ACTIVE, GPU_SM_ACTIVE):
            samples.add(moment_ns, "gpu:GPU-1", name, 0.5)
        samples.add(moment_ns, "host", HOST_CPU, 0.4)
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
            samples.add(moment_ns, "server", f"vllm:{name}", 0.3)
    path = tmp_path / "page.html"
    path.write_text(page_of(a_run(tmp_path, telemetry=samples)), encoding="utf-8")
    rooms = """(() => {
      const plot = document.querySelector('.plot'), top = plot.getBoundingClientRect().top;
      const panels = Object.keys(plot._fullLayout).filter((name) => /^yaxis\\d*$/.test(name));
      return panels.slice(1).map((name, place) => {
        const above = plot._fullLayout[panels[place]];
        const names = plot.querySelector('.' + name.replace('yaxis', 'legend')).getBoundingClientRect();
        const room = names.top - top - above._offset - above._length;
        return [room, plot._fullLayout[name]._offset + top - names.bottom];
      });
    })()"""

    # The label of the peak: below the names of the first panel, above the panel itself.
    around_label = """(() => {
      const plot = document.querySelector('.plot');
      const panel = plot.getBoundingClientRect().top + plot._fullLayout.yaxis._offset;
      const names = plot.querySelector('.legend').getBoundingClientRect();
      const label = plot.querySelector('.annotation-text').getBoundingClientRect();
      return [label.top - names.bottom, panel - label.bottom];
    })()"""

    async def check(page: Page) -> None:
        assert all(room > -5 for room in await page.value(around_label))
        found = await page.value(rooms)
        assert len(found) == 6
        for above, below in found:
            assert above > 5
            assert below > -5

    in_browser(path, check, width=width)
