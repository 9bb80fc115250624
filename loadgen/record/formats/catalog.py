"""Which log formats there are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from loadgen.errors import RecordError, UsageError
from loadgen.record.formats.alb import AlbFormat
from loadgen.record.formats.apache import ApacheFormat
from loadgen.record.formats.caddy import CaddyFormat
from loadgen.record.formats.cloudfront import CloudfrontFormat
from loadgen.record.formats.csv import CsvFormat
from loadgen.record.formats.envoy import EnvoyFormat
from loadgen.record.formats.haproxy import HaproxyFormat
from loadgen.record.formats.helicone import HeliconeFormat
from loadgen.record.formats.helicone_manual import HeliconeManualFormat
from loadgen.record.formats.istio import IstioFormat
from loadgen.record.formats.jsonl import JsonlFormat
from loadgen.record.formats.langfuse import LangfuseFormat
from loadgen.record.formats.litellm import LitellmFormat
from loadgen.record.formats.log_format import LogFormat
from loadgen.record.formats.logfmt import LogfmtFormat
from loadgen.record.formats.nginx import NginxFormat
from loadgen.record.formats.nginx_json import NginxJsonFormat
from loadgen.record.formats.openai_pairs import OpenaiPairsFormat
from loadgen.record.formats.otlp import OtlpFormat
from loadgen.record.formats.parquet import ParquetFormat
from loadgen.record.formats.sglang import SglangFormat
from loadgen.record.formats.tgi import TgiFormat
from loadgen.record.formats.traefik import TraefikFormat
from loadgen.record.formats.traefik_clf import TraefikClfFormat
from loadgen.record.formats.triton import TritonFormat
from loadgen.record.formats.vllm import VllmFormat
from loadgen.record.settings import RecordSettings

_COMMON_LOOK = re.compile(rb'\S+ \S+ .*?\[\d\d/[A-Z][a-z][a-z]/\d{4}:[^\]]{1,40}\] "')

_UVICORN_LOOK = re.compile(rb'INFO: +\S+:\d+ - "[A-Z]+ ')
_LONGEST_HINT = 300


class _Maker(Protocol):
    """A class of LogFormat."""

    def __call__(self, settings: RecordSettings) -> LogFormat:
        """A reader for one recording."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        """Whether these first lines are of this format."""


# In the order in which `auto` tries them: the more particular first.
FORMATS: Mapping[str, _Maker] = {
    "parquet": ParquetFormat,
    "traefik-clf": TraefikClfFormat,
    "nginx": NginxFormat,
    "nginx-json": NginxJsonFormat,
    "apache": ApacheFormat,
    "envoy": EnvoyFormat,
    "alb": AlbFormat,
    "cloudfront": CloudfrontFormat,
    "haproxy": HaproxyFormat,
    "istio": IstioFormat,
    "caddy": CaddyFormat,
    "traefik": TraefikFormat,
    "otlp": OtlpFormat,
    "tgi": TgiFormat,
    "triton": TritonFormat,
    "litellm": LitellmFormat,
    "helicone": HeliconeFormat,
    "helicone-manual": HeliconeManualFormat,
    "langfuse": LangfuseFormat,
    "openai-pairs": OpenaiPairsFormat,
    "vllm": VllmFormat,
    "sglang": SglangFormat,
    "jsonl": JsonlFormat,
    "logfmt": LogfmtFormat,
    "csv": CsvFormat,
}

# Those whose fields the user names, and those whose lines the user may tell as the server does.
NAMED_FIELDS = ("parquet", "jsonl", "logfmt", "csv", "openai-pairs")
_TOLD_LINES = ("nginx", "apache")


def make_format(name: str, settings: RecordSettings, head: Sequence[bytes]) -> tuple[str, LogFormat]:
    """The format called `name`, or for "auto" the one that `head` looks like, with its name.

    Raises UsageError for a name that there is not, RecordError if no format is recognised.
    """
    if name == "auto":
        name = _recognised(head)
    if name not in FORMATS:
        raise UsageError(f"--format is {name!r}", hint=f"give auto, {', '.join(FORMATS)}")
    maker = FORMATS[name]
    if settings.time_field is None and name in NAMED_FIELDS and name != "openai-pairs":
        raise RecordError(
            f"read as {name}: which field holds the time?",
            hint=f"give --time FIELD{fields_there(name, head)}",
        )
    log_format = maker(settings)
    _refuse_unread(name, log_format, settings)
    return name, log_format


def fields_there(name: str, head: Sequence[bytes]) -> str:
    """Which fields the first lines have, as the end of a hint; nothing where that is not known."""
    fields_of = getattr(FORMATS[name], "fields_of", None)
    found = fields_of(head) if fields_of is not None else ()
    return f"; the lines have {', '.join(found)}"[:_LONGEST_HINT] if found else ""


def _refuse_unread(name: str, log_format: LogFormat, settings: RecordSettings) -> None:
    """Raise UsageError for an option that would be passed over silently."""
    if settings.path_prefixes and getattr(log_format, "needs", None) is not None:
        raise UsageError(
            f"--path: lines of {name} hold no paths", hint="leave it out, or give another --format"
        )
    if settings.log_format and name not in _TOLD_LINES:
        raise UsageError(
            f"--log-format is for nginx and apache, and the format is {name}", hint="say --format"
        )
    if settings.field_options and name not in NAMED_FIELDS:
        raise UsageError(
            f"{settings.field_options[0]}: the fields of {name} are known and cannot be named",
            hint=f"leave it out, or give one of {', '.join(NAMED_FIELDS)} as --format",
        )


def _recognised(head: Sequence[bytes]) -> str:
    for name, maker in FORMATS.items():
        if maker.looks_like(head):
            return name
    if any(_COMMON_LOOK.match(line) for line in head[:20]):
        raise RecordError(
            "the lines look like those of nginx and of Apache alike, whose stamps mean different moments",
            hint="say which it is: --format nginx (stamp = completion) or --format apache (stamp = arrival)",
        )
    if any(_UVICORN_LOOK.search(line) for line in head[:200]):
        raise RecordError(
            "access lines of uvicorn carry no time, no length and no duration",
            hint="log requests in the server (vLLM --enable-log-requests, SGLang --log-requests) or at a proxy",
        )
    raise RecordError(
        "the format of the log is not recognised",
        hint=f"say it with --format: {', '.join(FORMATS)}",
    )
