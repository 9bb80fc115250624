"""nginx access logs in text, with a duration: arrival = $msec - $request_time.

All time variables of nginx are taken when the line is written, which is at completion
(nginx.org/en/docs/http/ngx_http_log_module.html). $request_time runs from the first byte read to then, in ms.
$request_length is request line, headers and body; $bytes_sent is headers and body. A line of the predefined
format "combined" has no duration, so its arrival cannot be had.

Without --log-format, fields are found by the names people give them behind the combined part:
rt=, request_time= · msec= · rl=, request_length= · bs=, bytes_sent=. That of Kubernetes' ingress-nginx is known,
too (kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/log-format).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from loadgen.errors import RecordError
from loadgen.record.access_lines import read_access_lines
from loadgen.record.decimal_columns import counts, nanoseconds
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.formats.nginx_pattern import NginxPattern, compile_log_format
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.request_filter import RequestFilter
from loadgen.record.settings import RecordSettings
from loadgen.record.value_columns import Faults

_COMBINED = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
    '"$http_referer" "$http_user_agent"'
)
_TAIL = re.compile(
    rb'^\S+ - .*?\[[^\]\n]{1,40}\] "(?:[^"\\\n]|\\.)*" \d{3} (?:\d+|-) '
    rb'"(?:[^"\\\n]|\\.)*" "(?:[^"\\\n]|\\.)*"(?P<tail>.*)$'
)
_TOKEN = re.compile(r'(\w+)=("?)([^ "]*(?:, [^ "]*)*)\2|[^\s"]+')
_INGRESS = re.compile(rb" (?:\d+|-) \d+\.\d{3} \[[^\]]*\] \[[^\]]*\] ")
_INGRESS_TAIL = (
    " $request_length $request_time [$upstream_name] [$upstream_alternative] $upstream_addr "
    "$upstream_response_length $upstream_response_time $upstream_status $req_id"
)
_ALIASES = {
    "rt": "request_time",
    "request_time": "request_time",
    "msec": "msec",
    "rl": "request_length",
    "request_length": "request_length",
    "bs": "bytes_sent",
    "bytes_sent": "bytes_sent",
}
_LENGTHS = {
    "input_bytes": ("request_length", "content_length"),
    "output_bytes": ("bytes_sent", "body_bytes_sent"),
    "status": ("status",),
}
_HINT = (
    "log the duration: append ' rt=$request_time msec=$msec rl=$request_length bs=$bytes_sent' to log_format, "
    "or give --log-format if it is there under another name"
)


class NginxFormat:
    """nginx access log lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._settings = settings
        self._filter = RequestFilter(settings.path_prefixes)
        self._pattern = compile_log_format(settings.log_format) if settings.log_format else None
        self._seeks_pattern = False
        self._has_msec = True
        self._has_duration = True

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        tails = [found["tail"] for line in head[:50] if (found := _TAIL.match(line))]
        return any(b"rt=" in tail or b"request_time=" in tail or _INGRESS.match(tail) for tail in tails)

    @property
    def order_matters(self) -> bool:
        """Where the lines read so far have told no pattern."""
        return self._seeks_pattern

    def stamp_facts(self) -> StampFacts:
        stamp = "$msec" if self._has_msec else "the time of the line (1 s)"
        duration = " - $request_time" if self._has_duration else ", which is the completion"
        return StampFacts(
            marks="completion",
            arrival_from=stamp + duration,
            resolution_ns=10**6 if self._has_msec else 10**9,
        )

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        findings.assume(self._filter.description)
        for batch in batches:
            pattern = self._pattern or self._pattern_of(batch)
            self._seeks_pattern = pattern is None
            if pattern is None:
                self._malformed_all(batch, findings)
                continue
            if self._pattern is None:
                self._pattern = pattern
                self._check(pattern, batch.source, findings)
            elif self._settings.log_format and batch.is_first and batch.file_index == 0:
                self._check(pattern, batch.source, findings)
            yield self._read_batch(batch, pattern, findings)

    def _check(self, pattern: NginxPattern, source: str, findings: Findings) -> None:
        """Refuse a kind of line from which the arrival cannot be had."""
        self._has_msec = pattern.has("msec")
        self._has_duration = pattern.has("request_time")
        if not self._has_msec and not (pattern.has("time_local") or pattern.has("time_iso8601")):
            raise RecordError(
                f"{source}: the lines have no time ($msec, $time_local, $time_iso8601)", hint=_HINT
            )
        if not self._has_duration:
            if not self._settings.accept_completion_times:
                raise RecordError(
                    f"{source}: the lines have no duration ($request_time), and their time is the completion: "
                    "arrivals cannot be had",
                    hint=_HINT + "; --accept-completion-times takes these lines for what they are worth",
                )
            findings.warn("arrivals are completion times: no duration is logged, so bursts are smeared")
        if not self._has_msec:
            findings.warn("no $msec in the lines: arrivals have a resolution of 1 s, so bursts are lost")

    def _pattern_of(self, batch: LineBatch) -> NginxPattern | None:
        """The pattern of the first line that is an access log line at all."""
        for line in batch.lines():
            found = _TAIL.match(line)
            if found is not None:
                if _INGRESS.match(found["tail"]):
                    return compile_log_format(_COMBINED + _INGRESS_TAIL)
                return compile_log_format(
                    _COMBINED + _format_of_tail(found["tail"].decode("utf-8", "replace"))
                )
        return None

    def _read_batch(self, batch: LineBatch, pattern: NginxPattern, findings: Findings) -> RequestBatch:
        lines = read_access_lines(batch, pattern, self._filter, findings)
        columns = lines.values
        values: dict[str, object] = {"endpoint": lines.endpoints}
        faults: Faults = {}
        try:
            if self._has_msec:
                arrival_ns = nanoseconds(columns["msec"], 10**9)
            else:
                stamp = "time_iso8601" if pattern.has("time_iso8601") else "time_local"
                arrival_ns, faults = lines.moments_ns(stamp)
            if self._has_duration:
                duration_ns = nanoseconds(columns["request_time"], 10**9)
                arrival_ns = arrival_ns - duration_ns
                values["duration_ns"] = pa.array(duration_ns)
            for column, names in _LENGTHS.items():
                name = next((name for name in names if pattern.has(name)), None)
                if name is not None:
                    values[column] = counts(columns[name])
        except ValueError as exc:
            raise RecordError(
                f"{batch.source}: from line {batch.first_line} on: {exc}", hint="is --log-format right?"
            ) from exc
        findings.add_faults(batch, lines.numbers.tolist(), faults)
        return RequestBatch(arrival_ns, values).without(faults)

    def _malformed_all(self, batch: LineBatch, findings: Findings) -> None:
        for row, line in enumerate(batch.lines()):
            findings.add_malformed(batch.source, batch.first_line + row, "not an nginx access log line", line)


def _format_of_tail(tail: str) -> str:
    """The log_format of what stands behind the combined part: known keys by name, all else of any value."""

    def variable(found: re.Match[str]) -> str:
        if found[1] is None:
            return "$upstream_other"
        return f"{found[1]}={found[2]}${_ALIASES.get(found[1], 'upstream_other')}{found[2]}"

    return _TOKEN.sub(variable, tail)
