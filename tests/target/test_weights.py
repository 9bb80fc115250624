"""Weights from a file: the same model as from memory, and what is wrong with a file that does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loadgen_target.config import PRESETS, ConfigError, EngineConfig, PolicyConfig

if TYPE_CHECKING:
    from torch import Tensor


def checkpoint(seed: int = 3, vocabulary: int = 300) -> dict[str, Tensor]:
    """Tensors of the tiny preset by a Llama checkpoint's names; a larger vocabulary, and no head of its own."""
    import torch

    model = PRESETS["tiny"]
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        tensor: Tensor = torch.randn(*shape, generator=generator) * shape[-1] ** -0.5
        return tensor

    kv_dim = model.num_kv_heads * model.head_dim
    tensors = {
        "model.embed_tokens.weight": drawn(vocabulary, model.dim),
        "model.norm.weight": 1 + drawn(model.dim),
    }
    for index in range(model.num_layers):
        layer = f"model.layers.{index}"
        tensors |= {
            f"{layer}.input_layernorm.weight": 1 + drawn(model.dim),
            f"{layer}.self_attn.q_proj.weight": drawn(model.dim, model.dim),
            f"{layer}.self_attn.k_proj.weight": drawn(kv_dim, model.dim),
            f"{layer}.self_attn.v_proj.weight": drawn(kv_dim, model.dim),
            f"{layer}.self_attn.o_proj.weight": drawn(model.dim, model.dim),
            f"{layer}.post_attention_layernorm.weight": 1 + drawn(model.dim),
            f"{layer}.mlp.gate_proj.weight": drawn(model.ffn_dim, model.dim),
            f"{layer}.mlp.up_proj.weight": drawn(model.ffn_dim, model.dim),
            f"{layer}.mlp.down_proj.weight": drawn(model.dim, model.ffn_dim),
        }
    return tensors


def saved(folder: Path, tensors: dict[str, Tensor]) -> Path:
    from safetensors.torch import save_file

    path = folder / "model.safetensors"
    save_file(tensors, path)
    return path


def logits_of(path: Path) -> Tensor:
    import torch

    from loadgen_target.cache import SlotCache
    from loadgen_target.model import Decoder, Prompt
    from loadgen_target.weights import FileWeights

    model, device = PRESETS["tiny"], torch.device("cpu")
    decoder = Decoder(model, FileWeights(path), max_len=32, packs=False, device=device, dtype=torch.float32)
    with torch.inference_mode():
        return decoder.prefill([Prompt(b"Hello", 0, 0)], SlotCache(model, 1, 32, device, torch.float32))


def test_a_file_gives_the_model_that_its_tensors_are(tmp_path: Path) -> None:
    import torch
    import torch.nn.functional as F  # noqa: N812  # the name everyone knows it by

    tensors = checkpoint()
    model = PRESETS["tiny"]
    # The same model, written down a second time, a head at a time and in float64.
    x = {name: tensor.double() for name, tensor in tensors.items()}
    heads, kv_heads, size = model.num_heads, model.num_kv_heads, model.head_dim
    tokens = torch.tensor(list(b"Hello"))
    inverse = 10_000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    turn = torch.polar(torch.ones(5, size // 2).double(), torch.outer(torch.arange(5).double(), inverse))

    def rotated(part: Tensor) -> Tensor:
        pairs = torch.complex(part[:, : size // 2], part[:, size // 2 :]) * turn
        return torch.cat((pairs.real, pairs.imag), dim=-1)

    def normed(part: Tensor, weight: Tensor) -> Tensor:
        return part / (part.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight

    hidden = x["model.embed_tokens.weight"][tokens]
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    for index in range(model.num_layers):
        own = {
            name.split(f"layers.{index}.")[1]: part for name, part in x.items() if f"layers.{index}." in name
        }
        inner = normed(hidden, own["input_layernorm.weight"])
        q, k, v = (inner @ own[f"self_attn.{name}_proj.weight"].T for name in "qkv")
        said = []
        for head in range(heads):
            kv = head * kv_heads // heads
            head_q, head_k = rotated(q[:, head * size :][:, :size]), rotated(k[:, kv * size :][:, :size])
            scores = (head_q @ head_k.T / size**0.5).masked_fill(future, float("-inf"))
            said.append(scores.softmax(-1) @ v[:, kv * size :][:, :size])
        hidden = hidden + torch.cat(said, dim=-1) @ own["self_attn.o_proj.weight"].T
        inner = normed(hidden, own["post_attention_layernorm.weight"])
        gate, up = (inner @ own[f"mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        hidden = hidden + (F.silu(gate) * up) @ own["mlp.down_proj.weight"].T
    wanted = normed(hidden, x["model.norm.weight"])[-1] @ x["model.embed_tokens.weight"][:259].T
    assert (logits_of(saved(tmp_path, tensors))[0].double() - wanted).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("model.embed_tokens.weight", (200, 64), "259 or more"),
        ("model.layers.1.mlp.up_proj.weight", (128, 32), "[128, 32]"),
        ("model.layers.0.self_attn.k_proj.weight", None, "k_proj"),
    ],
)
def test_a_file_that_does_not_fit_is_told_by_the_tensor(
    tmp_path: Path, name: str, shape: tuple[int, ...] | None, said: str
) -> None:
    import torch

    tensors = checkpoint()
    del tensors[name]
    if shape is not None:
        tensors[name] = torch.zeros(shape)
    with pytest.raises(ConfigError) as raised:
        logits_of(saved(tmp_path, tensors))
    assert name in raised.value.message and said in raised.value.message and raised.value.hint


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"not tensors")
    with pytest.raises(ConfigError, match="cannot be read"):
        logits_of(path)
    with pytest.raises(ConfigError, match="no such file"):
        EngineConfig(PolicyConfig(), preset="tiny", weights=tmp_path / "none")
