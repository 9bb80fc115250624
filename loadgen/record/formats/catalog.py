"""Which log formats there are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from loadgen.errors import RecordError, UsageError
from loadgen.record.formats.alb import AlbFormat
from loadgen.record.formats.apache import ApacheFormat
from loadgen.record.formats.caddy import CaddyFormat
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

_COMMON_LOOK = re.compile(rb'\S+ \S+ .*?\[\d\d/[A-Z][a-z][a-z]/\d{4}:[^\]]+\] "')


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


def make_format(name: str, settings: RecordSettings, head: Sequence[bytes]) -> tuple[str, LogFormat]:
    """The format called `name`, or for "auto" the one that `head` looks like, with its name.

    Raises UsageError for a name that there is not, RecordError if no format is recognised.
    """
    if name == "auto":
        name = _recognised(head)
    if name not in FORMATS:
        raise UsageError(f"--format is {name!r}", hint=f"give auto, {', '.join(FORMATS)}")
    return name, FORMATS[name](settings)


def _recognised(head: Sequence[bytes]) -> str:
    for name, maker in FORMATS.items():
        if maker.looks_like(head):
            return name
    if any(_COMMON_LOOK.match(line) for line in head[:20]):
        raise RecordError(
            "the lines look like those of nginx and of Apache alike, whose stamps mean different moments",
            hint="say which it is: --format nginx (stamp = completion) or --format apache (stamp = arrival)",
        )
    raise RecordError(
        "the format of the log is not recognised",
        hint=f"say it with --format: {', '.join(FORMATS)}",
    )
