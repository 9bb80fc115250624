"""Linear: y = x W^T, with weights packed once for the CPU's matrix kernels where torch can."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the name everyone knows it by
from torch import Tensor

# Rows the packed layout is made for. Plain sgemm packs the weights anew at each call, which makes a batch of
# 2 to 8 rows cost double and hides what batching gains; packed once, 1 to 8 rows cost the same.
_ROWS_HINT = 8


class Linear:
    """One weight matrix, `[out, in]`, without bias."""

    def __init__(self, weight: Tensor, *, packs: bool) -> None:
        self._packed = _pack(weight) if packs else None
        self._weight = None if packs else weight

    def __call__(self, x: Tensor) -> Tensor:
        """x `[rows, in]` to `[rows, out]`."""
        if self._packed is not None:
            result: Tensor = _ops()._linear_pointwise(x, self._packed, None, "none", [], "")
            return result
        assert self._weight is not None
        return F.linear(x, self._weight)


def can_pack() -> bool:
    """Whether the packed path exists in this torch and gives the right numbers.

    The operators are private to torch (its compiler uses them) and may change, so they are tried first.
    """
    try:
        generator = torch.Generator().manual_seed(0)
        weight, x = torch.randn(48, 32, generator=generator), torch.randn(3, 32, generator=generator)
        packed = Linear(weight, packs=True)(x)
        return bool(torch.allclose(packed, F.linear(x, weight), atol=1e-4))
    except (RuntimeError, AttributeError, TypeError):  # not for this CPU; gone; other arguments
        return False


def _pack(weight: Tensor) -> Tensor:
    packed: Tensor = _ops()._reorder_linear_weight(weight, _ROWS_HINT)
    return packed


def _ops() -> Any:
    return torch.ops.mkldnn
