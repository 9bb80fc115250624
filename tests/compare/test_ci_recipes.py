"""The recipes for CI: each command in them is one that the command line takes, each gate one that is known."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from loadgen.cli.main import VERBS, make_app
from loadgen.compare.ab_target import parse_target
from loadgen.compare.gate import read_gates

PAGE = (Path(__file__).parent.parent.parent / "docs" / "ci.md").read_text(encoding="utf-8")
WHOLE: Any = typer.main.get_command(make_app(VERBS))
BLOCKS = {kind: re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("yaml", "toml")}
# A folded scalar: the lines of one depth after the one that begins the command.
COMMANDS = [
    " ".join(line.strip() for line in match.group(0).splitlines()).split(" || ")[0]
    for block in BLOCKS["yaml"]
    for match in re.finditer(r"(?m)^( +)loadgen .*\n(?:\1\S.*\n)*", block)
]


def test_there_is_a_command_for_each_service() -> None:
    assert len(COMMANDS) == len(BLOCKS["yaml"]) == 2


@pytest.mark.parametrize("text", COMMANDS)
def test_the_command_line_takes_the_command_of_a_recipe(text: str) -> None:
    name, verb, *arguments = shlex.split(text)
    assert (name, verb) == ("loadgen", "ab")
    # Parsed as it would be when run: unknown options and values of the wrong kind are refused here.
    given = WHOLE.commands[verb].make_context(verb, arguments, resilient_parsing=False).params
    for side in ("a", "b"):
        assert parse_target(given[side], option=f"--{side}").kind == "command"
    # What is written is kept after the job, and the answer comes before the job's own limit.
    kept = [block for block in BLOCKS["yaml"] if str(given["b"]) in block]
    assert kept
    for form in ("markdown", "junit", "html"):
        assert all(block.count(str(given[form])) > 1 for block in kept)


def test_the_gates_of_the_recipe_are_gates(tmp_path: Path) -> None:
    (block,) = BLOCKS["toml"]
    path = tmp_path / "gates.toml"
    path.write_text(block)
    assert len(read_gates(path)) == 3
    assert all("--gates ci/gates.toml" in text for text in COMMANDS)
