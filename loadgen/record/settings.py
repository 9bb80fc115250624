"""How to read a log: what the user says about its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loadgen.errors import UsageError
from loadgen.trace.moments import UNIT_NS
from loadgen.trace.schema import LENGTH_COLUMNS

_FIRST_YEAR, _LAST_YEAR = 1970, 2115


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """Options of a recording; the same settings over the same files give the same trace.

    path_prefixes: keep requests whose path begins with one of them; none keeps every POST.
    time_field, time_unit, zone, stamp: which field tells the moment, its unit (auto, s, ms, us, ns, iso
    or a strptime pattern), the zone of stamps that carry none, and whether it marks arrival or completion.
    length_fields: trace column -> field of the log. prefix_salt: with it the leading blocks of prompts are kept as
    hashes (record.prefix_blocks); prompt_field: where the prompt is. log_format: the format string of the server
    (nginx, Apache). year: of stamps that carry none. wrapper: what to take off first: auto, none or a name.
    accept_completion_times: take completion for arrival where no duration is logged.
    Raises UsageError for a unit, a stamp or a column that there is not.
    """

    path_prefixes: tuple[str, ...] = ()
    time_field: str | None = None
    time_unit: str = "auto"
    zone: str | None = None
    stamp: str | None = None
    duration_field: str | None = None
    duration_unit: str = "auto"
    length_fields: Mapping[str, str] = field(default_factory=dict)
    model_field: str | None = None
    status_field: str | None = None
    session_field: str | None = None
    prompt_field: str | None = None
    prefix_salt: bytes | None = field(default=None, repr=False)
    log_format: str | None = None
    year: int | None = None
    wrapper: str = "auto"
    accept_completion_times: bool = False

    def __post_init__(self) -> None:
        if self.time_unit not in ("auto", "iso", *UNIT_NS) and "%" not in self.time_unit:
            raise UsageError(
                f"--time-unit is {self.time_unit!r}",
                hint="give auto, s, ms, us, ns, iso, or a pattern such as '%d.%m.%Y %H:%M:%S.%f'",
            )
        if self.duration_unit not in ("auto", "text", *UNIT_NS):
            raise UsageError(
                f"--duration-unit is {self.duration_unit!r}",
                hint="give auto, s, ms, us, ns, or text for 1m2.5s",
            )
        if self.year is not None and not _FIRST_YEAR <= self.year <= _LAST_YEAR:
            raise UsageError(f"--year is {self.year}", hint="give the year of the log, such as 2026")
        if self.stamp not in (None, "arrival", "completion"):
            raise UsageError(f"--stamp is {self.stamp!r}", hint="give arrival or completion")
        unknown = set(self.length_fields) - set(LENGTH_COLUMNS)
        if unknown:
            raise UsageError(f"there is no length column {sorted(unknown)[0]}")

    @property
    def field_options(self) -> tuple[str, ...]:
        """The options given that name a field of the lines, or say what one means."""
        named = {
            "--time": self.time_field,
            "--stamp": self.stamp,
            "--duration-field": self.duration_field,
            **{"--" + column.replace("_", "-"): name for column, name in self.length_fields.items()},
            "--model-field": self.model_field,
            "--status-field": self.status_field,
            "--session-field": self.session_field,
            "--prompt-field": self.prompt_field,
        }
        return tuple(option for option, name in named.items() if name is not None)

    def as_document(self) -> dict[str, object]:
        """The settings that were given, JSON-ready: what the trace's metadata keeps."""
        document: dict[str, object] = {
            "paths": list(self.path_prefixes),
            "time_field": self.time_field,
            "time_unit": self.time_unit,
            "zone": self.zone,
            "stamp": self.stamp,
            "duration_field": self.duration_field,
            "duration_unit": self.duration_unit,
            "length_fields": dict(self.length_fields),
            "model_field": self.model_field,
            "status_field": self.status_field,
            "session_field": self.session_field,
            "prompt_field": self.prompt_field,
            "prefix_blocks": self.prefix_salt is not None or None,
            "log_format": self.log_format,
            "year": self.year,
            "wrapper": self.wrapper,
            "accept_completion_times": self.accept_completion_times or None,
        }
        return {name: value for name, value in document.items() if value not in (None, [], {}, "auto")}
