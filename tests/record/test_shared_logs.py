"""Sample logs with known answers: what a recording gives equals what was drawn before the logs were written."""

from __future__ import annotations

import csv
import json
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.formats.catalog import FORMATS
from loadgen.record.line_batch import LineBatch
from loadgen.record.recorder import record_logs
from loadgen.record.recording import Recording
from loadgen.record.settings import RecordSettings
from loadgen.record.sources import LogSources

LOGS = Path(__file__).resolve().parents[3] / "shared" / "logs"

pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason="the folder of sample logs is not here")

TOKENS = ("input_tokens", "output_tokens")

# sample -> (format, settings, input column, output column)
CASES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "nginx_timed": ("nginx", {"path_prefixes": ("/v1/chat",)}, "input_bytes", "output_bytes"),
    "nginx_json": ("nginx-json", {"path_prefixes": ("/v1/chat",)}, "input_bytes", "output_bytes"),
    "apache_combinedio": ("apache", {"path_prefixes": ("/v1/chat",)}, "input_bytes", "output_bytes"),
    "envoy_text": ("envoy", {"path_prefixes": ("/v1/chat",)}, "input_bytes", "output_bytes"),
    "istio_json": ("istio", {"path_prefixes": ("/v1/chat",)}, "input_bytes", "output_bytes"),
    "caddy_json": ("caddy", {}, "input_bytes", "output_bytes"),
    "traefik_json": ("traefik", {}, "input_bytes", "output_bytes"),
    "litellm_jsonl": ("litellm", {}, *TOKENS),
    "helicone_jsonl": ("helicone", {}, *TOKENS),
    "langfuse_jsonl": ("langfuse", {}, *TOKENS),
    "vllm_server": ("vllm", {"zone": "UTC", "year": 2026}, *TOKENS),
    "aws_alb": ("alb", {}, "input_bytes", "output_bytes"),
    "haproxy_httplog": ("haproxy", {"zone": "America/New_York"}, "input_bytes", "output_bytes"),
    # Nothing but completion times in whole seconds; the sample is judged by those.
    "nginx_combined": (
        "nginx",
        {"path_prefixes": ("/v1/chat",), "accept_completion_times": True},
        "input_bytes",
        "output_bytes",
    ),
    "otlp_genai": ("otlp", {}, *TOKENS),
    "openai_pairs": ("openai-pairs", {}, "input_chars", "output_chars"),
    # The log holds no length; the tokens that its times give back are judged in a test of their own.
    "tgi_json": ("tgi", {}, "input_tokens", "output_chars"),
    "sglang_server": ("sglang", {"zone": "UTC"}, *TOKENS),
    "docker_json": (
        "jsonl",
        {
            "time_field": "@written",
            "stamp": "completion",
            "duration_field": "elapsed_s",
            "length_fields": {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"},
        },
        *TOKENS,
    ),
    "kubernetes_cri": (
        "jsonl",
        {"time_field": "t_us", "length_fields": {"input_tokens": "in", "output_tokens": "out"}},
        *TOKENS,
    ),
    "journald_json": (
        "logfmt",
        {"time_field": "start", "length_fields": {"input_tokens": "in", "output_tokens": "out"}},
        *TOKENS,
    ),
    "cloudwatch_events": (
        "jsonl",
        {
            "time_field": "requestTimeEpoch",
            "length_fields": {"input_tokens": "inTokens", "output_tokens": "outTokens"},
        },
        *TOKENS,
    ),
    "loki_query": (
        "logfmt",
        {
            "time_field": "@written",
            "stamp": "completion",
            "duration_field": "dur",
            "duration_unit": "text",
            "length_fields": {"input_tokens": "in", "output_tokens": "out"},
        },
        *TOKENS,
    ),
    "generic_csv": (
        "csv",
        {
            "time_field": "Req At",
            "length_fields": {"input_tokens": "In Tok", "output_tokens": "Out Tok"},
            "duration_field": "Took (ms)",
        },
        *TOKENS,
    ),
    "generic_jsonl_ms": (
        "jsonl",
        {
            "time_field": "meta.t_recv",
            "length_fields": {
                "input_tokens": "sizes.prompt.tokens",
                "output_tokens": "sizes.completion.tokens",
            },
        },
        *TOKENS,
    ),
}


# Logs whose stamps are floats: to 2 us by the manifests' rule.
FLOATS = ("litellm_jsonl",)


def _is_met(rule: str, resolution_ns: int, wanted_ns: int, found_ns: int, slack_ns: int) -> bool:
    """Whether a found arrival agrees with the wanted one by the rule of a manifest."""
    late_ns = found_ns - wanted_ns
    if rule.startswith("0 <= expected - got < resolution"):
        return -slack_ns <= -late_ns < resolution_ns + slack_ns
    if rule.startswith("abs(expected - got) < resolution"):
        return abs(late_ns) < resolution_ns
    if rule == "abs(expected - got) < 2e-6":
        return abs(late_ns) < 2000
    if rule == "0 <= got - expected < 0.001":
        return 0 <= late_ns < 10**6
    assert rule == "arrival is not in this log"
    return late_ns == 0


def _record(
    sample: str, *, newest_first: bool = False, auto: bool = False
) -> tuple[Recording, dict[str, Any]]:
    manifest = json.loads((LOGS / sample / "manifest.json").read_text(encoding="utf-8"))
    format_name, options, _, _ = CASES[sample]
    paths = [LOGS / sample / name for name in manifest["files_oldest_first"]]
    if newest_first:
        paths.reverse()
    return record_logs(paths, "auto" if auto else format_name, RecordSettings(**options)), manifest


def _expected(sample: str) -> dict[tuple[int | None, int | None], list[int]]:
    groups: dict[tuple[int | None, int | None], list[int]] = defaultdict(list)
    if sample == "nginx_combined":
        for row in _truth(sample):
            second = int(row["end_ns"]) // 10**9
            groups[None, int(row["response_body_bytes"])].append(second * 10**9)
        return {key: sorted(moments) for key, moments in groups.items()}
    with (LOGS / sample / "expected.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            seconds, _, fraction = row["arrival_unix_s"].partition(".")
            key = tuple(int(row[name]) if row[name] else None for name in ("input_length", "output_length"))
            if sample == "litellm_jsonl":
                # It writes 0 where a request failed; here that is "not known".
                key = tuple(length or None for length in key)
            groups[key[0], key[1]].append(int(seconds) * 10**9 + int(fraction.ljust(9, "0")))
    return {key: sorted(moments) for key, moments in groups.items()}


def _truth(sample: str) -> list[dict[str, str]]:
    with (LOGS / sample / "truth.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _got(recording: Recording, sample: str) -> dict[tuple[int | None, int | None], list[int]]:
    table = recording.trace.table
    origin = recording.trace.metadata.origin_unix_ns
    assert origin is not None
    groups: dict[tuple[int | None, int | None], list[int]] = defaultdict(list)
    columns = [table.column(name).to_pylist() for name in ("arrival_ns", *CASES[sample][2:])]
    for arrival_ns, num_in, num_out in zip(*columns, strict=True):
        groups[num_in, num_out].append(origin + arrival_ns)
    return {key: sorted(moments) for key, moments in groups.items()}


def test_every_sample_is_judged() -> None:
    assert set(CASES) == {folder.name for folder in LOGS.iterdir() if folder.is_dir()}


@pytest.mark.parametrize("sample", CASES)
def test_recorded_requests_and_counts_of_lines_equal_the_truth(sample: str) -> None:
    recording, manifest = _record(sample)
    expected, got = _expected(sample), _got(recording, sample)
    assert got.keys() == expected.keys()
    resolution_ns = round((manifest["arrival_resolution_s"] or 1) * 1e9)
    slack_ns = 2000 if sample in FLOATS else 0
    for lengths, moments in expected.items():
        assert len(got[lengths]) == len(moments)
        for wanted, found in zip(moments, got[lengths], strict=True):
            assert _is_met(manifest["arrival_rule"], resolution_ns, wanted, found, slack_ns)
    fidelity, counts = recording.fidelity, manifest["counts"]
    assert (fidelity.num_requests, fidelity.num_other, fidelity.num_malformed) == (
        counts["request"],
        counts["other"],
        counts["malformed"],
    )


@pytest.mark.parametrize("sample", ["nginx_combined", "haproxy_httplog", "tgi_json"])
def test_a_log_without_input_lengths_says_so(sample: str) -> None:
    recording, _ = _record(sample)
    assert any(text.startswith("no input lengths") for text in recording.fidelity.warnings)
    assert recording.fidelity.verdict.startswith("arrivals only")
    assert not recording.trace.has_input_lengths


def test_tokens_of_tgi_are_got_back_from_its_times() -> None:
    recording, _ = _record("tgi_json")
    true: dict[int, set[int]] = defaultdict(set)
    for row in _truth("tgi_json"):
        for micros in range(int(row["arrival_ns"]) // 1000 - 1, int(row["arrival_ns"]) // 1000 + 2):
            true[micros].add(int(row["out_tok"]))
    table = recording.trace.table
    origin = recording.trace.metadata.origin_unix_ns
    assert origin is not None
    for arrival_ns, tokens in zip(
        table.column("arrival_ns").to_pylist(), table.column("output_tokens").to_pylist(), strict=True
    ):
        assert tokens in true[(origin + arrival_ns) // 1000]


def test_completion_times_are_no_arrivals_unless_that_is_accepted() -> None:
    with pytest.raises(RecordError, match="arrivals cannot be had"):
        record_logs([LOGS / "nginx_combined" / "access.log"], "nginx", RecordSettings())


def test_haproxy_lines_are_read_behind_the_prefix_of_syslog_as_well() -> None:
    path = LOGS / "haproxy_httplog" / "haproxy.log"
    settings = RecordSettings(zone="America/New_York", wrapper="none")
    fidelity = record_logs([path], "haproxy", settings).fidelity
    assert (fidelity.num_requests, fidelity.num_other, fidelity.num_malformed) == (60, 2, 1)


@pytest.mark.parametrize(
    "sample", [sample for sample in CASES if not sample.startswith(("generic", "apache", "nginx_combined"))]
)
def test_format_is_recognised(sample: str) -> None:
    recording, _ = _record(sample, auto=True)
    assert recording.fidelity.format_name == CASES[sample][0]


def test_order_of_rotated_files_does_not_matter() -> None:
    assert (
        _record("nginx_timed")[0].trace.trace_id
        == _record("nginx_timed", newest_first=True)[0].trace.trace_id
    )


def test_the_servers_log_format_string_reads_the_same_requests() -> None:
    recording, manifest = _record("nginx_timed")
    settings = RecordSettings(path_prefixes=("/v1/chat",), log_format=manifest["log_format"])
    by_string = record_logs(
        [LOGS / "nginx_timed" / name for name in manifest["files_oldest_first"]], "nginx", settings
    )
    assert by_string.trace.trace_id == recording.trace.trace_id


def test_no_user_address_or_text_of_the_log_reaches_the_trace(tmp_path: Path) -> None:
    from loadgen.trace.parquet import write_trace

    for sample in CASES:
        recording, _ = _record(sample)
        write_trace(recording.trace, tmp_path / "trace.parquet")
        written = (tmp_path / "trace.parquet").read_bytes()
        dump = json.dumps(recording.trace.table.to_pylist()) + str(recording.trace.metadata)
        for secret in ("192.0.2.", "203.0.113.", "demo-client", "Gemüse", "harbor"):
            assert secret not in dump
            assert secret.encode() not in written


WRAPPED = ("docker_json", "kubernetes_cri", "journald_json", "cloudwatch_events", "loki_query")


@pytest.mark.parametrize(
    "sample",
    [
        sample
        for sample in CASES
        if sample not in WRAPPED and hasattr(FORMATS[CASES[sample][0]], "order_matters")
    ],
)
def test_a_format_that_goes_to_other_processes_reads_there_as_here(sample: str) -> None:
    """Copies of the format as it is after the first lines read the rest, each a part of its own."""
    recording, manifest = _record(sample)
    log_format = FORMATS[CASES[sample][0]](RecordSettings(**CASES[sample][1]))
    paths = [LOGS / sample / file for file in manifest["files_oldest_first"]]
    batches = list(LogSources(paths, lambda num_bytes: None).batches(Findings()))
    pieces = [piece for batch in batches for piece in _in_pieces(batch, 15)]
    findings = Findings()
    num_found = sum(found.num_rows for found in log_format.read(pieces[:1], findings))
    for piece in pieces[1:]:
        copy = pickle.loads(pickle.dumps(log_format))
        num_found += sum(found.num_rows for found in copy.read([piece], findings))
    fidelity = recording.fidelity
    assert num_found == fidelity.num_requests
    assert (findings.num_other, findings.num_malformed) == (fidelity.num_other, fidelity.num_malformed)


def _in_pieces(batch: LineBatch, num_lines: int) -> list[LineBatch]:
    lines = batch.data.splitlines(keepends=True)
    return [
        LineBatch(
            batch.source,
            batch.file_index,
            batch.first_line + start,
            b"".join(lines[start : start + num_lines]),
        )
        for start in range(0, len(lines), num_lines)
    ]
