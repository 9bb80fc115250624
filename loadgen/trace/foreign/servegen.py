"""ServeGen client sets -> requests drawn from them: rates of each client over a day, and its lengths.

Source: github.com/alibaba/ServeGen (arXiv 2505.09999). A folder of chunk-N-trace.csv, a client each: start s,
rate /s, CV, pattern, two parameters, for windows of 600 s; Gamma and Weibull have shape and scale (s) of the gaps.
chunk-N-dataset.json: for windows of 21600 s, the probabilities of input_tokens and output_tokens, each as a Python
dict in a string.

A window's requests are drawn to what is known of it: how many they are (rate times length, a whole number in the
published sets), how long they took from first to last (by the mean gap of the law, less than 1 / rate where a
client was busy for a part of the window), and how their gaps vary (the law). ServeGen's own generator stretches
them over the whole window, which makes ten minutes of a burst of seconds. Windows of fewer than ten requests are
silent in the published sets. Lengths in and out are drawn apart: the files do not tell how they go together.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadgen.errors import TraceError
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.trace import SourceFile

_TRACE = re.compile(r"chunk-(\d+)-trace\.csv")
_PART = re.compile(r"chunk-\d+-(trace\.csv|dataset\.json)")
_SIDES = ("input_tokens", "output_tokens")

Law = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
# Start of a window -> the law of the lengths on each side.
Lengths = dict[int, dict[str, Law]]


@dataclass(frozen=True, slots=True)
class _Window:
    """Requests of one client: so many from `start_s` to `end_s`, and the law of the gaps between them."""

    start_s: float
    end_s: float
    rate_per_s: float
    pattern: str
    shape: float
    scale_s: float

    @property
    def mean_gap_s(self) -> float:
        """Of the law; without parameters, that of an even spread."""
        if self.pattern == "Gamma":
            return self.shape * self.scale_s
        if self.pattern == "Weibull":
            return self.scale_s * math.gamma(1 + 1 / self.shape)
        return 1 / self.rate_per_s

    def gaps(self, count: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Gaps by the law, in a unit of their own."""
        if self.pattern == "Gamma":
            return rng.gamma(self.shape, size=count)
        if self.pattern == "Weibull":
            return np.asarray(rng.weibull(self.shape, count))
        return rng.exponential(size=count)


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
    moments_ns = np.rint(np.concatenate(arrivals) * 1e9).astype(np.int64)
    order = np.argsort(moments_ns, kind="stable")
    columns: dict[str, Any] = {
        side: pa.array(np.concatenate(parts)[order]) for side, parts in drawn.items() if parts
    }
    missing = len(numbers) - len(lengths)
    notes = [f"drawn from {len(numbers)} clients with seed {seed}; lengths in and out are drawn apart"]
    if lengths and missing:
        notes.append(f"{missing} clients have no chunk-N-dataset.json: their lengths are those of the others")
    return ForeignRequests(
        moments_ns=moments_ns[order],
        columns=columns,
        has_epoch=False,
        arrival_from="drawn by the counts, busy times and patterns of each client's windows",
        unit="s",
        notes=tuple(notes),
    )


def servegen_source(folder: Path) -> SourceFile:
    """The client set as one source: its name, the bytes of all its files, and a hash over their contents."""
    digest, num_bytes = hashlib.sha256(), 0
    for path in sorted(folder.iterdir()):
        if _PART.fullmatch(path.name):
            content = path.read_bytes()
            digest.update(f"{path.name} {len(content)}\n".encode())
            digest.update(content)
            num_bytes += len(content)
    return SourceFile(folder.resolve().name, num_bytes, digest.hexdigest())


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
                windows.append(_Window(start_s, end_s, rate, pattern, float(row[4]), float(row[5])))
                if pattern in ("Gamma", "Weibull") and not 0 < windows[-1].mean_gap_s < math.inf:
                    raise ValueError("no law")
    except (ValueError, IndexError, ArithmeticError) as exc:
        raise TraceError(
            f"{path.name}: a row is none of start, rate, CV, pattern and two parameters"
        ) from exc
    return windows


def _ends(starts: list[float]) -> list[float]:
    width = starts[1] - starts[0] if len(starts) > 1 else 600.0
    return [*starts[1:], starts[-1] + width] if starts else []


def _arrivals_s(window: _Window, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    width_s = window.end_s - window.start_s
    expected = window.rate_per_s * width_s
    # Nearly always a whole number; else rounded by chance, so that the mean holds.
    count = math.floor(expected + 1e-6)
    count += int(rng.random() < expected - count)
    if count < 1:
        return np.empty(0)
    busy_s = (count - 1) * window.mean_gap_s
    if busy_s < width_s:
        at_s = np.concatenate([[0.0], np.cumsum(window.gaps(count - 1, rng))])
        # Gaps of a law as uneven as some of these may all be below what a double holds.
        scale = busy_s / at_s[-1] if at_s[-1] > 0 else 0.0
        return window.start_s + rng.uniform(0, width_s - busy_s) + at_s * scale
    # A fitted law of longer gaps than there is room for: the whole window, with a gap at either end.
    at_s = np.cumsum(window.gaps(count + 1, rng))
    return window.start_s + at_s[:-1] * (width_s / at_s[-1] if at_s[-1] > 0 else 0.0)


def _lengths(path: Path) -> Lengths:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {
            int(start): {side: _law(of_window[side]) for side in _SIDES}
            for start, of_window in document.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise TraceError(f"{path.name}: no lengths by window ({type(exc).__name__})") from exc


def _law(text: str) -> Law:
    """Values and their shares, from `{143: 0.25, 144: 0.75}`; some files hold a megabyte of it."""
    cells = text.strip().removeprefix("{").removesuffix("}").replace(":", ",").split(",")
    numbers = np.array(cells, dtype=np.float64)
    values, shares = numbers[::2], numbers[1::2]
    if values.size != shares.size or (shares < 0).any() or not 0 < shares.sum() < math.inf:
        raise ValueError("no shares")
    if (values < 0).any() or (values != np.floor(values)).any():
        raise ValueError("no lengths")
    return values.astype(np.int64), shares / shares.sum()
