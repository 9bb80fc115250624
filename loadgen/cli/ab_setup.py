"""AbSetup: the options of `ab`, checked and made into what is run; kept without secrets and taken up again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from loadgen.cli import sending_options as sending
from loadgen.cli import shape_options as options
from loadgen.cli.compare import terms_from
from loadgen.cli.live import LiveDisplay
from loadgen.cli.report import criteria_from
from loadgen.compare.ab_experiment import Side, SideRun
from loadgen.compare.ab_folder import AbFolder
from loadgen.compare.ab_target import AbTarget, parse_target, started
from loadgen.compare.compared_run import load_run
from loadgen.compare.comparison import Terms
from loadgen.durations import parse_duration_s
from loadgen.errors import UsageError
from loadgen.experiment.sending import Sending, Sent
from loadgen.plan.planner import plan
from loadgen.plan.schedule import Schedule
from loadgen.plan.token_prompts import prompts_for
from loadgen.replay.secrets import parse_headers, read_key_file, redacted_command
from loadgen.replay.target import Timeouts
from loadgen.replay.template_file import read_template
from loadgen.replay.worker import Progress
from loadgen.report.report import build_report, write_report
from loadgen.trace.parquet import read_trace

# Of a resumed experiment these are taken from the command line; everything else is as it was.
_ANEW = (
    "resume",
    "max_time",
    "api_key",
    "api_key_file",
    "header",
    "proxy",
    "as_json",
    "markdown",
    "junit",
    "html",
)
_SECRET = ("api_key", "header", "proxy")


class AbSetup:
    """The options of `ab`, checked and made into what is run.

    Raises UsageError that names the option which cannot be used.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        if given["trace"] is None or given["a"] is None or given["b"] is None:
            raise UsageError(
                "give a trace, --a and --b", hint="loadgen ab TRACE --a http://OLD --b http://NEW"
            )
        self.given = given
        self.targets: dict[Side, AbTarget] = {
            "a": parse_target(given["a"], option="--a"),
            "b": parse_target(given["b"], option="--b"),
        }
        key_file = given["api_key_file"]
        key = read_key_file(Path(key_file)) if key_file else given["api_key"]
        sending.check_transport(
            given["transport"],
            given["proxy"],
            http2=given["http2"],
            cert_key=_path(given["cert_key"]),
            cert=_path(given["cert"]),
        )
        sending.check_sessions(given["sessions"])
        self.ready_within_s = _above_0_s(given["ready_within"], "--ready-within")
        self.max_time_s = None if given["max_time"] is None else _above_0_s(given["max_time"], "--max-time")
        self.criteria = criteria_from(
            slo=None, max_error_rate=None, max_lateness=given["max_lateness"], goodput=given["goodput"]
        )
        self.terms: Terms = terms_from(
            margin=given["margin"],
            alpha=given["alpha"],
            goodput=given["goodput"],
            fail_on=given["fail_on"],
            gates=None if given["gates"] is None else Path(given["gates"]),
            max_looks=given["max_pairs"],
        )
        # An experiment that is resumed may be older than an option.
        shape = options.shape_from(
            **{name: given[name] for name in signature(options.shape_from).parameters if name in given}
        )
        self.trace_path = Path(given["trace"])
        self.trace = read_trace(self.trace_path)
        self.schedule: Schedule = plan(self.trace, shape)
        tokenizer = given.get("tokenizer")
        self.sending = Sending(
            prompts=prompts_for(
                None if tokenizer is None else Path(tokenizer),
                seed=given["seed"],
                chars_per_token=given["chars_per_token"],
                prefix_block_tokens=self.trace.metadata.prefix_block_tokens,
            ),
            endpoint_type=given["endpoint_type"],
            template=read_template(Path(given["template"])) if given["template"] else None,
            model=given["model"],
            access=sending.access_from(
                headers=parse_headers(given["header"] or (), key),
                cert=_path(given["cert"]),
                cert_key=_path(given["cert_key"]),
                **{name: given[name] for name in ("insecure", "proxy", "http2", "reuse")},
            ),
            stream=given["stream"],
            ignore_eos=given["ignore_eos"],
            timeouts=Timeouts(
                connect_s=parse_duration_s(given["timeout_connect"], option="--timeout-connect"),
                first_token_s=sending.limit_s(given["timeout_first_token"], "--timeout-first-token"),
                gap_s=sending.limit_s(given["timeout_gap"], "--timeout-gap"),
                total_s=sending.limit_s(given["timeout"], "--timeout"),
            ),
            max_concurrency=given["max_concurrency"],
            transport=given["transport"],
            retries=given["retries"],
            sessions_wait=given["sessions"] == "wait",
            warmup_requests=given["warmup_requests"],
            drain_s=parse_duration_s(given["drain"], option="--drain"),
            realtime=given["realtime"],
            workers=given["workers"],
            seed=given["seed"],
        )
        self.name = given["name"] or self.trace_path.stem
        self.display = sys.stderr.isatty()

    @property
    def settings(self) -> dict[str, Any]:
        """What ab.json keeps: the options without secrets, and what they amount to."""
        kept = {
            key: str(value) if isinstance(value, Path) else value
            for key, value in self.given.items()
            if key not in _SECRET and key not in ("resume", "as_json", "markdown", "junit", "html")
        }
        kept["trace"] = str(self.trace_path.resolve())
        for side in ("a", "b"):
            kept[side] = _without_secrets(str(kept[side]))
        return {"options": kept, "schedule_hash": self.schedule.schedule_hash}

    def side_run(self, folder: AbFolder, side: Side) -> SideRun:
        """One run of a side, in the experiment's folder."""
        sent = Sent(
            name=side,
            out_dir=folder.path,
            schedule=self.schedule,
            trace_name=self.trace_path.name,
            trace_rows=self.trace.num_rows,
            command=tuple(_without_secrets(word) for word in redacted_command(["loadgen", *sys.argv[1:]])),
            options=self.settings["options"],
        )
        with started(self.targets[side], ready_within_s=self.ready_within_s) as url:
            if self.display:
                with LiveDisplay(self.schedule) as display:
                    kept, ending = self.sending.run(url, sent, display.show)
            else:
                kept, ending = self.sending.run(url, sent, _silent)
        write_report(build_report(kept, self.criteria.thresholds, (), self.criteria.bounds), kept)
        return SideRun(load_run(kept.path), ending.signal_name)


def as_it_was(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an experiment, with those of the command line that are taken anew."""
    kept = dict(settings["options"])
    for side in ("a", "b"):
        # A command that held a secret is kept without it, so it has to be given again.
        if given[side] is not None:
            if _without_secrets(given[side]) != kept[side]:
                raise UsageError(f"--{side} is another than before", hint=f"it was {kept[side]}")
            kept[side] = given[side]
        elif "***" in kept[side]:
            raise UsageError(f"--{side} held a secret, which is not kept", hint=f"give --{side} again")
    return {**given, **kept, **{name: given[name] for name in _ANEW}}


def _without_secrets(text: str) -> str:
    """A target as it may be kept: a command's own options that hold keys are hidden."""
    if " " not in text:
        return text
    try:
        found = shlex.split(text)
    except ValueError:
        return text
    hidden = redacted_command(found)
    return text if list(hidden) == found else shlex.join(hidden)


def _path(text: str | Path | None) -> Path | None:
    """Of an option, which a resumed experiment has as text."""
    return None if text is None else Path(text)


def _above_0_s(text: str, option: str) -> float:
    duration_s = parse_duration_s(text, option=option)
    if duration_s <= 0:
        raise UsageError(f"{option} is {text}", hint="give a time above 0")
    return duration_s


def _silent(_: Progress) -> None:
    """Where nobody watches, a line for each pair is enough."""
