"""Schedule: what is to be sent when, decided before the first send."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.atomic_file import replacing
from loadgen.content_hash import content_hash
from loadgen.errors import ScheduleError

# Schedule file format. Version 1 (2026-12). A reader refuses a newer version.
FORMAT_VERSION = 1
METADATA_KEY = b"loadgen.schedule"

_NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("planned_ns", pa.int64(), nullable=False),  # from the run's start, ascending
        pa.field("trace_row", pa.int32(), nullable=False),  # the row the lengths were taken from
        pa.field(
            "copy", pa.int16(), nullable=False
        ),  # 0 = the recorded request, k = its k-th repetition or extra of an injection
        pa.field("window", _NAME, nullable=False),  # baseline, peak-1, recovery-1, burst-1 ...
        *(
            pa.field(f"{side}_{unit}", pa.int32())
            for side in ("input", "output")
            for unit in ("tokens", "chars", "bytes")
        ),
        pa.field("model", _NAME),
        pa.field("session", pa.int32()),
        pa.field("prefix_blocks", pa.list_(pa.int64())),
        pa.field("stream", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of the schedule with a label of its own: what was injected, what follows, and the rest.

    label: baseline, peak-k, burst-k or recovery-k; "baseline" may come several times.
    start_ns (inclusive) to end_ns (exclusive) from the run's start; windows follow each other without a hole.
    """

    label: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Requests with their planned moments, in order, and how they were chosen.

    table: see SCHEMA. (trace_row, copy) names a request across runs of the same trace.
    windows: cover the schedule from 0 to its end.
    trace_id: of the trace it was planned over. shape: the settings that made it, with the seed.
    num_passes: how often the trace itself is sent; from this copy on, requests are an injection's.
    """

    table: pa.Table
    windows: tuple[Window, ...]
    trace_id: str
    shape: dict[str, Any] = field(default_factory=dict)
    num_passes: int = 1

    @property
    def num_requests(self) -> int:
        return int(self.table.num_rows)

    @property
    def planned_ns(self) -> npt.NDArray[np.int64]:
        """int64 (num_requests,), ascending, ns from the run's start."""
        return np.asarray(self.table.column("planned_ns").to_numpy(), dtype=np.int64)

    @property
    def is_injected(self) -> npt.NDArray[np.bool_]:
        """bool (num_requests,): added by an injection."""
        return np.asarray(self.table.column("copy").to_numpy()) >= self.num_passes

    @property
    def end_ns(self) -> int:
        """Where the last window ends: the length of the planned run."""
        return self.windows[-1].end_ns

    @property
    def schedule_hash(self) -> str:
        """Equal for equal schedules, bit for bit; runs with another hash did not send the same load."""
        windows = json.dumps([asdict(window) for window in self.windows])
        return hashlib.sha256((content_hash(self.table) + windows).encode()).hexdigest()[:16]


def write_schedule(schedule: Schedule, path: Path) -> None:
    """Write `schedule` as Parquet, aside and then renamed. Raises ScheduleError where nothing can be written."""
    header = {
        "format_version": FORMAT_VERSION,
        "trace_id": schedule.trace_id,
        "schedule_hash": schedule.schedule_hash,
        "shape": schedule.shape,
        "windows": [asdict(window) for window in schedule.windows],
        "num_passes": schedule.num_passes,
    }
    table = schedule.table.replace_schema_metadata({METADATA_KEY: json.dumps(header).encode()})
    try:
        with replacing(path) as aside:
            pq.write_table(table, aside, compression="zstd")
    except OSError as exc:
        raise ScheduleError(f"{path}: cannot be written ({exc.strerror or exc})") from exc


def read_schedule(path: Path) -> Schedule:
    """Read a schedule. Raises ScheduleError for a file that is missing, cut, foreign or newer than this."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as exc:
        raise ScheduleError(f"{path}: cannot be read as a schedule ({exc})".splitlines()[0]) from exc
    raw = (table.schema.metadata or {}).get(METADATA_KEY)
    if raw is None:
        raise ScheduleError(f"{path}: is no schedule (no {METADATA_KEY.decode()} in its metadata)")
    try:
        header = json.loads(raw)
        version = int(header["format_version"])
        if version > FORMAT_VERSION:
            raise ScheduleError(
                f"{path}: schedule format {version} is newer than {FORMAT_VERSION}, the last known",
                hint="install a newer loadgen",
            )
        return Schedule(
            table=table.replace_schema_metadata(None).cast(SCHEMA),
            windows=tuple(Window(**window) for window in header["windows"]),
            trace_id=header["trace_id"],
            shape=header["shape"],
            num_passes=int(header.get("num_passes", 1)),
        )
    except (ValueError, KeyError, TypeError, pa.ArrowException) as exc:
        detail = str(exc).splitlines()[0]
        raise ScheduleError(f"{path}: breaks the schedule format ({detail})", hint="plan it again") from exc
