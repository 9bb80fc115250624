"""Verdict: one cause that a diagnosis found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """name: of the cause. evidence: its numbers, in words. next_step: what to try, or how to find out."""

    name: str
    evidence: str
    next_step: str
