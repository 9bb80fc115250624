"""How a verb ends: errors become one line and an exit code, and a fault of ours is told from a broken limit."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from loadgen.cli import main as command_line
from loadgen.errors import ExitCode, RunError


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (RunError("no such run", hint="give another"), ExitCode.BAD_INPUT),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (ZeroDivisionError("of our own"), ExitCode.RUN_FAILED),
    ],
)
def test_what_is_raised_has_its_exit_code(
    raised: BaseException,
    code: ExitCode,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def app() -> None:
        raise raised

    monkeypatch.setattr(command_line, "make_app", lambda _: app)
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == code
    told = capsys.readouterr().err
    assert ("Traceback" in told and "fault of loadgen" in told) == isinstance(raised, ZeroDivisionError)
