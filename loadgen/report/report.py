"""Report: everything that is said of a run, as one value and as strict JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from loadgen.atomic_file import write_text
from loadgen.errors import ExitCode, RunError
from loadgen.percentiles import METHOD
from loadgen.replay.request_record import Outcome
from loadgen.replay.run_folder import RunFolder, RunStatus
from loadgen.report.clock_offset import ClockOffset, clock_offset
from loadgen.report.diagnosis import diagnose
from loadgen.report.figures import Distribution, Missing, as_json
from loadgen.report.goodput import Bound
from loadgen.report.injected import Injected, injected_windows
from loadgen.report.limit import Limit, LimitVerdict, judge_limits
from loadgen.report.measures import Measures, measure
from loadgen.report.metric import METRICS
from loadgen.report.outcomes import OutcomeCount, Tokens, key_warnings, outcome_counts, token_counts
from loadgen.report.ports import port_warnings
from loadgen.report.recorded_run import RecordedRun, read_run
from loadgen.report.sampled import Sampled
from loadgen.report.stages import Stages, receipt_lateness, stages
from loadgen.report.timeline import Timeline, timeline
from loadgen.report.validity import Thresholds, Validity, judge
from loadgen.report.verdict import Verdict

# Report format. Version 1 (2026-12). What a metric counts is versioned apart: see metric.definition_id.
FORMAT_VERSION = 1

# Above this share of token events that came together, gaps between them measure the network, not the server.
_COALESCED_HIGH = 0.2
# Of fewer values than these, the nearest rank p99 is the maximum.
_FEW = 100
# So many windows are named in one warning.
_NAMED = 4


@dataclass(frozen=True, slots=True)
class Report:
    """facts: run.json, with the status as it turned out. measured: overall first, then each window.

    planned: requests in the schedule. stages, receipt: from the server's own stamps, or why there are none.
    bounds: of goodput; none where it was not asked for.
    """

    facts: dict[str, Any]
    planned: int
    measured: tuple[Measures, ...]
    outcomes: tuple[OutcomeCount, ...]
    tokens: Tokens
    stages: Stages | Missing
    receipt: Distribution | Missing
    clock: ClockOffset | Missing
    timeline: Timeline
    validity: Validity
    diagnosis: tuple[Verdict, ...]
    limits: tuple[LimitVerdict, ...]
    bounds: tuple[Bound, ...]
    warnings: tuple[str, ...]

    @property
    def status(self) -> str:
        return str(self.facts["status"])

    @property
    def injected(self) -> list[Injected]:
        """Whether each injected window held."""
        return injected_windows(self.measured)

    @property
    def num_ok(self) -> int:
        return self.count(Outcome.OK)

    def count(self, name: str) -> int:
        """Requests that ended as `name`, an Outcome."""
        return sum(outcome.count for outcome in self.outcomes if outcome.name == name)

    @property
    def exit_code(self) -> ExitCode:
        """5 nothing succeeded or the run broke off by an error, 4 invalid, 1 a limit broken overall, else 0.

        A limit without a value to judge is broken. A run that was interrupted is judged by what it has.
        """
        if self.num_ok == 0 or self.status == RunStatus.FAILED:
            return ExitCode.RUN_FAILED
        if not self.validity.is_valid:
            return ExitCode.RUN_INVALID
        overall = [verdict for verdict in self.limits if verdict.window == self.measured[0].label]
        return ExitCode.OK if all(verdict.kept for verdict in overall) else ExitCode.LIMIT_BROKEN

    def as_json(self) -> dict[str, Any]:
        """Plain values for strict JSON: seconds, rates a second, shares of 1; null with a reason where unknown."""
        facts = self.facts
        return {
            "format_version": FORMAT_VERSION,
            "percentile_method": METHOD,
            "metrics": {m.name: {"unit": m.unit, "better": m.better, "id": m.definition_id} for m in METRICS},
            "run": {
                "id": facts.get("run_id"),
                "status": self.status,
                **{
                    key: facts.get(key)
                    for key in ("exit_reason", "started_utc", "schedule_hash", "seed", "shape")
                },
                **{
                    key: facts.get(key)
                    for key in ("trace", "target", "versions", "host", "generator", "warmup")
                },
            },
            "valid": self.validity.is_valid,
            "validity": asdict(self.validity),
            "requests": {
                "planned": self.planned,
                "sent": self.planned - self.count(Outcome.NOT_SENT) - self.count(Outcome.UNRECORDED),
                "not_sent": self.count(Outcome.NOT_SENT),
                "unrecorded": self.count(Outcome.UNRECORDED),
            },
            "outcomes": {
                o.name: {
                    "count": o.count,
                    "counts_against": o.counts_against,
                    "duration_s": as_json(o.duration),
                    "examples": list(o.examples),
                }
                for o in self.outcomes
            },
            "tokens": {**asdict(self.tokens), "coalesced_share": as_json(self.tokens.coalesced_share)},
            "windows": [
                {
                    "label": m.label,
                    "spans_s": [list(span) for span in m.spans],
                    "duration_s": m.duration_s,
                    "requests": m.requests,
                    "metrics": {name: as_json(figure) for name, figure in m.figures.items()},
                }
                for m in self.measured
            ],
            "stages": as_json(self.stages)
            if isinstance(self.stages, Missing)
            else {
                "parts": {name: asdict(spans) for name, spans in self.stages.parts},
                "latency": asdict(self.stages.latency),
            },
            "injected": [
                {
                    "window": one.label,
                    "held": one.has_held,
                    "recovered": one.has_recovered,
                    "words": one.words,
                }
                for one in self.injected
            ],
            "server_receipt_lateness": as_json(self.receipt),
            "server_clock": as_json(self.clock) if isinstance(self.clock, Missing) else asdict(self.clock),
            "timeline": asdict(self.timeline),
            "diagnosis": [asdict(verdict) for verdict in self.diagnosis],
            "limits": [
                {"limit": v.limit.text, "window": v.window, "value": v.value, "kept": v.kept}
                for v in self.limits
            ],
            "goodput_bounds_s": {bound.metric: bound.bound_s for bound in self.bounds},
            "warnings": list(self.warnings),
        }


def build_report(
    folder: RunFolder, thresholds: Thresholds, limits: Sequence[Limit] = (), bounds: Sequence[Bound] = ()
) -> Report:
    """Read a run folder and measure it. Raises RunError or ScheduleError where it cannot be read."""
    return report_of(read_run(folder), thresholds, limits, bounds)


def report_of(
    run: RecordedRun, thresholds: Thresholds, limits: Sequence[Limit] = (), bounds: Sequence[Bound] = ()
) -> Report:
    """Measure a run that was read."""
    facts, schedule, seen = run.facts, run.schedule, run.seen
    planned_s = run.planned_s
    measured = measure(seen, schedule.windows, run.run_end_s, planned_s, bounds)
    sampled = Sampled(run.telemetry)
    for one in measured:
        one.figures.update(sampled.figures(one.spans))
    outcomes = outcome_counts(seen, schedule.num_requests, is_complete=facts.get("status") == "complete")
    verdicts = judge_limits(limits, measured)
    validity = judge(measured[0].figures, {o.name: o.count for o in outcomes}, facts, thresholds)
    tokens = token_counts(seen)
    return Report(
        facts=facts,
        planned=schedule.num_requests,
        measured=tuple(measured),
        outcomes=tuple(outcomes),
        tokens=tokens,
        stages=stages(seen),
        receipt=receipt_lateness(seen, facts.get("started_unix_ns")),
        clock=clock_offset(seen, facts.get("started_unix_ns")),
        timeline=timeline(seen, schedule.windows, run.run_end_s, run.telemetry, planned_s),
        validity=validity,
        diagnosis=tuple(diagnose(measured, validity, (facts.get("target") or {}).get("facts"), verdicts)),
        limits=tuple(verdicts),
        bounds=tuple(bounds),
        warnings=(
            *(facts.get("warnings") or ()),
            *_warnings(tokens, schedule.num_requests - seen.records.num_rows),
            *_few(measured),
            *sampled.warnings,
            *key_warnings(outcomes),
            *port_warnings(facts.get("generator") or {}),
        ),
    )


def write_report(report: Report, folder: RunFolder) -> None:
    """Write report.json into the run folder. Raises RunError when it refuses."""
    try:
        write_text(folder.report_path, json.dumps(report.as_json(), indent=1, allow_nan=False) + "\n")
    except OSError as exc:
        raise RunError(f"{folder.report_path}: cannot be written ({exc.strerror})") from exc


def _warnings(tokens: Tokens, unrecorded: int) -> list[str]:
    found: list[str] = []
    if unrecorded > 0:
        found.append(
            f"{unrecorded} planned requests have no record: not sent yet, or in flight when the run was killed; "
            "the figures are of the others, and the slowest may be missing"
        )
    if isinstance(tokens.coalesced_share, float) and tokens.coalesced_share > _COALESCED_HIGH:
        found.append(
            f"{tokens.coalesced_share:.0%} of the token events came in the same read as the one before: something "
            "between server and client buffers; gaps between tokens and TPOT do not show the server"
        )
    if tokens.from_chunks:
        found.append(
            f"{tokens.from_chunks} answers told no usage: their tokens are estimated from the chunks"
        )
    if tokens.short:
        found.append(
            f"{tokens.short} answers were shorter than planned, by {tokens.missing_tokens} tokens in all; "
            "--ignore-eos asks servers that know it for the planned length"
        )
    return found


def _few(measured: Sequence[Measures]) -> list[str]:
    """Which p99 stand on too few answers to differ from the maximum."""
    counts = [
        (one.label, spans.count) for one in measured if (spans := one.distribution("latency")) is not None
    ]
    few = [f"{label} ({count})" for label, count in counts if count < _FEW]
    named = ", ".join(few[:_NAMED]) + (f" and {len(few) - _NAMED} more" if len(few) > _NAMED else "")
    return [f"fewer than {_FEW} answers succeeded in {named}: their p99 is the maximum"] if few else []
