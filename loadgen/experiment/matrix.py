"""Matrix: targets x loads x repeats, as a TOML file says it, and the cells that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.compare.ab_target import AbTarget, parse_target
from loadgen.errors import UsageError
from loadgen.experiment.placing import Claim
from loadgen.experiment.typed_options import typed

_KEYS = {"name", "about", "trace", "repeats", "send", "shape", "target", "load", "slo"}
_TARGET_KEYS = {"name", "serve", "command", "url", "health", "cpus", "gpus", "on"}
_LOAD_KEYS = {"name", "serve"}


@dataclass(frozen=True, slots=True)
class MatrixTarget:
    """A set-up to measure. serve: flags of the bundled server, which a load may add to; else None.

    health: path that answers 200 once a command's server is ready; None for the usual ones.
    cpus, gpus: of the machine that starts it, for it and for sending; None: the whole machine. on: machines that a
    URL's server is on; None: not told.
    """

    name: str
    target: AbTarget
    health: str | None = None
    cpus: int | None = None
    gpus: float = 0.0
    on: tuple[str, ...] | None = None

    def claim(self, num_workers: int) -> Claim:
        """What a run of it needs to itself, sent by so many workers."""
        if self.target.kind != "url":
            return Claim(self.cpus, self.gpus)
        servers = None if self.on is None else frozenset({self.target.text, *self.on})
        return Claim(num_workers, 0.0, servers)

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


def matrix_from(document: Mapping[str, Any], *, where: str, beside: Path) -> Matrix:
    """The matrix of plain values, as a file has them; paths in it are beside `beside`.

    Raises UsageError naming `where`, the part and the key.
    """
    _known(document, _KEYS, where)
    shape = _table(document.get("shape", {}), f"{where}: [shape]")
    slo = document.get("slo", [])
    head = {key: value for key, value in document.items() if key in ("name", "about", "trace", "repeats")}
    head = typed(head | {"slo": [slo] if isinstance(slo, str) else slo}, _Head, where)
    try:
        return Matrix(
            name=head.get("name", Path(where).stem),
            about=head.get("about", ""),
            trace=beside / head["trace"] if "trace" in head else None,
            repeats=head.get("repeats", 1),
            send=_beside(_named(_table(document.get("send", {}), f"{where}: [send]")), "template", beside),
            targets=tuple(
                _target(one, where) for one in _tables(document.get("target", []), "target", where)
            ),
            loads=tuple(
                _load(one, shape, where, beside)
                for one in _tables(document.get("load", [{"name": "load"}]), "load", where)
            ),
            slo=tuple(head["slo"]),
        )
    except UsageError as exc:
        if exc.message.startswith(where):
            raise
        raise UsageError(f"{where}: {exc.message}", hint=exc.hint) from exc


@dataclass(frozen=True, slots=True)
class _Head:
    """What a file says at its top."""

    name: str
    about: str
    trace: Path
    repeats: int
    slo: list[str]


@dataclass(frozen=True, slots=True)
class _Needs:
    """What a target may say of where it runs."""

    cpus: int
    gpus: float
    on: list[str]


def _texts(values: Mapping[str, Any], where: str) -> dict[str, str]:
    """`values`, which are all texts."""
    for key, value in values.items():
        if not isinstance(value, str):
            raise UsageError(f"{where}: {key} is {value!r}, which is no text", hint="write it in quotes")
    return dict(values)


def _target(given: Mapping[str, Any], where: str) -> MatrixTarget:
    _known(given, _TARGET_KEYS, f"{where}: [[target]]")
    own = f"{where}: [[target]] {given.get('name', '')}".rstrip()
    needs = typed({key: given[key] for key in ("cpus", "gpus", "on") if key in given}, _Needs, own)
    values = _texts({key: value for key, value in given.items() if key not in needs}, own)
    name = values.get("name", "")
    kinds = [kind for kind in ("serve", "command", "url") if kind in values]
    if not name or len(kinds) != 1:
        raise UsageError(
            f"{where}: [[target]] {name or 'without a name'} has {', '.join(kinds) or 'nothing to run'}",
            hint="give a name and one of serve, command, url",
        )
    text = values[kinds[0]]
    if "health" in values and kinds != ["command"]:
        raise UsageError(
            f"{where}: [[target]] {name}: health is for a command", hint="a URL stays up; leave it out"
        )
    if of_others := needs.keys() & ({"cpus", "gpus"} if kinds == ["url"] else {"on"}):
        raise UsageError(
            f"{own}: {min(of_others)} is not for a {kinds[0]}",
            hint="on = the machines that a URL's server is on; cpus, gpus: what a started one takes",
        )
    if needs.get("cpus", 1) < 1 or needs.get("gpus", 0) < 0 or needs.get("on") == []:
        raise UsageError(f"{own}: cpus, gpus or on says nothing", hint="give 1 CPU and a machine at least")
    needs |= {"on": tuple(needs["on"])} if "on" in needs else {}
    if kinds == ["serve"]:
        return MatrixTarget(name, AbTarget("serve", text), **needs)
    target = parse_target(text, option=f"[[target]] {name}: {kinds[0]}")
    if target.kind != kinds[0]:
        hints = {"url": 'url = "http://HOST:PORT"', "command": "write {port} where the server's port belongs"}
        raise UsageError(f"{where}: [[target]] {name}: {text!r} is no {kinds[0]}", hint=hints[kinds[0]])
    return MatrixTarget(name, target, values.get("health"), **needs)


def _load(values: Mapping[str, Any], shape: Mapping[str, Any], where: str, beside: Path) -> Load:
    options = {**_named(shape), **_named({k: v for k, v in values.items() if k not in _LOAD_KEYS})}
    own = _texts({k: v for k, v in values.items() if k in _LOAD_KEYS}, f"{where}: [[load]]")
    name = own.get("name", "")
    if not name:
        raise UsageError(f"{where}: a [[load]] has no name", hint='name = "4 a second"')
    return Load(name, _beside(options, "rate_series", beside), own.get("serve", ""))


def _beside(options: dict[str, Any], name: str, folder: Path) -> dict[str, Any]:
    """The same with a path, where there is one, taken from the file that says it."""
    value = options.get(name)
    return {**options, name: str(folder / value)} if isinstance(value, str) else options


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
