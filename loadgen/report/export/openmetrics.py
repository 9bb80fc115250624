"""A report as OpenMetrics text, for what scrapes files or pushes them on."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from loadgen.report.figures import Distribution
from loadgen.report.metric import METRICS
from loadgen.report.metric import Metric as Definition
from loadgen.report.report import Report

_STATISTICS = ("mean", "min", "p50", "p90", "p95", "p99", "max")
# The unit as a suffix; shares are ratios there.
_SUFFIX = {"s": "seconds", "share": "ratio", "req/s": "requests_per_second", "tokens/s": "tokens_per_second"}


def as_openmetrics(report: Report) -> str:
    """Gauges by window (and statistic), counts by outcome, and what run it was. No value, no sample."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(report))
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]  # its signature lacks types
    return text.decode()


class _Families(Collector):
    def __init__(self, report: Report) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        report = self._report
        target = report.facts.get("target") or {}
        run = InfoMetricFamily("loadgen_run", "which run this is of")
        told = {
            "run_id": report.facts.get("run_id"),
            "status": report.status,
            "schedule_hash": report.facts.get("schedule_hash"),
            "target": target.get("url"),
            "model": target.get("model"),
        }
        run.add_metric([], {name: str(value) for name, value in told.items() if value is not None})
        yield run
        yield GaugeMetricFamily(
            "loadgen_valid", "1 if the run was sent as planned", value=float(report.validity.is_valid)
        )
        planned = CounterMetricFamily("loadgen_requests", "planned requests by outcome", labels=["outcome"])
        for one in report.outcomes:
            planned.add_metric([one.name], one.count)
        yield planned
        for metric in METRICS:
            family = self._family(metric)
            if family.samples:
                yield family

    def _family(self, metric: Definition) -> GaugeMetricFamily:
        suffix = _SUFFIX.get(metric.unit, metric.unit)
        stem = metric.name.removesuffix("_s").removesuffix("_share").removesuffix("_rate")
        labels = ["window", "statistic"] if metric.per_request else ["window"]
        family = GaugeMetricFamily(f"loadgen_{stem}_{suffix}", metric.definition, labels=labels)
        for measures in self._report.measured:
            figure = measures.figures.get(metric.name)
            if isinstance(figure, Distribution):
                for statistic in _STATISTICS:
                    family.add_metric([measures.label, statistic], float(getattr(figure, statistic)))
            elif isinstance(figure, float):
                family.add_metric([measures.label], figure)
        return family
