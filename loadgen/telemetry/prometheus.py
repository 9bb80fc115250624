"""Prometheus text: the samples of a server's /metrics. The one module that knows the parser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

# Series of histograms' buckets are many and are not drawn; their sums and counts are.
_LEFT_OUT = ("_bucket", "_created")


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series; labels of a server's several series (model, engine) are summed over by name."""

    name: str
    value: float


def parse_metrics(text: str) -> list[Sample]:
    """Samples by name, in order of first appearance; series that differ in labels only are added up.

    Raises ValueError for what is no Prometheus text.
    """
    totals: dict[str, float] = {}
    for name, value in _samples(text):
        totals[name] = totals.get(name, 0.0) + value
    return [Sample(name, value) for name, value in totals.items()]


def _samples(text: str) -> Iterator[tuple[str, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            # NaN marks a summary without observations.
            if not sample.name.endswith(_LEFT_OUT) and sample.value == sample.value:
                yield sample.name, float(sample.value)
