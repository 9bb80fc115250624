"""A cost model from the logs of the bundled server: least squares over its steps, means over its requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.optimize import nnls

from loadgen.errors import UsageError
from loadgen.simulate.cost_model import CostModel

Floats = npt.NDArray[np.float64]

_STEP_COLUMNS = ("t_start_ns", "t_end_ns", "kind", "rows", "new_tokens", "kv_tokens", "num_running")
_REQUEST_COLUMNS = ("recv_ns", "enqueued_ns", "last_token_ns", "finished_ns", "status")
_MIN_STEPS = 20
# So many steps of one row count, and it has a value of its own; others lie on the line between those.
_MIN_OF_ROWS = 25
# A pause longer than this between two steps of a busy engine is the machine's doing, and one in a million.
_MAX_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Fit:
    """model: the result. steps: of each kind that it stands on. error: share of the time of all steps that the
    model gets wrong in sum, signed; spread: median over steps of |step - model| / model."""

    model: CostModel
    prefills: int
    decodes: int
    error: float
    spread: float

    @property
    def words(self) -> str:
        return (
            f"{self.prefills} prefills and {self.decodes} decode steps; time in all {self.error:+.1%}, a step "
            f"{self.spread:.1%} off in the median"
        )


def fit_cost_model(paths: Sequence[Path], *, given: CostModel | None = None) -> Fit:
    """The model of step logs, with reception and reply from request logs where these are among `paths`.

    given: for what the logs do not tell. Raises UsageError for a file that is neither, or too few steps.
    """
    base = given or CostModel()
    steps: list[pa.Table] = []
    requests: list[pa.Table] = []
    for path in paths:
        table = _read(path)
        if set(_STEP_COLUMNS) <= set(table.column_names):
            steps.append(table.select(_STEP_COLUMNS))
        elif set(_REQUEST_COLUMNS) <= set(table.column_names):
            requests.append(table.select(_REQUEST_COLUMNS))
        else:
            raise UsageError(
                f"{path}: is no step log and no request log of the bundled server",
                hint="loadgen serve --step-log steps.parquet --request-log requests.parquet",
            )
    if not steps:
        raise UsageError(
            "no step log among the files to fit", hint="loadgen serve --step-log steps.parquet writes one"
        )
    parts = [_timed(table) for table in steps]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    prefill, decode = columns["is_prefill"] > 0, columns["is_prefill"] == 0
    mixed = sum(table.num_rows for table in steps) - prefill.size
    for name, kind in (("prefill", prefill), ("decode", decode)):
        if kind.sum() < _MIN_STEPS:
            raise UsageError(
                f"the step log has {int(kind.sum())} {name} steps, too few to fit",
                hint="fit a log of a server without --enable-chunked-prefill, which is not simulated"
                if mixed
                else f"serve at least {_MIN_STEPS} requests while it is written",
            )
    values = _prefill({name: column[prefill] for name, column in columns.items()})
    values |= _decode({name: column[decode] for name, column in columns.items()})
    values |= _around(requests, base)
    model = CostModel(**values)
    took = columns["us"]
    expected = np.array(
        [
            (model.prefill_ns(int(tokens), int(rows)) if first else model.decode_ns(int(rows), int(kv))) / 1e3
            for tokens, rows, kv, first in zip(
                columns["tokens"], columns["rows"], columns["kv"], prefill, strict=True
            )
        ]
    )
    return Fit(
        model,
        int(prefill.sum()),
        int(decode.sum()),
        float(expected.sum() / took.sum() - 1),
        float(np.median(np.abs(took - expected) / expected)),
    )


def _read(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as exc:
        raise UsageError(f"{path}: cannot be read as a log ({exc})".splitlines()[0]) from exc


def _timed(table: pa.Table) -> dict[str, Floats]:
    """Each step with all the time that went until the next could begin, where one did at once.

    The engine's own work between two forward passes is a part of what a step costs: lists, clocks, the pipe.
    """
    start, end = (
        np.asarray(table.column(f"t_{name}_ns").to_numpy(), dtype=np.float64) for name in ("start", "end")
    )
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    busy = np.asarray(table.column("num_running").to_numpy(), dtype=np.float64)[order] > 0
    pause = np.append(start[1:] - end[:-1], np.nan)
    follows = busy & (pause >= 0) & (pause < _MAX_PAUSE_S * 1e9)
    mean_pause = float(pause[follows].mean()) if follows.any() else 0.0
    kinds = np.asarray(table.column("kind").to_pylist(), dtype=object)[order]

    def column(name: str) -> Floats:
        return np.asarray(table.column(name).to_numpy(), dtype=np.float64)[order]

    found = {
        "us": (end - start + np.where(follows, pause, mean_pause)) / 1e3,
        "is_prefill": np.asarray(kinds == "prefill", dtype=np.float64),
        "rows": column("rows"),
        "tokens": column("new_tokens"),
        "kv": column("kv_tokens"),
    }
    # Passes that read prompts and decode at once are of another kind, and none is simulated.
    is_known = np.isin(kinds, ("prefill", "decode"))
    return {name: values[is_known] for name, values in found.items()}


def _prefill(steps: dict[str, Floats]) -> dict[str, Any]:
    """us = fixed + tokens x + rows y, none of them below 0."""
    features = np.column_stack([np.ones(steps["us"].size), steps["tokens"], steps["rows"]])
    fixed, token, row = nnls(features, steps["us"])[0]
    return {"prefill_us": float(fixed), "prefill_token_us": float(token), "prefill_row_us": float(row)}


def _decode(steps: dict[str, Floats]) -> dict[str, Any]:
    """us = a value for each number of rows + cache positions x: padding and kernels make no straight line."""
    rows = steps["rows"].astype(np.int64)
    counts = np.bincount(rows)
    own = [int(row) for row in np.flatnonzero(counts >= _MIN_OF_ROWS)] or [int(np.argmax(counts))]
    known = np.isin(rows, own)
    one_hot = (rows[known, None] == np.asarray(own)).astype(np.float64)
    features = np.column_stack([one_hot, steps["kv"][known] / 1e3])
    *values, kv = nnls(features, steps["us"][known])[0]
    # More rows never cost less; weights of the averages are the numbers of steps.
    rising = _rising(np.asarray(values), counts[own].astype(np.float64))
    # kv is us for 1000 positions, which is ns for one.
    return {
        "decode_us": tuple((row, max(float(value), 1e-3)) for row, value in zip(own, rising, strict=True)),
        "kv_token_ns": float(kv),
    }


def _rising(values: Floats, weights: Floats) -> Floats:
    """The nearest values that never fall (pool adjacent violators)."""
    pools: list[list[float]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pools.append([value, weight, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            high, low = pools.pop(-2), pools.pop(-1)
            total = high[1] + low[1]
            pools.append([(high[0] * high[1] + low[0] * low[1]) / total, total, high[2] + low[2]])
    return np.concatenate([np.full(int(count), value) for value, _, count in pools])


def _around(tables: Sequence[pa.Table], base: CostModel) -> dict[str, Any]:
    """Reception and reply as the server saw them: medians, of requests that ended well; of `base` without any."""
    receive, reply = [np.empty(0)], [np.empty(0)]
    for table in tables:
        ok = table.filter(pc.equal(table.column("status").cast(pa.string()), "ok"))
        if not ok.num_rows:
            continue
        receive.append(_span(ok, "recv_ns", "enqueued_ns"))
        # What an answer waits for its batch is no cost of replying: the quickest tenth waits for nobody.
        reply.append(np.quantile(_span(ok, "last_token_ns", "finished_ns"), [0.1]))
    if len(receive) == 1:
        return {"receive_us": base.receive_us, "reply_us": base.reply_us}
    return {
        "receive_us": float(np.median(np.concatenate(receive))) / 1e3,
        "reply_us": float(np.median(np.concatenate(reply))) / 1e3,
    }


def _span(table: pa.Table, first: str, then: str) -> Floats:
    """From one moment to another, ns."""
    return np.asarray(pc.subtract(table.column(then), table.column(first)).to_numpy(), dtype=np.float64)
