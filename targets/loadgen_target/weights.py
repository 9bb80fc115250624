"""Weights: where a decoder's matrices come from: a seed, or a safetensors file on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from loadgen_target.config import VOCAB_SIZE, ConfigError

EMBEDDING, HEAD, FINAL_NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"


class Weights(Protocol):
    """Gives float32 tensors on the CPU, by the names that Llama checkpoints use."""

    def embedding(self, columns: int) -> Tensor:
        """`[vocabulary, columns]`."""
        ...

    def matrix(self, names: Sequence[str], rows: Sequence[int], columns: int) -> Tensor:
        """Matrices `[rows, columns]` one upon the other, read as one product."""
        ...

    def norm(self, name: str, columns: int) -> Tensor:
        """`[columns]`."""
        ...


class SeededWeights:
    """Normal with variance 1 / fan-in: no training, yet all the arithmetic of a real model."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def embedding(self, columns: int) -> Tensor:
        drawn: Tensor = self.matrix([EMBEDDING], [VOCAB_SIZE], columns) * columns**0.5
        return drawn

    def matrix(self, names: Sequence[str], rows: Sequence[int], columns: int) -> Tensor:
        drawn: Tensor = torch.randn(sum(rows), columns, generator=self._generator) * columns**-0.5
        return drawn

    def norm(self, name: str, columns: int) -> Tensor:
        return torch.ones(columns)


class FileWeights:
    """A safetensors file with a Llama checkpoint's names, whose shapes are the preset's.

    Of a larger vocabulary the first 259 rows are taken: tokens stay bytes, and only the last product is smaller
    than the model's own. Without a head of its own, the model has the embedding's. Raises ConfigError.
    """

    def __init__(self, path: Path) -> None:
        # Here, since nothing else needs the library.
        try:
            from safetensors import SafetensorError, safe_open  # noqa: PLC0415
        except ImportError:
            raise ConfigError(
                f"--weights {path} needs safetensors, which is not installed",
                hint="pip install 'loadgen[weights]'",
            ) from None
        self._path = path
        try:
            self._file: Any = safe_open(path, framework="pt")
        except (OSError, SafetensorError) as error:
            raise ConfigError(
                f"--weights {path} cannot be read: {error}", hint="give a .safetensors file"
            ) from None
        self._names: set[str] = set(self._file.keys())  # type: ignore[no-untyped-call]  # untyped there

    def embedding(self, columns: int) -> Tensor:
        return self._vocabulary(EMBEDDING, columns)

    def matrix(self, names: Sequence[str], rows: Sequence[int], columns: int) -> Tensor:
        if list(names) == [HEAD]:
            return self._vocabulary(HEAD if HEAD in self._names else EMBEDDING, columns)
        return torch.cat(
            [self._tensor(name, (count, columns)) for name, count in zip(names, rows, strict=True)]
        )

    def norm(self, name: str, columns: int) -> Tensor:
        return self._tensor(name, (columns,))

    def _vocabulary(self, name: str, columns: int) -> Tensor:
        tensor = self._get(name)
        if tensor.ndim != 2 or tensor.shape[0] < VOCAB_SIZE or tensor.shape[1] != columns:
            raise self._wrong_shape(name, tensor, f"{VOCAB_SIZE} or more, {columns}")
        return tensor[:VOCAB_SIZE].float()

    def _tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        tensor = self._get(name)
        if tuple(tensor.shape) != shape:
            raise self._wrong_shape(name, tensor, ", ".join(map(str, shape)))
        return tensor.float()

    def _get(self, name: str) -> Tensor:
        if name not in self._names:
            raise ConfigError(
                f"--weights {self._path} has no {name!r}",
                hint="give one file with the names of a Llama checkpoint, all of its layers in it",
            )
        tensor: Tensor = self._file.get_tensor(name)
        return tensor

    def _wrong_shape(self, name: str, tensor: Tensor, wanted: str) -> ConfigError:
        return ConfigError(
            f"--weights {self._path}: {name} is {list(tensor.shape)}, and the preset has [{wanted}]",
            hint="give the --preset that the file was made for",
        )
