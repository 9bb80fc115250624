"""Prometheus text: the samples of a server's /metrics. The one module that knows the parser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

# Series of histograms' buckets are many and are not drawn; their sums and counts are.
_LEFT_OUT = ("_bucket", "_created")
# Shares of a whole: of several engines, the fullest is told, since their sum is no share.
_SHARES = ("_perc", "token_usage", "_ratio", "_utilization", "hit_rate")


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series; labels of a server's several series (model, engine) are summed over by name."""

    name: str
    value: float
    labels: dict[str, str] = field(default_factory=dict)


def parse_metrics(text: str) -> list[Sample]:
    """Samples by name, in order of first appearance; series that differ in labels only are added up.

    Of shares, the highest is taken instead. Raises ValueError for what is no Prometheus text.
    """
    totals: dict[str, float] = {}
    for sample in parse_series(text):
        if sample.name.endswith(_SHARES):
            totals[sample.name] = max(totals.get(sample.name, sample.value), sample.value)
        else:
            totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    return [Sample(name, value) for name, value in totals.items()]


def parse_series(text: str) -> Iterator[Sample]:
    """Every series with its labels. Raises ValueError for what is no Prometheus text."""
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            # NaN marks a summary without observations.
            if not sample.name.endswith(_LEFT_OUT) and sample.value == sample.value:
                yield Sample(sample.name, float(sample.value), dict(sample.labels))
