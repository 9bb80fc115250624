"""Logs by the command on a cluster begun elsewhere, whose only CPU is on a node that lacks a folder."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from support import command
from support.network import can_make_networks
from support.ray_nodes import can_shift_clocks, two_nodes

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'loadgen[ray]'"
    ),
    # Ray's own, while a cluster begins and ends in this process.
    pytest.mark.filterwarnings("default"),
]


def test_logs_named_from_here_are_found_there_and_what_a_node_lacks_is_named(tmp_path: Path) -> None:
    if not (can_make_networks() and can_shift_clocks()):
        pytest.skip("this user may make no network and time namespaces")
    here, apart = tmp_path / "here", tmp_path / "apart"
    # The oldest is read here, the others there.
    for number, path in enumerate((apart / "app.log", here / "app.log", here / "app.log.1")):
        path.parent.mkdir(exist_ok=True)
        rows = [{"t": 1_700_000_000 - 100 * number + row, "in": 1} for row in range(40)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ("--format", "jsonl", "--time", "t", "--input-tokens", "in", "-o", "out.parquet", "--force")
    with two_nodes(head_cpus=0, without=apart) as nodes:
        given = ("--ray", nodes.address, *options)
        told = command.run("record", "app.log", "app.log.1", *given, folder=here)
        assert told.returncode == 0, told.stderr
        assert "80 requests" in told.stderr
        told = command.run("record", "app.log", "../apart/app.log", *given, folder=here)
    assert told.returncode == 2, told.stderr
    error, hint = told.stderr.splitlines()[-2:]
    assert error.startswith("error: ") and "apart/app.log: is not on node 198.18." in error
    assert hint.startswith("hint: ")
