"""Comparability: whether runs were sent the same load under the same limits, and what of the target changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.errors import RunError

# Settings of a replay that decide what its figures mean, with what a run has that does not name them. Shape and
# seed are in the schedule's hash as well, but their names say what differs.
_SETTINGS: dict[str, Any] = {
    "timeout": "10m",
    "timeout_connect": "10s",
    "timeout_first_token": None,
    "timeout_gap": None,
    "drain": "60s",
    "max_concurrency": None,
    "stream": None,
    "ignore_eos": False,
    "chars_per_token": 4,
    "tokenizer": None,
    "template": None,
    "transport": "fast",
    "http2": False,
    "reuse": True,
    "sessions": "planned",
    "retries": 0,
    "warmup_requests": 0,
}
# Facts of a target that differ from start to start and say nothing.
_VOLATILE = ("pid", "uptime", "started", "time")


class NotComparable(RunError):
    """Runs that were not sent the same load under the same limits."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which runs differ. base, candidate: as text."""

    field: str
    base: str
    candidate: str

    @property
    def text(self) -> str:
        return f"{self.field} a={self.base} b={self.candidate}"


def load_fields(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What must agree, by field name, from a run.json."""
    settings = facts.get("settings") or {}
    return {
        "trace": (facts.get("trace") or {}).get("trace_id"),
        "schedule": facts.get("schedule_hash"),
        **{f"shape.{name}": value for name, value in _flat(facts.get("shape") or {}).items()},
        "seed": facts.get("seed"),
        "dialect": (facts.get("target") or {}).get("dialect"),
        **{name: settings.get(name, default) for name, default in _SETTINGS.items()},
        "loadgen": (facts.get("versions") or {}).get("loadgen"),
    }


def target_fields(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What may differ and is told: the target's own account of itself, and the machine that sent."""
    target = facts.get("target") or {}
    told = _flat({"url": target.get("url"), "model": target.get("model"), **(target.get("facts") or {})})
    return {
        **{name: value for name, value in told.items() if not _is_volatile(name)},
        **{f"generator.{name}": value for name, value in _flat(facts.get("host") or {}).items()},
    }


def differences(base: Mapping[str, Any], candidate: Mapping[str, Any]) -> list[Difference]:
    """Fields that differ, in the order of the base; one that a side does not have is `none`."""
    return [
        Difference(name, _shown(base.get(name)), _shown(candidate.get(name)))
        for name in dict.fromkeys([*base, *candidate])
        if base.get(name) != candidate.get(name)
    ]


def not_comparable(
    base: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]], overridden: Sequence[str] = ()
) -> list[Difference]:
    """What keeps runs from being compared: fields of the load in which any differs from the first.

    overridden: fields that may differ, by name; `shape` stands for all that begin with `shape.`.
    """
    first = load_fields(base[0])
    found: dict[str, Difference] = {}
    for facts in (*base[1:], *candidate):
        for one in differences(first, load_fields(facts)):
            head = one.field.partition(".")[0]
            if one.field not in overridden and head not in overridden:
                found.setdefault(one.field, one)
    return list(found.values())


def is_same_target(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two runs were of one version on one machine, as far as the target tells; a silent one is never.

    The address does not count: a server that is started for a run takes a free port.
    """
    if not (one.get("target") or {}).get("facts"):
        return False
    return not [d for d in differences(target_fields(one), target_fields(other)) if d.field != "url"]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = value
    return found


def _is_volatile(name: str) -> bool:
    return any(part in _VOLATILE for part in name.rpartition(".")[2].split("_"))


def _shown(value: Any) -> str:
    return "none" if value is None or value == [] else printable(str(value))


def printable(text: str) -> str:
    """What a target says of itself, without anything that moves a cursor or breaks a line."""
    return "".join(character if character.isprintable() else "?" for character in text)
