"""A line of SGLang's request log, text or JSON -> which requests arrived with it, or which one finished.

Source: sglang/srt/utils/request_logger.py and log_utils.py. A batch of prompts is received as one object with a
list of rids, each of which finishes by itself. Texts are skipped whole, since they may hold `rid=`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from loadgen.record.fields import count_or_none, duration_ns_or_none
from loadgen.record.formats.source_prefix import SOURCE_PREFIX

# The rid stands first, or behind the text in older versions.
_TEXT = re.compile(
    rb"%s\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[^\]]*\] (Receive|Finish): obj=\w+\("
    rb"(?:(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^'\"])*?[ ,])??rid=('[^']+'|\['[^\]]+'\])"
    rb"(?:.*?\bstream=(True|False))?" % SOURCE_PREFIX
)
_JSON = re.compile(rb'%s(\{.*"request\.(?:received|finished)".*\})\s*$' % SOURCE_PREFIX)
_EVENTS = ("request.received", "request.finished")
_RID = re.compile(r"'([^']+)'")
_PROMPT = re.compile(
    rb"\binput_ids=\[(?P<ids>[\d, ]+)\]|\btext=(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
)
_META = re.compile(rb"'(prompt_tokens|completion_tokens|e2e_latency)': ([\d.]+)")
# Level 2 keeps so many characters or ids, half from either end.
_HALF_KEPT = 1024
_CUT = "..."


@dataclass(frozen=True, slots=True)
class SglangEvent:
    """A request received or finished; lengths and duration where it is finished, the prompt where received.

    stamp: local time without a zone; whole seconds in text, us in JSON.
    """

    stamp: str
    is_finish: bool
    is_text: bool
    rids: tuple[str, ...]
    stream: bool | None = None
    prompt: str | list[int] | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    duration_ns: int | None = None


def event_of(line: bytes, *, with_prompt: bool = False) -> SglangEvent | None:
    """What a line tells; None if it is no line of the request log. Raises ValueError if it is a damaged one."""
    found = _TEXT.match(line)
    if found is not None:
        stamp, kind, rid, stream = found.groups()
        is_finish = kind == b"Finish"
        rids = tuple(_RID.findall(rid.decode("utf-8", "replace")))
        meta = _META.findall(line[line.rfind(b"'meta_info'") :]) if is_finish else []
        return SglangEvent(
            stamp.decode(),
            is_finish,
            True,
            rids,
            None if stream is None else stream == b"True",
            _prompt_of_text(line) if with_prompt and not is_finish and len(rids) == 1 else None,
            *_lengths({name.decode(): value.decode() for name, value in meta}),
        )
    found = _JSON.match(line)
    return None if found is None else _of_document(_document(found[1]), with_prompt=with_prompt)


def _of_document(document: Any, *, with_prompt: bool) -> SglangEvent | None:
    if not isinstance(document, dict) or document.get("event") not in _EVENTS:
        return None
    rid, asked, out = document.get("rid"), _dict(document.get("obj")), _dict(document.get("out"))
    rids = tuple(one for one in (rid if isinstance(rid, list) else [rid]) if isinstance(one, str))
    if not rids:
        raise ValueError("the rid is missing")
    stream = asked.get("stream")
    is_finish = document["event"] == "request.finished"
    return SglangEvent(
        str(document.get("timestamp")),
        is_finish,
        False,
        rids,
        stream if isinstance(stream, bool) else None,
        _prompt_of(asked) if with_prompt and not is_finish and len(rids) == 1 else None,
        *_lengths(_dict(out.get("meta_info"))),
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _lengths(meta: Mapping[str, object]) -> tuple[int | None, int | None, int | None]:
    """Tokens in, tokens out, duration in ns. Raises ValueError."""
    return (
        count_or_none(meta.get("prompt_tokens")),
        count_or_none(meta.get("completion_tokens")),
        duration_ns_or_none(meta.get("e2e_latency"), 10**9),
    )


def _document(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        # Python writes NaN and Infinity, which are no JSON.
        try:
            return json.loads(text.decode("utf-8", "replace"))
        except RecursionError as exc:
            raise ValueError("too deeply nested") from exc


def _prompt_of_text(line: bytes) -> str | list[int] | None:
    """The prompt's ids, or its text as Python shows it; None at levels that hide them."""
    found = _PROMPT.search(line)
    if found is None:
        return None
    if found["ids"] is not None:
        return [int(token) for token in found["ids"].split(b",") if token.strip()]
    return found["text"].decode("utf-8", "replace")


def _prompt_of(asked: Mapping[str, Any]) -> str | list[int] | None:
    """The prompt's ids or its text, up to where it was cut; None where there is none, or several."""
    ids, text = asked.get("input_ids"), asked.get("text")
    if isinstance(ids, list) and ids:
        kept = ids[: ids.index(_CUT)] if _CUT in ids else ids
        return kept if all(isinstance(one, int) for one in kept) else None
    if not isinstance(text, str):
        return None
    is_cut = len(text) == 2 * _HALF_KEPT + len(_CUT) and text[_HALF_KEPT:].startswith(_CUT)
    return text[:_HALF_KEPT] if is_cut else text
