"""ServeGen client sets -> requests drawn from them: rates of each client over a day, and its lengths.

Source: github.com/alibaba/ServeGen (arXiv 2505.09999). A folder of chunk-N-trace.csv, a client each: start s,
rate /s, CV, pattern, two parameters, for windows of 600 s; Gamma and Weibull have shape and scale (s) of the gaps.
chunk-N-dataset.json: for windows of 21600 s, the probabilities of input_tokens and output_tokens, each as a Python
dict in a string.

Within a window a client's gaps are drawn from its law, scaled to the window's rate (the fitted scale of some
windows means another rate, by up to a thousandfold), the first one cut at a point of its own, as of a process that
began long before. Lengths in and out are drawn apart: the files do not tell how they go together.
"""

from __future__ import annotations

import ast
import csv
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.errors import TraceError
from loadgen.trace.foreign.foreign_format import ForeignRequests

_TRACE = re.compile(r"chunk-(\d+)-trace\.csv")
_SIDES = ("input_tokens", "output_tokens")

Law = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
# Start of a window -> the law of the lengths on each side.
Lengths = dict[int, dict[str, Law]]


@dataclass(frozen=True, slots=True)
class _Window:
    start_s: float
    end_s: float
    rate_per_s: float
    pattern: str
    shape: float


def read_servegen(folder: Path, seed: int) -> ForeignRequests:
    """Requests drawn from the client set in `folder`; the same seed gives the same ones.

    Raises TraceError naming the file that is none, or if there is no client.
    """
    numbers = sorted(int(found[1]) for path in folder.iterdir() if (found := _TRACE.fullmatch(path.name)))
    if not numbers:
        raise TraceError("no chunk-N-trace.csv in the folder: no ServeGen client set")
    lengths = {number: _lengths(path) for number in numbers if (path := _dataset(folder, number)).exists()}
    arrivals: list[npt.NDArray[np.float64]] = []
    drawn: dict[str, list[npt.NDArray[np.int64]]] = {side: [] for side in _SIDES}
    for number in numbers:
        # A generator of its own for each client: what one draws does not depend on the others.
        rng = np.random.default_rng([seed, number])
        own = lengths.get(number)
        for window in _windows(folder / f"chunk-{number}-trace.csv"):
            moments_s = _arrivals_s(window, rng)
            if not moments_s.size:
                continue
            arrivals.append(moments_s)
            if not lengths:
                continue
            # Without lengths of its own a client has those of the others, one of them in each window.
            of_client = own or lengths[list(lengths)[int(rng.integers(len(lengths)))]]
            laws = of_client[
                max((start for start in of_client if start <= window.start_s), default=min(of_client))
            ]
            for side in _SIDES:
                values, shares = laws[side]
                drawn[side].append(rng.choice(values, moments_s.size, p=shares))
    if not arrivals:
        raise TraceError("all windows of all clients are silent: 0 requests")
    columns: dict[str, Any] = {side: np.concatenate(parts).tolist() for side, parts in drawn.items() if parts}
    missing = len(numbers) - len(lengths)
    notes = [f"drawn from {len(numbers)} clients with seed {seed}; lengths in and out are drawn apart"]
    if lengths and missing:
        notes.append(f"{missing} clients have no chunk-N-dataset.json: their lengths are those of the others")
    return ForeignRequests(
        moments_ns=np.rint(np.concatenate(arrivals) * 1e9).astype(np.int64),
        columns=columns,
        has_epoch=False,
        arrival_from="drawn from the rates of each client",
        unit="s",
        notes=tuple(notes),
    )


def _dataset(folder: Path, number: int) -> Path:
    return folder / f"chunk-{number}-dataset.json"


def _windows(path: Path) -> list[_Window]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    windows: list[_Window] = []
    try:
        starts = [float(row[0]) for row in rows]
        for row, start_s, end_s in zip(rows, starts, _ends(starts), strict=True):
            rate, pattern = float(row[1]), row[3].strip()
            if rate > 0:
                windows.append(_Window(start_s, end_s, rate, pattern, float(row[4])))
    except (ValueError, IndexError) as exc:
        raise TraceError(
            f"{path.name}: a row is none of start, rate, CV, pattern and two parameters"
        ) from exc
    return windows


def _ends(starts: list[float]) -> list[float]:
    width = starts[1] - starts[0] if len(starts) > 1 else 600.0
    return [*starts[1:], starts[-1] + width] if starts else []


def _arrivals_s(window: _Window, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    width_s = window.end_s - window.start_s
    moments_s = np.empty(0)
    at_s = -_gaps_s(window, rng, 1)[0] * rng.random()
    while at_s < width_s:
        gaps_s = _gaps_s(window, rng, max(16, int(window.rate_per_s * width_s * 1.2)))
        further_s = at_s + np.cumsum(gaps_s)
        moments_s = np.concatenate([moments_s, further_s])
        at_s = float(further_s[-1])
    return window.start_s + moments_s[(moments_s >= 0) & (moments_s < width_s)]


def _gaps_s(window: _Window, rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
    mean_s = 1 / window.rate_per_s
    if window.pattern == "Gamma":
        return rng.gamma(window.shape, mean_s / window.shape, count)
    if window.pattern == "Weibull":
        return np.asarray(mean_s / math.gamma(1 + 1 / window.shape) * rng.weibull(window.shape, count))
    return rng.exponential(mean_s, count)


def _lengths(path: Path) -> Lengths:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {
            int(start): {side: _law(ast.literal_eval(of_window[side])) for side in _SIDES}
            for start, of_window in document.items()
        }
    except (ValueError, SyntaxError, KeyError, TypeError, AttributeError) as exc:
        raise TraceError(f"{path.name}: no lengths by window ({type(exc).__name__})") from exc


def _law(shares: dict[float, float]) -> Law:
    values = np.array([int(value) for value in shares], dtype=np.int64)
    chances = np.array(list(shares.values()), dtype=np.float64)
    return values, chances / chances.sum()
