"""JSON documents of arrays -> their elements one by one, each with its exact text, however long the document is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch

_DECODER = json.JSONDecoder()
_GAP = re.compile(r"[\s,]*")
_TOP_LEVEL = re.compile(r"\s*,?\s*\[")
_NEXT_OBJECT = re.compile(r"\}\s*,\s*(?=\{)")
# An error so near the end of what was read may be cured by what follows; a long number, a keyword, an escape.
_NEAR_END = 16


@dataclass(frozen=True, slots=True)
class Element:
    """One element: its value, its text as it stands in the document, and the line at which it begins."""

    value: Any
    text: bytes
    line: int


def elements(
    batches: Iterable[LineBatch], keys: Sequence[str], findings: Findings
) -> Iterator[tuple[LineBatch, list[Element]]]:
    """The elements of all arrays under one of `keys`, and of arrays at the top ("" among the keys), by batch.

    Elements that are no JSON, documents that are cut and files without such an array count as malformed.
    """
    following = iter(batches)
    batch = next(following, None)
    reader = _Reader(keys)
    while batch is not None:
        after = next(following, None)
        is_last = after is None or after.file_index != batch.file_index
        reader.feed(batch.data)
        found = list(reader.elements(findings, batch.source, is_last=is_last))
        if is_last:
            reader.conclude(findings, batch.source)
            reader = _Reader(keys)
        yield batch, found
        batch = after


class _Reader:
    """Reads one file: `feed` what comes, take the elements that are whole so far."""

    def __init__(self, keys: Sequence[str]) -> None:
        names = "|".join(re.escape(key) for key in keys if key)
        self._start = re.compile(rf'"(?:{names})"\s*:\s*\[') if names else None
        self._takes_top_level = "" in keys
        self._text = ""
        self._at = 0
        self._line = 1
        self._is_within = False
        self._num_arrays = 0

    def feed(self, data: bytes) -> None:
        # Whole lines: no character is cut. What is no UTF-8 is kept as it is.
        self._text = self._text[self._at :] + data.decode("utf-8", "surrogateescape")
        self._at = 0

    def elements(self, findings: Findings, source: str, *, is_last: bool) -> Iterator[Element]:
        while self._is_within or self._enter():
            self._go_to(_GAP.match(self._text, self._at).end())  # type: ignore[union-attr]  # matches anywhere
            if self._at >= len(self._text):
                return
            if self._text[self._at] == "]":
                self._go_to(self._at + 1)
                self._is_within = False
                continue
            start, line = self._at, self._line
            try:
                value, end = _DECODER.raw_decode(self._text, start)
            except (ValueError, RecursionError) as error:
                following = None if self._is_cut(error) else _NEXT_OBJECT.search(self._text, start)
                if following is None and not is_last:
                    return
                findings.add_malformed(source, line, "an element that is no JSON", self._shown(start))
                self._go_to(following.end() if following else len(self._text))
                self._is_within = following is not None
                continue
            self._go_to(end)
            text = self._text[start:end].encode("utf-8", "surrogateescape")
            yield Element(value, text, line)

    def conclude(self, findings: Findings, source: str) -> None:
        """Tell of a document that holds no array, or ends within one."""
        if not self._num_arrays:
            findings.add_malformed(source, 1, "no JSON document of the expected kind", self._shown(0))
        elif self._is_within:
            findings.add_malformed(source, self._line, "the document is cut short", b"")

    def _enter(self) -> bool:
        """Go into the next array, if it has begun in what was read."""
        found = _TOP_LEVEL.match(self._text, self._at) if self._takes_top_level else None
        if found is None and self._start is not None:
            found = self._start.search(self._text, self._at)
        if found is None:
            return False
        self._go_to(found.end())
        self._is_within = True
        self._num_arrays += 1
        return True

    def _is_cut(self, error: Exception) -> bool:
        """Whether an element is no JSON only because its end was not read."""
        if not isinstance(error, json.JSONDecodeError):
            return False
        behind = self._text[error.pos :]
        return error.msg.startswith("Unterminated string") or (len(behind) < _NEAR_END and "}" not in behind)

    def _go_to(self, place: int) -> None:
        self._line += self._text.count("\n", self._at, place)
        self._at = place

    def _shown(self, start: int) -> bytes:
        return self._text[start : start + 200].encode("utf-8", "surrogateescape")
