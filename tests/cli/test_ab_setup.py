"""What `ab` keeps of its options, and how an experiment that was stopped takes them up again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from loadgen.cli.ab_setup import AbSetup, as_it_was
from loadgen.cli.main import make_app
from loadgen.errors import UsageError
from support.traces import written

SECRET_COMMAND = "server --port {port} --api-key sk-sentinel"


def given(*words: object) -> dict[str, Any]:
    """The options as the command line gives them."""
    app: Any = typer.main.get_command(make_app(["ab"]))
    return dict(app.commands["ab"].make_context("ab", [str(word) for word in words]).params)


def setup(folder: Path, *words: object) -> AbSetup:
    trace = written(folder, [0.0, 1.0, 2.0])
    return AbSetup(given(trace, "--a", "http://127.0.0.1:1", "--b", SECRET_COMMAND, *words))


def test_what_is_kept_holds_no_secret_and_can_be_written(tmp_path: Path) -> None:
    kept = json.dumps(setup(tmp_path, "--api-key", "sk-sentinel", "--header", "X-Key: sk-sentinel").settings)
    assert "sk-sentinel" not in kept
    assert "***" in kept


def test_an_experiment_goes_on_with_its_own_options_save_those_that_are_taken_anew(tmp_path: Path) -> None:
    settings = setup(tmp_path, "--seed", "7", "--max-time", "1h").settings
    again = as_it_was(
        settings, given("--resume", "x", "--b", SECRET_COMMAND, "--max-time", "2h", "--seed", "8")
    )
    assert (again["seed"], again["max_time"], again["resume"]) == (7, "2h", Path("x"))
    assert again["b"] == SECRET_COMMAND
    assert AbSetup(again).schedule.schedule_hash == settings["schedule_hash"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--b held a secret"),
        (("--b", "server --port {port} --api-key other --fast"), "--b is another than before"),
        (("--b", SECRET_COMMAND, "--a", "http://127.0.0.1:2"), "--a is another than before"),
    ],
)
def test_a_side_that_is_not_the_one_of_before_is_refused(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    settings = setup(tmp_path).settings
    with pytest.raises(UsageError, match=said):
        as_it_was(settings, given("--resume", "x", *words))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ready-within", "0"), "--ready-within"),
        (("--max-time", "0s"), "--max-time"),
        (("--alpha", "x"), "alpha"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        setup(tmp_path, *words)


def test_a_trace_and_both_sides_are_needed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give a trace"):
        AbSetup(given(written(tmp_path, [0.0]), "--a", "http://127.0.0.1:1"))
