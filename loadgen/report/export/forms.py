"""Forms: which exports there are, and the files that each writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import orjson
import pyarrow.parquet as pq

from loadgen.atomic_file import replacing
from loadgen.errors import RunError
from loadgen.report.export.aiperf import RECORDS_NAME, SUMMARY_NAME, aiperf_records, as_aiperf_summary
from loadgen.report.export.openmetrics import as_openmetrics
from loadgen.report.export.request_rows import as_csv, request_rows
from loadgen.report.export.vllm_json import as_vllm_json
from loadgen.report.recorded_run import RecordedRun
from loadgen.report.report import Report

_Writer = Callable[[Report, RecordedRun, Path], None]


def _vllm(report: Report, run: RecordedRun, path: Path) -> None:
    path.write_bytes(_json(as_vllm_json(report, run)))


def _vllm_detailed(report: Report, run: RecordedRun, path: Path) -> None:
    path.write_bytes(_json(as_vllm_json(report, run, detailed=True)))


def _aiperf_summary(report: Report, run: RecordedRun, path: Path) -> None:
    path.write_bytes(_json(as_aiperf_summary(report, run)))


def _aiperf_records(report: Report, run: RecordedRun, path: Path) -> None:
    with path.open("wb") as out:
        out.writelines(aiperf_records(run))


def _csv(report: Report, run: RecordedRun, path: Path) -> None:
    path.write_bytes(as_csv(request_rows(run)))


def _parquet(report: Report, run: RecordedRun, path: Path) -> None:
    pq.write_table(request_rows(run), path, compression="zstd")


def _openmetrics(report: Report, run: RecordedRun, path: Path) -> None:
    path.write_text(as_openmetrics(report), encoding="utf-8")


# File and its writer, by form.
_FILES: dict[str, tuple[tuple[str, _Writer], ...]] = {
    "vllm-json": (("vllm.json", _vllm),),
    "vllm-json-detailed": (("vllm-detailed.json", _vllm_detailed),),
    "aiperf": ((SUMMARY_NAME, _aiperf_summary), (RECORDS_NAME, _aiperf_records)),
    "csv": (("requests.csv", _csv),),
    "parquet": (("requests-flat.parquet", _parquet),),
    "openmetrics": (("metrics.om", _openmetrics),),
}
FORMS = tuple(_FILES)


def write_exports(report: Report, run: RecordedRun, forms: Iterable[str], folder: Path) -> list[Path]:
    """Write the files of each form (of FORMS) into `folder`, whole or not. Raises RunError naming the file."""
    written = []
    for form in dict.fromkeys(forms):
        for name, write in _FILES[form]:
            path = folder / name
            try:
                with replacing(path) as aside:
                    write(report, run, aside)
            except OSError as exc:
                raise RunError(f"{path}: cannot be written ({exc.strerror or exc})") from exc
            written.append(path)
    return written


def _json(document: dict[str, object]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"
