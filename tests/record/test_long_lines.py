"""Lines of any length and shape are recognised or refused in time that grows with their length, not its square."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from loadgen.errors import RecordError
from loadgen.record.formats.catalog import FORMATS, make_format
from loadgen.record.recorder import record_logs
from loadgen.record.settings import RecordSettings
from loadgen.record.sources import LONGEST_HEAD_BYTES, head_lines
from support.logs import recorded, rows

# What patterns stumble over, to be repeated: marks that open and never close, and runs without any mark.
SHAPES = (
    b"[", b"[01/Jan/2026:", b"a b [01/Jan/2026:", b'[x] "', b'"', b'\\"', b"a", b"1", b" ", b" - ", b"{", b"{} ",
    b"a=", b'a="', b":", b"/", b"INFO: ", b'{"a":', b".", b"\x1b[", b"haproxy[1]: ", b"Received request ",
    b"\\", b",", b"a:1 [",
)  # fmt: skip
# Beginnings that lead a pattern into its middle.
BEGINNINGS = (
    b"",
    b"a - - [",
    b'192.0.2.7 - - [25/Oct/2026:02:59:59 +0200] "',
    b"192.0.2.7:40112 [24/Oct/2026:20:59:58.201] https~ llm/gpu1 0/0/0/210/1503 200 5301 - - ---- 12/9/4/1/0 0/0 ",
    b"192.0.2.7:40112 [24/Oct/2026:20:59:58.201] https~ ",
)


def cpu_s(act: Callable[[], object]) -> float:
    """Processor time, which other programs on the machine do not change much; the best of three."""

    def once() -> float:
        start_s = time.process_time()
        act()
        return time.process_time() - start_s

    return min(once() for _ in range(3))


def grows_as_its_square(act: Callable[[bytes], object], beginning: bytes, shape: bytes) -> bool:
    """Four times the length is 4 times the work of one pass, and 16 times that of a pass for each place."""
    lines = [beginning + shape * (size // len(shape)) for size in (6_000, 24_000)]
    longer_s = cpu_s(lambda: act(lines[1]))
    return longer_s > 0.01 and longer_s > 9 * cpu_s(lambda: act(lines[0]))


def auto(line: bytes) -> None:
    with contextlib.suppress(RecordError):
        make_format("auto", RecordSettings(), [line])


@pytest.mark.parametrize("shape", SHAPES)
def test_recognising_takes_time_in_proportion_to_the_line(shape: bytes) -> None:
    for beginning in BEGINNINGS:
        assert not grows_as_its_square(auto, beginning, shape), beginning


@pytest.mark.parametrize("name", ["nginx", "haproxy", "apache", "envoy", "traefik-clf"])
def test_reading_takes_time_in_proportion_to_the_line(name: str, tmp_path: Path) -> None:
    good = BEGINNINGS[2] + b'POST /v1 HTTP/1.1" 200 1 "-" "a" rt=1.5 msec=1792890001.204\n'
    path = tmp_path / "x.log"

    def read(line: bytes) -> None:
        path.write_bytes(good + line + b"\n")
        with contextlib.suppress(RecordError):
            record_logs([path], name, RecordSettings(zone="UTC"))

    for shape in SHAPES:
        for beginning in BEGINNINGS[2:]:
            assert not grows_as_its_square(read, beginning, shape), (shape, beginning)


def litellm(prompt: str) -> str:
    return json.dumps(
        {
            "id": "1f", "status": "success", "prompt_tokens": 3, "completion_tokens": 2,
            "startTime": 1792889998.2, "endTime": 1792889999.7, "messages": prompt,
        }
    )  # fmt: skip


@pytest.mark.parametrize("before", [0, 200_000])
def test_a_first_line_of_any_usual_length_is_recognised(before: int, tmp_path: Path) -> None:
    first = [litellm("x" * before)] if before else []
    text = "\n".join([*first, litellm("x" * 1_000_000), litellm("")])
    assert len(rows(recorded(tmp_path, text))) == 2 + len(first)


def test_a_first_line_beyond_all_reason_is_said_to_be_looked_at_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sources", "recorder"):
        monkeypatch.setattr(f"loadgen.record.{module}.LONGEST_HEAD_BYTES", 1 << 20)
    with pytest.raises(RecordError, match=r"not recognised \(the first 1 MiB were looked at\)"):
        recorded(tmp_path, litellm("x" * (2 << 20)))
    assert LONGEST_HEAD_BYTES == 16 << 20


def test_a_look_at_a_file_ends_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"a" * 300_000 + b"\n" + b"b\n" * 1000)
    assert head_lines(path) == [b"a" * 300_000]
    path.write_bytes(b"b\n" * 1_000_000)
    assert set(head_lines(path)) == {b"b"}


def test_every_format_is_asked_for_its_look() -> None:
    assert all(maker.looks_like([b"x"]) is not None for maker in FORMATS.values())
