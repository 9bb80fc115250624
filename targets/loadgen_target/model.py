"""Decoder: a pre-norm transformer with rotary positions, grouped-query attention and SwiGLU, from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812  # the name everyone knows it by
from torch import Tensor

from loadgen_target.cache import SlotCache
from loadgen_target.config import VOCAB_SIZE, ModelConfig
from loadgen_target.linear import Linear

_ROPE_BASE = 10_000.0
_NORM_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class _Layer:
    qkv: Linear  # [dim + 2 * kv_heads * head_dim, dim]
    out: Linear
    gate_up: Linear  # [2 * ffn_dim, dim]
    down: Linear


class Decoder:
    """Weights are normal with variance 1 / fan-in: no training, yet all the arithmetic of a real model.

    packs: use packed CPU weights; see Linear. Same seed and shape, same weights, packed or not.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        max_len: int,
        seed: int,
        packs: bool,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.config = config
        self.device = device
        generator = torch.Generator().manual_seed(seed)

        def weight(rows: int, columns: int) -> Tensor:
            drawn: Tensor = torch.randn(rows, columns, generator=generator) * columns**-0.5
            return drawn.to(device=device, dtype=dtype)

        kv_dim = config.num_kv_heads * config.head_dim
        self._embedding: Tensor = weight(VOCAB_SIZE, config.dim) * config.dim**0.5
        self._layers = [
            _Layer(
                qkv=Linear(weight(config.dim + 2 * kv_dim, config.dim), packs=packs),
                out=Linear(weight(config.dim, config.dim), packs=packs),
                gate_up=Linear(weight(2 * config.ffn_dim, config.dim), packs=packs),
                down=Linear(weight(config.dim, config.ffn_dim), packs=packs),
            )
            for _ in range(config.num_layers)
        ]
        self._head = Linear(weight(VOCAB_SIZE, config.dim), packs=packs)
        self._norm = torch.ones(config.dim, device=device, dtype=dtype)
        self._cos, self._sin = _rotations(config.head_dim, max_len, device, dtype)

    def prefill(self, prompts: Sequence[Sequence[int]], slots: Sequence[int], cache: SlotCache) -> Tensor:
        """Read whole prompts into their slots; logits after each one's last token, `[prompts, vocab]`.

        The prompts are packed: matrices see all their tokens as rows, attention each prompt for itself.
        """
        lengths = [len(prompt) for prompt in prompts]
        tokens = self._tensor([token for prompt in prompts for token in prompt])
        positions = self._tensor([k for length in lengths for k in range(length)])
        ends = [sum(lengths[: k + 1]) for k in range(len(lengths))]

        def attend(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = cache.layer(index)
            attended = []
            for slot, end, length in zip(slots, ends, lengths, strict=True):
                part = slice(end - length, end)
                # [length, heads, head_dim] to [heads, length, head_dim]
                own_q, own_k, own_v = (x[part].transpose(0, 1) for x in (q, k, v))
                keys[slot, :, :length] = own_k
                values[slot, :, :length] = own_v
                share = self.config.num_heads // self.config.num_kv_heads
                wide_k, wide_v = (x.repeat_interleave(share, dim=0)[None] for x in (own_k, own_v))
                own = F.scaled_dot_product_attention(own_q[None], wide_k, wide_v, is_causal=True)
                attended.append(own[0].transpose(0, 1).reshape(length, -1))
            return torch.cat(attended)

        hidden = self._forward(tokens, positions, attend)
        return self._logits(hidden[self._tensor([end - 1 for end in ends])])

    def decode(
        self, tokens: Sequence[int], positions: Sequence[int], base_slot: int, cache: SlotCache
    ) -> Tensor:
        """One step of the rows in the slots from `base_slot` on; logits `[rows, vocab]`.

        positions: where each token stands; its keys and values are written there.
        """
        num_rows, length = len(tokens), max(positions) + 1
        where = self._tensor(positions)
        rows = torch.arange(num_rows, device=self.device)
        share = self.config.num_heads // self.config.num_kv_heads
        mask = (torch.arange(length, device=self.device)[None] <= where[:, None])[:, None, None, :]
        slots = slice(base_slot, base_slot + num_rows)

        def attend(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = (x[slots] for x in cache.layer(index))
            keys[rows, :, where] = k
            values[rows, :, where] = v
            # The query heads that share a key head stand where a sequence would: no copy of keys is needed.
            grouped = q.view(num_rows, self.config.num_kv_heads, share, self.config.head_dim)
            own = F.scaled_dot_product_attention(
                grouped, keys[:, :, :length], values[:, :, :length], attn_mask=mask
            )
            return own.reshape(num_rows, -1)

        return self._logits(self._forward(self._tensor(tokens), where, attend))

    def _forward(self, tokens: Tensor, positions: Tensor, attend: _Attend) -> Tensor:
        config = self.config
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        hidden: Tensor = self._embedding[tokens]
        num_tokens = hidden.shape[0]
        kv_dim = config.num_kv_heads * config.head_dim
        for index, layer in enumerate(self._layers):
            q, k, v = (
                part.view(num_tokens, -1, config.head_dim)
                for part in torch.split(layer.qkv(self._normed(hidden)), [config.dim, kv_dim, kv_dim], dim=-1)
            )
            attended = attend(index, _rotated(q, cos, sin), _rotated(k, cos, sin), v)
            hidden = hidden + layer.out(attended)
            gate, up = layer.gate_up(self._normed(hidden)).chunk(2, dim=-1)
            hidden = hidden + layer.down(F.silu(gate) * up)
        return hidden

    def _normed(self, hidden: Tensor) -> Tensor:
        normed: Tensor = F.rms_norm(hidden, (self.config.dim,), self._norm, _NORM_EPSILON)
        return normed

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self._head(self._normed(hidden)).float()
        return logits

    def _tensor(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, device=self.device, dtype=torch.long)


class _Attend(Protocol):
    """Attention of one layer over q `[tokens, heads, head_dim]` and its new keys and values."""

    def __call__(self, index: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor: ...


def _rotations(
    head_dim: int, max_len: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each position's angles, `[max_len, head_dim]`, the half repeated."""
    inverse = _ROPE_BASE ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.outer(torch.arange(max_len, dtype=torch.float64), inverse).repeat(1, 2)
    return angles.cos().to(device=device, dtype=dtype), angles.sin().to(device=device, dtype=dtype)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin
