"""A comparison as Markdown, for a comment under a merge request."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.compare import words
from loadgen.compare.comparison import CellResult, Comparison


def as_markdown(comparison: Comparison) -> str:
    """The answer, the deciding figures, what else differs, and how it was found."""
    lines = [f"### loadgen: {_escaped(words.headline(comparison))}", ""]
    lines += [f"{words.design(comparison)}; {words.method(comparison)}.", ""]
    lines += [f"- evidence weak: {_escaped(reason)}" for reason in comparison.weak]
    lines += [f"- gate {_escaped(words.gate_words(one))}" for one in comparison.gates]
    if (text := words.more(comparison)) is not None:
        lines.append(f"- {text}")
    if (text := words.changed(comparison)) is not None:
        lines.append(f"- changed: {_escaped(text)}")
    lines += [f"- {_escaped(line)}" for line in words.failures(comparison)]
    lines += [
        f"- not compared: {one.field}, which the sides define differently" for one in comparison.refused
    ]
    lines += [f"- note: {_escaped(note)}" for note in comparison.notes]
    lines += ["", *_table(comparison.deciding)]
    if others := words.beyond_deciding(comparison):
        lines += ["", "Other figures and windows that differ:", "", *_table(others)]
    return "\n".join(lines) + "\n"


def _table(results: Sequence[CellResult]) -> list[str]:
    head = ["| figure | base | candidate | change | interval | verdict |", "|---|---:|---:|---:|---:|---|"]
    return head + [
        "| " + " | ".join(_escaped(cell) for cell in words.row(result)) + " |" for result in results
    ]


def _escaped(text: str) -> str:
    """Text of targets and traces cannot become markup."""
    for character in "\\`*_{}[]<>|#":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())
