"""The lines of a batch that match a regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch


def matched_lines(
    batch: LineBatch, pattern: re.Pattern[bytes], kind: str, findings: Findings
) -> Iterator[tuple[int, bytes, tuple[bytes, ...]]]:
    """(index, line, groups) of each line that begins with a match.

    The others are malformed, "not {kind}"; in a wrapper, which carries lines of any kind, they are other.
    """
    for index, line in enumerate(batch.lines()):
        found = pattern.match(line)
        if found is not None:
            yield index, line, found.groups()
        elif batch.is_unwrapped:
            findings.num_other += 1
        else:
            reason = f"not {kind}" if line else "an empty line"
            findings.add_malformed(batch.source, batch.number_of(index), reason, line)
