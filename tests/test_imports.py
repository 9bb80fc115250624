"""Data flows one way: nothing imports to its right, and what computes knows no input or output."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# In the order of the flow. A package may import those before it, and itself.
FLOW = (
    "trace", "record", "plan", "replay", "telemetry", "simulate", "report", "compare", "experiment", "advise",
    "cli",
)  # fmt: skip
WORLD = {"httpx", "asyncio", "typer", "rich", "time"}
# Modules that decide or compute. A new one belongs here unless the world begins in it.
PURE = (
    "loadgen/compare/cell.py",
    "loadgen/compare/change_points.py",
    "loadgen/compare/charts.py",
    "loadgen/compare/comparability.py",
    "loadgen/compare/estimate.py",
    "loadgen/compare/family.py",
    "loadgen/compare/gate.py",
    "loadgen/compare/judgement.py",
    "loadgen/compare/junit.py",
    "loadgen/compare/laws.py",
    "loadgen/compare/markdown.py",
    "loadgen/compare/page.py",
    "loadgen/compare/run_values.py",
    "loadgen/compare/spending.py",
    "loadgen/compare/verdict.py",
    "loadgen/compare/where.py",
    "loadgen/compare/words.py",
    "loadgen/advise/advice.py",
    "loadgen/advise/arithmetic.py",
    "loadgen/advise/search.py",
    "loadgen/advise/setting.py",
    "loadgen/content_hash.py",
    "loadgen/durations.py",
    "loadgen/errors.py",
    "loadgen/experiment/bursty_trace.py",
    "loadgen/experiment/capacity.py",
    "loadgen/experiment/matrix.py",
    "loadgen/experiment/placing.py",
    "loadgen/experiment/result.py",
    "loadgen/experiment/words.py",
    "loadgen/percentiles.py",
    "loadgen/plan/**/*.py",
    "loadgen/replay/calibration.py",
    "loadgen/replay/clock_offset.py",
    "loadgen/replay/completion.py",
    "loadgen/replay/consent.py",
    "loadgen/replay/dialects/**/*.py",
    "loadgen/replay/exchange.py",
    "loadgen/replay/failure_watch.py",
    "loadgen/replay/lines.py",
    "loadgen/replay/payloads.py",
    "loadgen/replay/record_batch.py",
    "loadgen/replay/request_record.py",
    "loadgen/replay/retry.py",
    "loadgen/replay/share.py",
    "loadgen/replay/sse.py",
    "loadgen/replay/target.py",
    "loadgen/replay/transport.py",
    "loadgen/replay/warmup.py",
    "loadgen/record/decimal_columns.py",
    "loadgen/record/fidelity.py",
    "loadgen/record/fields.py",
    "loadgen/record/findings.py",
    "loadgen/record/json_path.py",
    "loadgen/record/request_filter.py",
    "loadgen/record/stamp_reader.py",
    "loadgen/record/zone.py",
    "loadgen/simulate/cost_model.py",
    "loadgen/simulate/fitting.py",
    "loadgen/simulate/records.py",
    "loadgen/simulate/served.py",
    "loadgen/simulate/server.py",
    "loadgen/simulate/steps.py",
    "loadgen/telemetry/prometheus.py",
    "loadgen/trace/assemble.py",
    "loadgen/trace/gap_spread.py",
    "loadgen/trace/length_spread.py",
    "loadgen/trace/moments.py",
    "loadgen/trace/schema.py",
    "loadgen/trace/sessions.py",
    "loadgen/trace/statistics.py",
    "loadgen/trace/trace.py",
    "targets/loadgen_target/policies.py",
)
RENDERING = {"terminal.py"}
POLICY_CODE = {"loadgen_target.config", "loadgen_target.flags", "loadgen_target.policies"}


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


def modules(*patterns: str) -> list[Path]:
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern)})


@pytest.mark.parametrize("package", FLOW)
def test_nothing_imports_to_its_right(package: str) -> None:
    to_the_right = FLOW[FLOW.index(package) + 1 :]
    for path in modules(f"loadgen/{package}/**/*.py"):
        for name in imports_of(path):
            parts = name.split(".")
            assert not (parts[0] == "loadgen" and len(parts) > 1 and parts[1] in to_the_right), (
                f"{path}: {name}"
            )


def test_what_stands_beside_the_packages_imports_none_of_them() -> None:
    for path in modules("loadgen/*.py"):
        if path.name not in ("__main__.py", "testing.py"):
            inner = {name.split(".")[1] for name in imports_of(path) if name.startswith("loadgen.")}
            assert not inner & set(FLOW), path


def test_modules_that_decide_or_compute_know_no_world() -> None:
    for pattern in PURE:
        assert modules(pattern), f"{pattern} names nothing"
    paths = [*modules(*PURE), *(p for p in modules("loadgen/report/**/*.py") if p.name not in RENDERING)]
    assert len(paths) > 20
    for path in paths:
        world = {name.split(".")[0] for name in imports_of(path)} & WORLD
        assert not world, f"{path} imports {sorted(world)}"


def test_the_measuring_tool_never_imports_the_server_nor_torch() -> None:
    for path in modules("loadgen/**/*.py"):
        names = imports_of(path)
        assert "torch" not in {name.split(".")[0] for name in names}, path
        of_server = {name for name in names if name.split(".")[0] == "loadgen_target"}
        # A simulation is of the very policies that serve; they and their settings are all it may know.
        allowed = POLICY_CODE if path.parent.name == "simulate" else set()
        assert of_server <= allowed, path


def test_the_policies_need_neither_torch_nor_a_server() -> None:
    code = f"import sys, {', '.join(sorted(POLICY_CODE))}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "uvicorn", "loadgen_target.engine"} & set(loaded.stdout.split())


def test_the_server_never_imports_the_measuring_tool() -> None:
    for path in modules("targets/**/*.py"):
        assert "loadgen" not in {name.split(".")[0] for name in imports_of(path)}, path


@pytest.mark.parametrize("library", ["httpx", "httptools", "uvloop", "prometheus_client", "tokenizers"])
def test_each_library_stands_behind_few_modules(library: str) -> None:
    users = [
        path for path in modules("loadgen/**/*.py") if library in {n.split(".")[0] for n in imports_of(path)}
    ]
    assert len(users) <= 2, [str(path.relative_to(ROOT)) for path in users]
