"""Cell: one figure that is compared, such as the p99 of ttft in the window peak-1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadgen.report.measures import OVERALL
from loadgen.report.metric import BY_NAME, Metric

PERCENTILES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
STATISTICS = ("mean", *PERCENTILES)

# Figures of each request, with the statistics that are compared; taken anew from the records of both sides.
OF_REQUESTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("latency", ("mean", "p50", "p95", "p99")),
    ("ttft", ("mean", "p50", "p95", "p99")),
    ("service_latency", ("p50", "p99")),
    ("tpot", ("mean", "p50", "p99")),
)
# Figures of a whole run, counted from its records.
OF_COUNTS = ("error_rate", "rejected_share", "served_rate", "goodput")
# Figures of a whole run, as its report has them.
OF_REPORTS = ("output_token_rate", "queue_share")
# What the verdict on the whole stands on, where nothing else is asked for.
DECIDING = (
    ("latency", "mean"), ("latency", "p50"), ("latency", "p99"), ("ttft", "p50"), ("ttft", "p99"),
    ("error_rate", None), ("goodput", None),
)  # fmt: skip
# More windows than these are compared by kind (all bursts as one), so that the family stays small.
MAX_WINDOWS = 8


@dataclass(frozen=True, slots=True)
class Cell:
    """statistic: None where the metric is one value. window: overall, or a window's label (or kind, if many)."""

    metric: str
    statistic: str | None
    window: str = OVERALL

    @property
    def of(self) -> Metric:
        return BY_NAME[self.metric]

    @property
    def is_ratio(self) -> bool:
        """Changes of shares are differences (they may well be 0); all others are ratios."""
        return self.of.unit != "share"

    @property
    def name(self) -> str:
        return self.metric if self.statistic is None else f"{self.metric} {self.statistic}"

    @property
    def text(self) -> str:
        return self.name if self.window == OVERALL else f"{self.name} @{self.window}"


def cells_for(windows: Sequence[str], extra: Sequence[Cell] = (), *, with_goodput: bool) -> list[Cell]:
    """All that is compared, overall first, then in each window; `extra` (of gates) are added where they lack."""
    found: list[Cell] = []
    for window in (OVERALL, *windows):
        for metric, statistics in OF_REQUESTS:
            found += [Cell(metric, statistic, window) for statistic in statistics]
        found += [
            Cell(metric, None, window)
            for metric in (*OF_COUNTS, *OF_REPORTS)
            if metric != "goodput" or with_goodput
        ]
    return [*found, *(cell for cell in dict.fromkeys(extra) if cell not in found)]


def decides(cell: Cell) -> bool:
    """Whether the verdict on the whole depends on it by default."""
    return cell.window == OVERALL and (cell.metric, cell.statistic) in DECIDING
