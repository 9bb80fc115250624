"""SlotCache: keys and values of every request in execution, one slot each."""

from __future__ import annotations

import torch
from torch import Tensor

from loadgen_target.config import ModelConfig


class SlotCache:
    """Keys and values, each `[layers, slots, kv_heads, max_len, head_dim]`.

    A batch holds neighbouring slots, so that a decode step reads views and gathers nothing. Memory is taken
    for the longest request in every slot: fine for small models, too much for long contexts.
    """

    def __init__(
        self, model: ModelConfig, num_slots: int, max_len: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        shape = (model.num_layers, num_slots, model.num_kv_heads, max_len, model.head_dim)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)

    @property
    def num_slots(self) -> int:
        return self.keys.shape[1]

    @property
    def token_bytes(self) -> int:
        """Bytes of one position: its keys and values in all layers."""
        layers, _, kv_heads, _, head_dim = self.keys.shape
        return 2 * layers * kv_heads * head_dim * self.keys.element_size()

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of slot `source` to slot `target`."""
        self.keys[:, target, :, :length] = self.keys[:, source, :, :length]
        self.values[:, target, :, :length] = self.values[:, source, :, :length]

    def fill(self, value: float) -> None:
        """Overwrite everything; with a large finite value, a read of a position nobody wrote changes tokens."""
        self.keys.fill_(value)
        self.values.fill_(value)

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """Keys and values of one layer, `[slots, kv_heads, max_len, head_dim]`, as views."""
        return self.keys[index], self.values[index]
