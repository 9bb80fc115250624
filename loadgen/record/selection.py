"""Which requests of a log are kept: by time, by status, by model, by whole sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.errors import RecordError, UsageError
from loadgen.record.request_batch import RequestBatch, as_arrow

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Selection:
    """What to keep; without any of these, everything.

    since_ns, until_ns: arrivals in [since, until), unix ns. statuses: codes (429) or classes (2xx). models: names,
    or patterns with * and ?. session_share: of all sessions, this share, each whole and the same ones every time;
    requests without a session count as one each. busiest_ns: then the window of this width with the most arrivals.
    Raises UsageError for a status or a share that there is not.
    """

    since_ns: int | None = None
    until_ns: int | None = None
    statuses: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    session_share: float | None = None
    busiest_ns: int | None = None

    def __post_init__(self) -> None:
        for status in self.statuses:
            if (
                len(status) != 3
                or not status[0].isdecimal()
                or not (status[1:] == "xx" or status.isdecimal())
            ):
                raise UsageError(
                    f"--status is {status!r}", hint="give a code such as 429, or a class such as 2xx"
                )
        if self.session_share is not None and not 0 < self.session_share <= 1:
            raise UsageError(
                f"--sample-sessions is {self.session_share:g}",
                hint="give a share above 0, 1 at most, such as 0.1",
            )
        if self.busiest_ns is not None and self.busiest_ns <= 0:
            raise UsageError("--busiest is no time", hint="give a width such as 5m")

    def kept(self, batch: RequestBatch, first_row: int) -> RequestBatch:
        """The requests of `batch` to keep, but for `busiest_ns`. first_row: how many came before it.

        Raises RecordError if the log does not tell what is asked about.
        """
        if not batch.num_rows or not self._filters:
            return batch
        mask = np.ones(batch.num_rows, dtype=bool)
        if self.since_ns is not None:
            mask &= batch.arrival_unix_ns >= self.since_ns
        if self.until_ns is not None:
            mask &= batch.arrival_unix_ns < self.until_ns
        if self.statuses:
            mask &= self._by_status(batch)
        if self.models:
            mask &= self._by_model(batch)
        if self.session_share is not None:
            mask &= _by_session(batch, self.session_share, first_row)
        return batch if mask.all() else batch.only(mask)

    @property
    def description(self) -> str:
        """The options that leave requests out one by one."""
        return ", ".join(self._filters)

    @property
    def advice(self) -> str:
        """What to look at when nothing is left."""
        if "--since" in self._filters or "--until" in self._filters:
            return "check the zone of --since and --until, and the days that the log covers"
        return "check the values that the log has"

    def as_document(self) -> dict[str, object]:
        """What was asked for, JSON-ready."""
        document: dict[str, object] = {
            "since_ns": self.since_ns,
            "until_ns": self.until_ns,
            "statuses": list(self.statuses),
            "models": list(self.models),
            "session_share": self.session_share,
            "busiest_ns": self.busiest_ns,
        }
        return {name: value for name, value in document.items() if value not in (None, [])}

    @property
    def _filters(self) -> list[str]:
        asked = {
            "--since": self.since_ns is not None,
            "--until": self.until_ns is not None,
            "--status": bool(self.statuses),
            "--model": bool(self.models),
            "--sample-sessions": self.session_share is not None,
        }
        return [option for option, is_asked in asked.items() if is_asked]

    def _by_status(self, batch: RequestBatch) -> Mask:
        column = _told(batch, "status", "--status", "--status-field names it in tables and JSON lines")
        statuses = np.asarray(column.fill_null(-1))
        codes = [int(status) for status in self.statuses if status.isdecimal()]
        classes = [int(status[0]) for status in self.statuses if not status.isdecimal()]
        return np.isin(statuses, codes) | np.isin(statuses // 100, classes)

    def _by_model(self, batch: RequestBatch) -> Mask:
        column = _told(batch, "model", "--model", "--model-field names it in tables and JSON lines")
        return _by_value(
            column, lambda name: name is not None and any(fnmatchcase(name, model) for model in self.models)
        )


EVERYTHING = Selection()


def _told(batch: RequestBatch, column: str, option: str, hint: str) -> pa.Array:
    values = batch.columns.get(column)
    if values is None:
        raise RecordError(f"{option}: this log does not tell the {column} of a request", hint=hint)
    return as_arrow(column, values)


def _by_session(batch: RequestBatch, share: float, first_row: int) -> Mask:
    column = _told(batch, "session", "--sample-sessions", "--session-field names it in tables and JSON lines")
    mask = _by_value(column, lambda name: bool(name) and _lot(f"s{name}") < share)
    alone = np.asarray(pc.fill_null(pc.equal(column, ""), True))
    for row in np.flatnonzero(alone).tolist():
        mask[row] = _lot(f"r{first_row + row}") < share
    return mask


def _by_value(column: pa.Array, is_kept: Callable[[str | None], bool]) -> Mask:
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    kept = pa.array([is_kept(value) for value in coded.dictionary.to_pylist()], pa.bool_())
    return np.asarray(pc.fill_null(kept.take(coded.indices), False))


def _lot(name: str) -> float:
    """A number from 0 to 1 that depends on `name` alone."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, person=b"sample").digest()
    return int.from_bytes(digest, "little") / 2**64
