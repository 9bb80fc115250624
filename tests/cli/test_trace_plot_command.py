"""`loadgen trace plot`: on a terminal, in a pipe, as JSON and as files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support import command
from support.browser import Browser, chromium
from support.traces import written

# Five within 40 ms, every 10 s.
BURSTS = sorted(10.0 * burst + 0.01 * k for burst in range(12) for k in range(5))


def bursts(folder: Path) -> Path:
    return written(folder, BURSTS, input_tokens=[1, 10, 100, 1000, 10_000] * 12)


@pytest.mark.parametrize(("encoding", "is_ascii"), [("utf-8", False), ("ascii", True)])
def test_a_pipe_gets_plain_lines_of_80_columns(tmp_path: Path, encoding: str, is_ascii: bool) -> None:
    shown = command.run(
        "trace",
        "plot",
        bursts(tmp_path),
        env={"PYTHONIOENCODING": encoding, "COLUMNS": "200", "NO_COLOR": "1"},
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert "60 requests over 110.04 s" in lines[0]
    assert all(len(line) <= 80 for line in lines[1:]), shown.stdout
    assert "\x1b" not in shown.stdout
    assert shown.stdout.isascii() == is_ascii
    assert "requests per second, mean of each 1.53 s" in shown.stdout
    assert "gaps: mean 1.87 s, longest 9.96 s; variation 2.08 (Poisson 1)" in shown.stdout
    assert any(line.split()[:6] == ["10", "ms", "to", "20", "ms", "81.4%"] for line in lines) or any(
        line.split()[:6] == ["10", "ms", "to", "30", "ms", "81.4%"] for line in lines
    ), shown.stdout
    assert "input_tokens: p50 100, p90 10000, p99 10000, max 10000, mean 2222.2" in shown.stdout


def test_a_narrow_terminal_gets_shorter_bars(tmp_path: Path) -> None:
    shown = command.run("trace", "plot", bursts(tmp_path), env={"COLUMNS": "60"})
    assert all(len(line) <= 60 for line in shown.stdout.splitlines() if "%" in line and "#" not in line)


def test_json_holds_what_is_drawn(tmp_path: Path) -> None:
    shown = command.run("trace", "plot", bursts(tmp_path), "--json")
    document = json.loads(shown.stdout)
    assert (document["trace"], document["requests"], document["notes"]) == ("trace.parquet", 60, [])
    assert sum(document["curve"]["counts"]) == 60
    assert document["gaps"]["gaps"] == 59
    assert sum(one["share"] for one in document["gaps"]["bins"]) == pytest.approx(1)
    assert [side["column"] for side in document["lengths"]["sides"]] == ["input_tokens", "output_tokens"]


def test_what_a_trace_does_not_have_is_null_with_a_reason(tmp_path: Path) -> None:
    alone = written(tmp_path, [0.0], input_tokens=[None], output_tokens=[None])
    document = json.loads(command.run("trace", "plot", alone, "--json").stdout)
    assert (document["curve"], document["gaps"], document["lengths"]) == (None, None, None)
    assert [note.split(":")[0] for note in document["notes"]] == [
        "no rate over time",
        "no gaps",
        "no lengths",
    ]
    shown = command.run("trace", "plot", alone)
    assert shown.returncode == 0
    assert "note: no gaps: there is one request" in shown.stderr
    refused = command.run("trace", "plot", alone, "-o", tmp_path / "x.svg")
    assert refused.returncode == 2
    assert "nothing to draw" in refused.stderr
    page = tmp_path / "x.html"
    assert command.run("trace", "plot", alone, "-o", page).returncode == 0
    assert "there is one request" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "beginning"), [("x.html", b"<!DOCTYPE html>"), ("x.png", b"\x89PNG"), ("x.SVG", b"<?xml")]
)
def test_the_ending_of_the_file_names_its_kind(tmp_path: Path, name: str, beginning: bytes) -> None:
    path = bursts(tmp_path)
    target = tmp_path / "new" / name
    shown = command.run("trace", "plot", path, "-o", target)
    assert (shown.returncode, shown.stdout) == (0, "")
    assert "60 requests" in shown.stderr
    assert target.read_bytes().startswith(beginning)
    again = command.run("trace", "plot", path, "-o", target)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert command.run("trace", "plot", path, "-o", target, "--force").returncode == 0


def test_a_page_asks_for_nothing_and_holds_its_words(tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    command.run("trace", "plot", bursts(tmp_path), "-o", page)
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "ties 0.0% (Poisson 0.0%)" in text
    assert text.count('class="plot"') == 3


@pytest.mark.parametrize(
    ("name", "said"),
    [("x.pdf", "no kind of picture"), ("x", ".html, .png, .svg"), ("trace.parquet", "no kind")],
)
def test_another_ending_is_refused_before_the_trace_is_read(tmp_path: Path, name: str, said: str) -> None:
    refused = command.run("trace", "plot", tmp_path / "not-there.parquet", "-o", tmp_path / name)
    assert refused.returncode == 2
    assert said in refused.stderr
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(("name", "package"), [("x.html", "plotly"), ("x.png", "matplotlib")])
def test_a_missing_extra_is_one_line_before_the_trace_is_read(
    tmp_path: Path, name: str, package: str
) -> None:
    (tmp_path / "lack").mkdir()
    (tmp_path / "lack" / f"{package}.py").write_text(f"raise ImportError('no {package}')", encoding="utf-8")
    refused = command.run(
        "trace", "plot", tmp_path / "not-there.parquet", "-o", tmp_path / name,
        env={"PYTHONPATH": str(tmp_path / "lack")},
    )  # fmt: skip
    assert refused.returncode == 2
    assert f"package {package}" in refused.stderr
    assert "pip install" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_folder_that_refuses_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    refused = command.run("trace", "plot", bursts(tmp_path), "-o", tmp_path / "file" / "x.html")
    assert refused.returncode == 2
    assert "is no folder" in refused.stderr


def test_help_has_an_example() -> None:
    shown = command.run("trace", "plot", "--help")
    assert "loadgen trace plot production.parquet -o day.html" in " ".join(shown.stdout.split())


@pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")
def test_a_browser_draws_every_chart_and_asks_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    assert command.run("trace", "plot", bursts(tmp_path), "-o", path).returncode == 0

    async def open_and_check() -> None:
        async with Browser() as browser:
            page = await browser.open(path)
            await page.until("document.documentElement.dataset.drawn")
            assert await page.value("document.documentElement.dataset.drawn") == "3"
            assert page.complaints == []
            assert [url for url in page.requests if not url.startswith("data:")] == [path.as_uri()]

    asyncio.run(open_and_check())
