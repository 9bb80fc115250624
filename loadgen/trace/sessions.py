"""Session ids of a source -> dense numbers that tell nothing about them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt


def dense_sessions(ids: Sequence[Hashable | None], moments_ns: npt.NDArray[np.int64]) -> list[int | None]:
    """A number for each row: 0 for the session that came first, 1 for the next; None and "" stay None.

    The ids themselves go nowhere; equal numbers mean equal ids within this trace only.
    """
    numbers: dict[Hashable, int] = {}
    dense: list[int | None] = [None] * len(ids)
    for row in np.argsort(moments_ns, kind="stable").tolist():
        key = ids[row]
        if key is None or key == "":
            continue
        dense[row] = numbers.setdefault(key, len(numbers))
    return dense
