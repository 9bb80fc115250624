"""Lines behind a stamp: `2026-10-25T00:59:59.704Z inner`.

CloudWatch exports to S3 like this, `docker logs --timestamps` and `kubectl logs --timestamps` print it. The time is
when the line was taken in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch
from loadgen.record.wrappers.wrapper import Unwrapped

_LINE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) (\S.*)", re.DOTALL)
_INNER_JSON = b"{"
_ENOUGH = 0.5


class StampedWrapper:
    """A stamp and a space before each line. Recognised where JSON stands behind most; else it has to be named."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        lines = [line for line in head[:20] if line.strip()]
        found = [match[2] for line in lines if (match := _LINE.match(line))]
        return len([inner for inner in found if inner.startswith(_INNER_JSON)]) > _ENOUGH * len(lines)

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        for batch in batches:
            inner = Unwrapped(batch)
            for index, line in enumerate(batch.lines()):
                found = _LINE.match(line)
                if found is None:
                    inner.pass_on(index, line, "no stamp before the line", findings)
                else:
                    inner.add(found[2], found[1].decode(), batch.number_of(index))
            yield inner.batch()
