"""Sending: how requests are put to a target, the same for every run of an experiment."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadgen.errors import UsageError
from loadgen.plan.prompts import Prompts
from loadgen.plan.schedule import Schedule
from loadgen.replay.coordinator import Ending
from loadgen.replay.dialects import dialect_named
from loadgen.replay.dialects.template import Template
from loadgen.replay.payloads import Asking
from loadgen.replay.reach import Access, metrics_transport, reach
from loadgen.replay.retry import RetryPolicy
from loadgen.replay.run import Run, execute
from loadgen.replay.run_folder import RunFolder
from loadgen.replay.secrets import secrets_in, secrets_in_proxy
from loadgen.replay.target import Timeouts, parse_url
from loadgen.replay.worker import Progress, WorkerSettings
from loadgen.telemetry.probes import probes_for


@dataclass(frozen=True, slots=True)
class Sent:
    """What a run is of and where it is kept. options: as run.json keeps them, without secrets, as `command` is."""

    name: str
    out_dir: Path
    schedule: Schedule
    trace_name: str
    trace_rows: int
    command: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sending:
    """The fields mean what the options of `replay` do. Raises UsageError for what cannot go together."""

    prompts: Prompts
    endpoint_type: str = "chat"
    template: Template | None = None
    model: str | None = None
    access: Access = field(default_factory=Access)
    stream: bool | None = None
    ignore_eos: bool = False
    timeouts: Timeouts = field(default_factory=Timeouts)
    drain_s: float = 60.0
    max_concurrency: int | None = None
    transport: str = "fast"
    retries: int = 0
    sessions_wait: bool = False
    warmup_requests: int = 0
    realtime: bool = False
    workers: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.ignore_eos and not dialect_named(self.endpoint_type, self.template).can_force_length:
            raise UsageError(
                f"--ignore-eos cannot be asked of --endpoint-type {self.endpoint_type}", hint="leave it out"
            )

    def run(self, url: str, sent: Sent, on_progress: Callable[[Progress], None]) -> tuple[RunFolder, Ending]:
        """Send it to `url`, which is up. Raises TargetError when nobody answers there."""
        dialect = dialect_named(self.endpoint_type, self.template)
        reached = reach(parse_url(url), self.access, model=self.model, needs_model=dialect.needs_model)
        run = Run(
            name=sent.name,
            out_dir=sent.out_dir,
            schedule=sent.schedule,
            trace_name=sent.trace_name,
            trace_rows=sent.trace_rows,
            seed=self.seed,
            settings=WorkerSettings(
                target=reached.target,
                timeouts=self.timeouts,
                realtime=self.realtime,
                drain_s=self.drain_s,
                max_concurrency=self.max_concurrency,
                transport=self.transport,
                retries=RetryPolicy(self.retries),
                sessions_wait=self.sessions_wait,
                secrets=(*secrets_in(self.access.headers), *secrets_in_proxy(self.access.proxy)),
            ),
            asking=Asking(
                self.endpoint_type,
                reached.model,
                "",
                self.stream,
                self.ignore_eos,
                self.template,
                self.sessions_wait,
            ),
            prompts=self.prompts,
            num_workers=self.workers,
            num_warmup=self.warmup_requests,
            target_facts=reached.facts,
            command=sent.command,
            options=sent.options,
        )
        target = reached.target
        probes = probes_for(target.base_url, target.headers, metrics_transport(target))
        # A run hears SIGTERM itself, and leaves it to the system after that; between runs it is ours again.
        before = signal.getsignal(signal.SIGTERM)
        try:
            return execute(run, on_progress, probes)
        finally:
            signal.signal(signal.SIGTERM, before)
