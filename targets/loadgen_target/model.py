"""Decoder: a pre-norm transformer with rotary positions, grouped-query attention and SwiGLU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F  # noqa: N812  # the name everyone knows it by
from torch import Tensor

from loadgen_target.cache import SlotCache
from loadgen_target.config import VOCAB_SIZE, ModelConfig
from loadgen_target.linear import Linear
from loadgen_target.weights import FINAL_NORM, HEAD, Weights

_ROPE_BASE = 10_000.0
_NORM_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class _Layer:
    norm: Tensor
    qkv: Linear  # [dim + 2 * kv_heads * head_dim, dim]
    out: Linear
    ffn_norm: Tensor
    gate_up: Linear  # [2 * ffn_dim, dim]
    down: Linear


class Prompt(NamedTuple):
    """A part of a prompt to read: its tokens, the position of the first of them, and the slot they go to."""

    tokens: Sequence[int]
    start: int
    slot: int


class Decoder:
    """The model; one object holds the weights, and each call is one forward pass.

    packs: use packed CPU weights; see Linear. Same weights and shape, same tokens, packed or not.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        *,
        max_len: int,
        packs: bool,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.config = config
        self.device = device
        self.num_weight_bytes = 0

        def here(tensor: Tensor) -> Tensor:
            return tensor.to(device=device, dtype=dtype)

        def linear(names: Sequence[str], rows: Sequence[int], columns: int) -> Linear:
            matrix = here(weights.matrix(names, rows, columns))
            self.num_weight_bytes += matrix.nbytes
            return Linear(matrix, packs=packs)

        dim, ffn_dim, kv_dim = config.dim, config.ffn_dim, config.num_kv_heads * config.head_dim
        self._embedding: Tensor = here(weights.embedding(dim))
        self._layers = []
        for index in range(config.num_layers):
            attention, mlp = f"model.layers.{index}.self_attn", f"model.layers.{index}.mlp"
            layer = _Layer(
                norm=here(weights.norm(f"model.layers.{index}.input_layernorm.weight", dim)),
                qkv=linear([f"{attention}.{part}_proj.weight" for part in "qkv"], [dim, kv_dim, kv_dim], dim),
                out=linear([f"{attention}.o_proj.weight"], [dim], dim),
                ffn_norm=here(weights.norm(f"model.layers.{index}.post_attention_layernorm.weight", dim)),
                gate_up=linear([f"{mlp}.{part}_proj.weight" for part in ("gate", "up")], [ffn_dim] * 2, dim),
                down=linear([f"{mlp}.down_proj.weight"], [dim], ffn_dim),
            )
            self._layers.append(layer)
        self._norm = here(weights.norm(FINAL_NORM, dim))
        self._head = linear([HEAD], [VOCAB_SIZE], dim)
        self._cos, self._sin = _rotations(config.head_dim, max_len, device, dtype)

    def prefill(self, prompts: Sequence[Prompt], cache: SlotCache) -> Tensor:
        """Read prompts, or parts of them, into their slots; logits after each one's last token."""
        return self.mixed((), (), 0, prompts, cache)

    def decode(
        self, tokens: Sequence[int], positions: Sequence[int], base_slot: int, cache: SlotCache
    ) -> Tensor:
        """One step of the rows in the slots from `base_slot` on; logits `[rows, vocab]`.

        positions: where each token stands; its keys and values are written there.
        """
        where = self._tensor(positions)
        return self.decode_step(self._tensor(tokens), where, max(positions) + 1, base_slot, cache)

    def decode_step(
        self, tokens: Tensor, where: Tensor, length: int, base_slot: int, cache: SlotCache
    ) -> Tensor:
        """`decode` of tensors on the device, reading `length` positions of each row and masking those behind it.

        Nothing in it depends on a value on the device, so that it can be captured as a CUDA graph.
        """
        attend = self._attend_rows(where, length, base_slot, cache)
        return self._logits(self._forward(tokens, where, attend))

    def mixed(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        base_slot: int,
        prompts: Sequence[Prompt],
        cache: SlotCache,
    ) -> Tensor:
        """One pass over rows that decode and parts of prompts; logits `[rows + prompts, vocab]`.

        All tokens are packed: matrices see them as rows, attention each prompt for itself. No row's slot is a
        prompt's.
        """
        num_rows = len(tokens)
        all_tokens = [*tokens, *(token for prompt in prompts for token in prompt.tokens)]
        where = self._tensor(
            [*positions, *(k for p in prompts for k in range(p.start, p.start + len(p.tokens)))]
        )
        ends = [num_rows + end for end in accumulate(len(prompt.tokens) for prompt in prompts)]
        rows = None
        if num_rows:
            rows = self._attend_rows(where[:num_rows], max(positions) + 1, base_slot, cache)

        def attend(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            attended = [] if rows is None else [rows(index, q[:num_rows], k[:num_rows], v[:num_rows])]
            for prompt, end in zip(prompts, ends, strict=True):
                part = slice(end - len(prompt.tokens), end)
                attended.append(self._attend_prompt(prompt, cache.layer(index), q[part], k[part], v[part]))
            return torch.cat(attended)

        hidden = self._forward(self._tensor(all_tokens), where, attend)
        return self._logits(hidden[self._tensor([*range(num_rows), *(end - 1 for end in ends)])])

    def _attend_rows(self, where: Tensor, length: int, base_slot: int, cache: SlotCache) -> _Attend:
        num_rows = len(where)
        rows = torch.arange(num_rows, device=self.device)
        share = self.config.num_heads // self.config.num_kv_heads
        mask = (torch.arange(length, device=self.device)[None] <= where[:, None])[:, None, None, :]
        slots = slice(base_slot, base_slot + num_rows)

        def attend(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = (x[slots] for x in cache.layer(index))
            keys[rows, :, where] = k
            values[rows, :, where] = v
            # The query heads that share a key head stand where a sequence would: no copy of keys is needed.
            grouped = q.reshape(num_rows, self.config.num_kv_heads, share, self.config.head_dim)
            own = F.scaled_dot_product_attention(
                grouped, keys[:, :, :length], values[:, :, :length], attn_mask=mask
            )
            return own.reshape(num_rows, -1)

        return attend

    def _attend_prompt(
        self, prompt: Prompt, cached: tuple[Tensor, Tensor], q: Tensor, k: Tensor, v: Tensor
    ) -> Tensor:
        length, end = len(prompt.tokens), prompt.start + len(prompt.tokens)
        # [length, heads, head_dim] to [heads, length, head_dim]
        own_q, own_k, own_v = (x.transpose(0, 1) for x in (q, k, v))
        keys, values = (x[prompt.slot] for x in cached)
        keys[:, prompt.start : end] = own_k
        values[:, prompt.start : end] = own_v
        mask = None
        if prompt.start:
            own_k, own_v = keys[:, :end], values[:, :end]
            mask = torch.ones(length, end, dtype=torch.bool, device=self.device).tril(prompt.start)
        share = self.config.num_heads // self.config.num_kv_heads
        wide_k, wide_v = (x.repeat_interleave(share, dim=0)[None] for x in (own_k, own_v))
        own = F.scaled_dot_product_attention(
            own_q[None], wide_k, wide_v, attn_mask=mask, is_causal=mask is None
        )
        return own[0].transpose(0, 1).reshape(length, -1)

    def _forward(self, tokens: Tensor, positions: Tensor, attend: _Attend) -> Tensor:
        config = self.config
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        hidden: Tensor = self._embedding[tokens]
        num_tokens = hidden.shape[0]
        kv_dim = config.num_kv_heads * config.head_dim
        for index, layer in enumerate(self._layers):
            q, k, v = (
                part.view(num_tokens, -1, config.head_dim)
                for part in torch.split(
                    layer.qkv(self._normed(hidden, layer.norm)), [config.dim, kv_dim, kv_dim], dim=-1
                )
            )
            attended = attend(index, _rotated(q, cos, sin), _rotated(k, cos, sin), v)
            hidden = hidden + layer.out(attended)
            gate, up = layer.gate_up(self._normed(hidden, layer.ffn_norm)).chunk(2, dim=-1)
            hidden = hidden + layer.down(F.silu(gate) * up)
        return hidden

    def _normed(self, hidden: Tensor, weight: Tensor) -> Tensor:
        normed: Tensor = F.rms_norm(hidden, (self.config.dim,), weight, _NORM_EPSILON)
        return normed

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self._head(self._normed(hidden, self._norm)).float()
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
