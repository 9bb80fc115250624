"""CostModel: how long the simulated server computes, and the file it is kept in."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.errors import UsageError

_TIMES = ("prefill_us", "prefill_token_us", "prefill_row_us", "kv_token_ns", "receive_us", "reply_us")


@dataclass(frozen=True, slots=True)
class CostModel:
    """What a forward pass takes, with all that the engine does around it.

    A prefill of t tokens of r prompts: prefill + t prefill_token + r prefill_row. A decode step of r rows whose
    caches hold c positions: what `decode_us` has for r rows + c kv_token. decode_us: (rows, us) by ascending rows;
    between them and beyond the last two it goes on in a straight line, below the first it is constant.
    receive_us: from the planned send until the engine may see the request. reply_us: from a token until the client
    has it.
    """

    prefill_us: float = 7_000.0
    prefill_token_us: float = 450.0
    prefill_row_us: float = 0.0
    decode_us: tuple[tuple[int, float], ...] = ((1, 8_000.0), (4, 8_000.0), (8, 10_000.0), (16, 14_500.0))
    kv_token_ns: float = 0.0
    receive_us: float = 1_500.0
    reply_us: float = 1_000.0

    def __post_init__(self) -> None:
        for name in _TIMES:
            value = getattr(self, name)
            if not 0 <= value < 1e12:
                raise UsageError(f"cost model: {name} is {value}", hint="give a time of 0 or more")
        rows = [row for row, _ in self.decode_us]
        if not rows or rows[0] < 1 or rows != sorted(set(rows)):
            raise UsageError(
                f"cost model: decode_us is for {rows} rows",
                hint="give [[1, 8000], [8, 10000]], rows ascending",
            )
        if any(not 0 < value < 1e12 for _, value in self.decode_us):
            raise UsageError(
                "cost model: a value of decode_us is not above 0", hint="give microseconds a step"
            )

    def prefill_ns(self, num_tokens: int, num_rows: int) -> int:
        """ns of a pass over `num_tokens` prompt tokens of `num_rows` requests."""
        us = self.prefill_us + self.prefill_token_us * num_tokens + self.prefill_row_us * num_rows
        return max(1, round(us * 1e3))

    def decode_ns(self, num_rows: int, kv_tokens: int) -> int:
        """ns of one token for each of `num_rows`; whole ns for each cache position, so that sums are exact."""
        return self.decode_rows_ns(num_rows) + round(self.kv_token_ns) * kv_tokens

    def decode_rows_ns(self, num_rows: int) -> int:
        """The part of decode_ns that only the rows decide."""
        known = self.decode_us
        if num_rows > known[-1][0] and len(known) > 1:
            (low, low_us), (high, high_us) = known[-2:]
            slope = max(0.0, (high_us - low_us) / (high - low))
            return max(1, round((high_us + slope * (num_rows - high)) * 1e3))
        rows, values = zip(*known, strict=True)
        return max(1, round(float(np.interp(num_rows, rows, values)) * 1e3))

    def scaled(self, factor: float) -> CostModel:
        """The same server, `factor` times as slow at computing."""
        return CostModel(
            self.prefill_us * factor,
            self.prefill_token_us * factor,
            self.prefill_row_us * factor,
            tuple((rows, us * factor) for rows, us in self.decode_us),
            self.kv_token_ns * factor,
            self.receive_us,
            self.reply_us,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as the file has them."""
        return {**asdict(self), "decode_us": [list(pair) for pair in self.decode_us]}


def cost_model_from(values: Mapping[str, Any], *, where: str) -> CostModel:
    """The model of these plain values; what is not named keeps its default. Raises UsageError naming `where`."""
    if unknown := sorted(set(values) - {*_TIMES, "decode_us"}):
        raise UsageError(
            f"{where}: unknown key {unknown[0]}", hint=f"one of: {', '.join([*_TIMES, 'decode_us'])}"
        )
    try:
        given: dict[str, Any] = {name: float(values[name]) for name in _TIMES if name in values}
        if "decode_us" in values:
            given["decode_us"] = tuple((int(rows), float(us)) for rows, us in values["decode_us"])
    except (TypeError, ValueError) as exc:
        raise UsageError(
            f"{where}: a value has another form ({exc})", hint="numbers; decode_us = [[1, 8000], [8, 10000]]"
        ) from exc
    return CostModel(**given)


def read_cost_model(path: Path) -> CostModel:
    """The model in a TOML file. Raises UsageError where it cannot be read."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise UsageError(f"{path}: cannot be read as a cost model ({exc})") from exc
    return cost_model_from(values, where=str(path))


def cost_model_toml(model: CostModel, comment: str) -> str:
    """The file's text, with `comment` above."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines += [f"{name} = {getattr(model, name):.6g}" for name in _TIMES]
    pairs = ", ".join(f"[{rows}, {us:.6g}]" for rows, us in model.decode_us)
    return "\n".join([*lines, f"decode_us = [{pairs}]  # rows, us"]) + "\n"
