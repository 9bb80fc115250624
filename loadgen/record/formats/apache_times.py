"""Apache's %t and %{...}t -> variables of a pattern, and the moment that they tell together.

Source: mod_log_config of httpd. %t is when the request was received, 1 s. In %{FORMAT}t, FORMAT is strftime's, or
one of sec, msec, usec (epochs), msec_frac, usec_frac; `begin:` (the default) is the same moment, `end:` is when
the line is written. Several may tell one moment: [%{%d/%b/%Y:%H:%M:%S}t.%{usec_frac}t %{%z}t].
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.errors import UsageError
from loadgen.record.access_lines import read_distinct
from loadgen.record.decimal_columns import nanoseconds
from loadgen.record.stamp_reader import StampReader
from loadgen.record.value_columns import Faults

# Unit in ns, and how many digits.
_EPOCHS = {"usec": (10**3, "15,17"), "msec": (10**6, "12,14"), "sec": (10**9, "9,11"), "%s": (10**9, "9,11")}
_FRACTIONS = {"usec_frac": (10**3, "6"), "msec_frac": (10**6, "3")}
_PLAIN = "%d/%b/%Y:%H:%M:%S %z"
_DIRECTIVE = re.compile(r"%[-_0^#]?(.)")
_WRITTEN_OUT = {
    "T": "%H:%M:%S",
    "F": "%Y-%m-%d",
    "D": "%m/%d/%y",
    "R": "%H:%M",
    "r": "%I:%M:%S %p",
    "c": "%a %b %e %H:%M:%S %Y",
    "h": "%b",
}
_LOOKS = {
    **dict.fromkeys("mdHMSIy", r"\d\d"),
    "e": r" ?\d{1,2}",
    "Y": r"\d{4}",
    "j": r"\d{3}",
    **dict.fromkeys("ab", r"\w{3}"),
    **dict.fromkeys("AB", r"\w{3,12}"),
    "p": "[AP]M",
    "z": r"[+-]\d{4}",
    "%": "%",
}
_SPACES_AND_ZONES = re.compile(r"(\s+|%Z)")


@dataclass(slots=True)
class ApacheTimes:
    """The times in a LogFormat string: `take` turns each into variables, `moment` says what they tell.

    checks: for each variable the regular expression of its values.
    """

    checks: dict[str, str] = field(default_factory=dict)
    _of: dict[bool, _Parts] = field(default_factory=dict)

    def take(self, argument: str | None) -> str:
        """What stands for a %t or a %{argument}t, in nginx's notation. Raises UsageError for what is no time."""
        text = argument or ""
        parts = self._of.setdefault(text.startswith("end:"), _Parts())
        text = text.removeprefix("end:").removeprefix("begin:")
        if text in _EPOCHS:
            unit_ns, digits = _EPOCHS[text]
            parts.epochs[unit_ns] = name = self._variable(rf"\d{{{digits}}}")
            return f"${{{name}}}"
        if text in _FRACTIONS:
            unit_ns, digits = _FRACTIONS[text]
            parts.fraction = (name := self._variable(rf"\d{{{digits}}}"), unit_ns)
            return f"${{{name}}}"
        pieces = self._calendar(text or _PLAIN)
        named = [piece for piece in pieces if piece.name]
        shown = "".join(piece.shown for piece in pieces)
        if text:
            parts.pieces += named
            return shown
        parts.plain = named
        return f"[{shown}]"

    def moment(self) -> ApacheMoment | None:
        """The moment when the request began, else when it ended; None if neither is told whole."""
        begin = self._of[False].moment("arrival") if False in self._of else None
        return begin or (self._of[True].moment("completion") if True in self._of else None)

    def _calendar(self, strftime: str) -> list[_Piece]:
        text = _DIRECTIVE.sub(lambda found: _WRITTEN_OUT.get(found[1], "%" + found[1]), strftime)
        pieces = []
        for part in _SPACES_AND_ZONES.split(text):
            if part == "%Z":
                # A zone's name tells no offset by itself.
                pieces.append(_Piece("", "", "${other}"))
            elif not part.strip():
                pieces.append(_Piece("", "", part))
            else:
                name = self._variable("".join(_look(part, strftime)))
                pieces.append(_Piece(name, part.replace("%e", "%d"), f"${{{name}}}"))
        return pieces

    def _variable(self, check: str) -> str:
        name = f"apache_time_{len(self.checks)}"
        self.checks[name] = check
        return name


@dataclass(frozen=True, slots=True)
class _Piece:
    """A variable and what strptime calls its value; or text between variables. shown: how the pattern has it."""

    name: str
    strptime: str
    shown: str


@dataclass(slots=True)
class _Parts:
    """All that tells one moment."""

    epochs: dict[int, str] = field(default_factory=dict)
    fraction: tuple[str, int] | None = None
    plain: list[_Piece] = field(default_factory=list)
    pieces: list[_Piece] = field(default_factory=list)

    def moment(self, marks: str) -> ApacheMoment | None:
        told = {letter for piece in self.pieces for letter in _DIRECTIVE.findall(piece.strptime)}
        is_day = ("j" in told or ("d" in told and told & {"b", "B", "m"})) and told & {"Y", "y"}
        is_time = ("H" in told or {"I", "p"} <= told) and {"M", "S"} <= told
        pieces = self.pieces if is_day and is_time else self.plain
        unit_ns = min(self.epochs, default=None)
        if unit_ns is None and not pieces:
            return None
        needs_fraction = unit_ns in (None, 10**9)
        return ApacheMoment(
            marks,
            None if unit_ns is None else (self.epochs[unit_ns], unit_ns),
            tuple((piece.name, piece.strptime) for piece in pieces),
            self.fraction if needs_fraction else None,
        )


@dataclass(frozen=True, slots=True)
class ApacheMoment:
    """Which variables tell a moment: an epoch, or pieces of a calendar time, and perhaps a fraction of a second.

    marks: "arrival" or "completion". epoch and fraction: a variable and its unit in ns. pieces: variables with
    their strptime patterns.
    """

    marks: str
    epoch: tuple[str, int] | None
    pieces: tuple[tuple[str, str], ...]
    fraction: tuple[str, int] | None

    @property
    def strptime(self) -> str:
        """The pattern of the pieces, joined by spaces."""
        return " ".join(pattern for _, pattern in self.pieces)

    @property
    def resolution_ns(self) -> int:
        """The finest step that can be told."""
        if self.fraction is not None:
            return self.fraction[1]
        return self.epoch[1] if self.epoch is not None else 10**9

    def unix_ns(
        self, values: Mapping[str, pa.Array], stamps: StampReader, place: str
    ) -> tuple[npt.NDArray[np.int64], Faults]:
        """int64 unix ns of columns of bytes, and why some are none. stamps: reads `strptime`. place: for errors."""
        faults: Faults = {}
        if self.epoch is not None:
            moments_ns = nanoseconds(values[self.epoch[0]], self.epoch[1])
        else:
            texts = pc.binary_join_element_wise(*(values[name] for name, _ in self.pieces), b" ")
            moments_ns, faults = _calendar_ns(texts, stamps, place)
        if self.fraction is not None:
            moments_ns = moments_ns + nanoseconds(values[self.fraction[0]], self.fraction[1])
        return moments_ns, faults


def _calendar_ns(texts: pa.Array, stamps: StampReader, place: str) -> tuple[npt.NDArray[np.int64], Faults]:
    def place_of(row: int) -> str:
        return place

    if stamps.order_matters:
        return stamps.column([text.decode("latin-1") for text in texts.to_pylist()], place_of)
    # Many lines have the same second.
    return read_distinct(texts, lambda words: stamps.column(words, place_of))


def _look(part: str, whole: str) -> Iterator[str]:
    position = 0
    for found in _DIRECTIVE.finditer(part):
        if found[1] not in _LOOKS:
            raise UsageError(
                f"%{{{whole}}}t in --log-format: {found[0]} is not understood",
                hint="log %t, %{usec}t or a time of %Y %m %d %b %H %M %S %z",
            )
        yield re.escape(part[position : found.start()]) + _LOOKS[found[1]]
        position = found.end()
    yield re.escape(part[position:])
