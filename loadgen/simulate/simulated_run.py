"""A simulated run: a schedule served without a server, kept in the folder that a live run would have."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import loadgen
from loadgen.atomic_file import replacing
from loadgen.errors import UsageError
from loadgen.plan.prompts import PromptMaker
from loadgen.plan.schedule import Schedule
from loadgen.replay.run_folder import RunFolder, RunStatus
from loadgen.simulate.cost_model import CostModel
from loadgen.simulate.records import arrivals_of, records_of, telemetry_of
from loadgen.simulate.served import Arrivals, Served
from loadgen.simulate.server import SimulatedServer
from loadgen_target.config import ConfigError, ServerConfig
from loadgen_target.flags import parse_flags

URL = "simulated"
# Settings of a policy that SimulatedServer acts on. One that is new to it is refused rather than ignored.
_SIMULATED = {
    "name", "max_batch_size", "max_wait_ns", "window_ns", "max_inflight_batches", "max_num_batched_tokens",
    "release",
}  # fmt: skip
_FLAGS = {"splits_prompts": "--enable-chunked-prefill"}


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What to simulate and where to keep it; the fields that a live Run has mean the same.

    cost_from: where the cost model came from, in words.
    """

    name: str
    out_dir: Path
    schedule: Schedule
    trace_name: str
    trace_rows: int
    config: ServerConfig
    cost: CostModel
    cost_from: str
    prompts: PromptMaker
    seed: int = 0
    command: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


def server_config(flags: str) -> ServerConfig:
    """The settings that flags of `loadgen serve` give. Raises UsageError where the server would refuse them."""
    words = shlex.split(flags)
    # The device decides what a step costs, which the cost model says; asking for it would load torch.
    kept = [
        word
        for word, before in zip(words, ["", *words], strict=False)
        if not word.startswith("--device") and before != "--device"
    ]
    try:
        return parse_flags(kept)
    except ConfigError as exc:
        raise UsageError(exc.message, hint=exc.hint) from exc


def simulable_config(flags: str) -> ServerConfig:
    """The same, of a server that can be simulated. Raises UsageError where it cannot."""
    config = server_config(flags)
    _check_simulable(config)
    return config


def _check_simulable(config: ServerConfig) -> None:
    policy = config.engine.policy
    if policy.name == "null":
        raise UsageError(
            "--policy null computes nothing, so nothing is simulated", hint="give another policy"
        )
    for setting in fields(policy):
        if setting.name not in _SIMULATED and getattr(policy, setting.name) != setting.default:
            flag = _FLAGS.get(setting.name, f"--{setting.name.replace('_', '-')}")
            raise UsageError(f"{flag} is not simulated", hint="leave it out, or replay it live")


def serve(
    schedule: Schedule, config: ServerConfig, cost: CostModel, prompts: PromptMaker
) -> tuple[Arrivals, Served]:
    """Serve a schedule, in memory. Raises UsageError for a server that cannot be simulated."""
    _check_simulable(config)
    arrivals = arrivals_of(schedule, cost, prompts)
    return arrivals, SimulatedServer(config, cost).serve(arrivals)


def simulate_run(run: SimulatedRun) -> RunFolder:
    """Serve it and write its folder: schedule, records, telemetry and run.json, which says that it is simulated."""
    arrivals, served = serve(run.schedule, run.config, run.cost, run.prompts)
    engine = run.config.engine
    records = records_of(
        run.schedule,
        arrivals,
        served,
        run.cost,
        preprocess_ns=0 if engine.is_inline else round(engine.preprocess_s * 1e9),
        rejected=run.config.overload_status,
    )
    started = datetime.now(UTC)
    folder = RunFolder.create(run.out_dir, run.name, started)
    folder.write_schedule(run.schedule)
    folder.write_requests(records)
    with replacing(folder.telemetry_path) as aside:
        pq.write_table(telemetry_of(arrivals, served), aside, compression="zstd")
    shutil.rmtree(folder.path / "journal")
    end_ns = max(run.schedule.end_ns, int(served.ended_ns.max(initial=0)) + round(run.cost.reply_us * 1e3))
    folder.write_facts(
        {
            "run_id": folder.path.name,
            "name": run.name,
            "status": RunStatus.COMPLETE,
            "exit_reason": None,
            "simulated": {"cost_model": run.cost.as_dict(), "cost_from": run.cost_from},
            "started_utc": started.isoformat(timespec="seconds"),
            "started_unix_ns": None,
            "start_monotonic_ns": None,
            "ended_utc": started.isoformat(timespec="seconds"),
            "run_end_ns": end_ns,
            "command": list(run.command),
            "settings": run.options,
            "trace": {"name": run.trace_name, "trace_id": run.schedule.trace_id, "rows": run.trace_rows},
            "schedule_hash": run.schedule.schedule_hash,
            "seed": run.seed,
            "shape": run.schedule.shape,
            "target": {
                "url": URL,
                "model": run.config.served_model_name,
                "dialect": "chat",
                "transport": None,
                "proxy": None,
                "facts": facts_of(run.config),
            },
            "versions": {"loadgen": loadgen.__version__},
            "host": None,
            "warmup": None,
            "generator": None,
            "warnings": [f"simulated, nothing was sent; a step costs what {run.cost_from} says"],
        }
    )
    return folder


def facts_of(config: ServerConfig) -> dict[str, Any]:
    """What the server tells of itself when it is live, as far as its settings say."""
    return {
        "name": "loadgen_target",
        "simulated": True,
        "version": loadgen.__version__,
        "model": config.served_model_name,
        "policy": config.engine.policy.name,
        "flags": config.told,
        "preset": config.engine.preset,
    }
