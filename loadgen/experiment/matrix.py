"""Matrix: targets x loads x repeats, as a TOML file says it, and the cells that it has."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.compare.ab_target import AbTarget, parse_target
from loadgen.errors import UsageError

_KEYS = {"name", "about", "trace", "repeats", "send", "shape", "target", "load", "slo"}
_TARGET_KEYS = {"name", "serve", "command", "url", "health"}
_LOAD_KEYS = {"name", "serve"}


@dataclass(frozen=True, slots=True)
class MatrixTarget:
    """A set-up to measure. serve: flags of the bundled server, which a load may add to; else None.

    health: path that answers 200 once a command's server is ready; None for the usual ones.
    """

    name: str
    target: AbTarget
    health: str | None = None

    @property
    def serve(self) -> str | None:
        return self.target.text if self.target.kind == "serve" else None

    def with_flags(self, flags: str) -> AbTarget:
        """The target of a load that adds `flags` to those of the bundled server."""
        if not flags or self.serve is None:
            return self.target
        return AbTarget("serve", f"{self.serve} {flags}")


@dataclass(frozen=True, slots=True)
class Load:
    """A shape of the trace. options: by the names of plan's options, over those of all loads.

    serve: flags that the bundled server gets for this load besides its own.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    serve: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run to make. repeat: from 0."""

    target: str
    load: str
    repeat: int

    @property
    def name(self) -> str:
        return f"{self.target}-{self.load}-{self.repeat + 1}"


@dataclass(frozen=True, slots=True)
class Matrix:
    """What to run. send: options of sending by the names of replay's. trace: None where it is given apart.

    slo: limits that every run is judged by, as --slo writes them.
    """

    name: str
    targets: tuple[MatrixTarget, ...]
    loads: tuple[Load, ...]
    repeats: int = 1
    trace: Path | None = None
    about: str = ""
    send: dict[str, Any] = field(default_factory=dict)
    slo: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for kind, names in (
            ("target", [t.name for t in self.targets]),
            ("load", [one.name for one in self.loads]),
        ):
            if not names:
                raise UsageError(f"the experiment has no {kind}", hint=f"add a [[{kind}]]")
            if twice := [name for name in names if names.count(name) > 1]:
                raise UsageError(f"two of [[{kind}]] are named {twice[0]!r}", hint="give each its own name")
        if self.repeats < 1:
            raise UsageError(f"repeats is {self.repeats}", hint="give 1 or more")

    def target(self, name: str) -> MatrixTarget:
        return next(one for one in self.targets if one.name == name)

    def load(self, name: str) -> Load:
        return next(one for one in self.loads if one.name == name)

    def cells(self, seed: int) -> list[Cell]:
        """All cells in the order they are run: a repeat holds each once, targets of a load side by side.

        The order of targets is drawn anew each time, so that what drifts hits all alike.
        """
        rng = np.random.default_rng(seed)
        found = []
        for repeat in range(self.repeats):
            for load in self.loads:
                order = rng.permutation(len(self.targets))
                found += [Cell(self.targets[place].name, load.name, repeat) for place in order]
        return found


def read_matrix(path: Path) -> Matrix:
    """The matrix of a TOML file; paths in it are beside the file. Raises UsageError naming what is wrong."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise UsageError(f"{path}: cannot be read as an experiment ({exc})") from exc
    try:
        return matrix_from(document, where=str(path), beside=path.parent)
    except UsageError as exc:
        known = exc.message if exc.message.startswith(str(path)) else f"{path}: {exc.message}"
        raise UsageError(known, hint=exc.hint) from exc


def matrix_from(document: Mapping[str, Any], *, where: str, beside: Path) -> Matrix:
    """The matrix of plain values."""
    _known(document, _KEYS, where)
    shape = _table(document.get("shape", {}), f"{where}: [shape]")
    trace = document.get("trace")
    slo = document.get("slo", [])
    repeats = document.get("repeats", 1)
    if not isinstance(repeats, int) or isinstance(repeats, bool):
        raise UsageError(f"{where}: repeats is {repeats!r}", hint="give a whole number")
    return Matrix(
        name=str(document.get("name", Path(where).stem)),
        about=str(document.get("about", "")),
        trace=None if trace is None else beside / str(trace),
        repeats=repeats,
        send=_named(_table(document.get("send", {}), f"{where}: [send]")),
        targets=tuple(_target(one, where) for one in _tables(document.get("target", []), "target", where)),
        loads=tuple(
            _load(one, shape, where)
            for one in _tables(document.get("load", [{"name": "load"}]), "load", where)
        ),
        slo=(slo,) if isinstance(slo, str) else tuple(str(one) for one in slo),
    )


def _target(values: Mapping[str, Any], where: str) -> MatrixTarget:
    _known(values, _TARGET_KEYS, f"{where}: [[target]]")
    name = str(values.get("name", ""))
    kinds = [kind for kind in ("serve", "command", "url") if kind in values]
    if not name or len(kinds) != 1:
        raise UsageError(
            f"{where}: [[target]] {name or 'without a name'} has {', '.join(kinds) or 'nothing to run'}",
            hint="give a name and one of serve, command, url",
        )
    text = str(values[kinds[0]])
    if kinds == ["serve"]:
        return MatrixTarget(name, AbTarget("serve", text))
    target = parse_target(text, option=f"[[target]] {name}")
    if target.kind != kinds[0]:
        raise UsageError(
            f"{where}: [[target]] {name}: {text!r} is no {kinds[0]}", hint="see docs/experiment.md"
        )
    return MatrixTarget(name, target, None if "health" not in values else str(values["health"]))


def _load(values: Mapping[str, Any], shape: Mapping[str, Any], where: str) -> Load:
    options = {**_named(shape), **_named({k: v for k, v in values.items() if k not in _LOAD_KEYS})}
    name = str(values.get("name", ""))
    if not name:
        raise UsageError(f"{where}: a [[load]] has no name", hint='name = "4 a second"')
    return Load(name, options, str(values.get("serve", "")))


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Options as Python names them."""
    return {name.replace("-", "_"): value for name, value in values.items()}


def _known(values: Mapping[str, Any], keys: set[str], where: str) -> None:
    if unknown := sorted(set(values) - keys):
        raise UsageError(f"{where}: unknown key {unknown[0]}", hint=f"one of: {', '.join(sorted(keys))}")


def _table(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} is no table", hint="write its keys below it")
    return value


def _tables(values: object, kind: str, where: str) -> Sequence[dict[str, Any]]:
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise UsageError(f"{where}: {kind} is no list of tables", hint=f"write [[{kind}]]")
    return values
