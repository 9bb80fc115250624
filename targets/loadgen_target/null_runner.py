"""NullRunner: no model, for the ceiling of all that stands around one."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen_target.rows import Chunk, Row


class NullRunner:
    """Every token is an `x`, at no cost."""

    def prefill(self, rows: Sequence[Row]) -> list[int]:
        return [ord("x")] * len(rows)

    def decode(self, rows: Sequence[Row]) -> list[int]:
        return [ord("x")] * len(rows)

    def mixed(self, rows: Sequence[Row], chunks: Sequence[Chunk]) -> list[int]:
        return [ord("x")] * (len(rows) + len(chunks))

    def move(self, source: int, target: int, length: int) -> None:
        """Nothing is cached."""
