"""Stages around the engine: text to tokens before it, tokens to text behind it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from loadgen_target.config import BOS, EOS, ConfigError, EngineConfig

_BLOCK = bytes(256 * 1024)  # hashed at a stretch; hashing lets other threads run meanwhile


@dataclass(frozen=True, slots=True)
class Prepared:
    """Token ids, and when making them began and ended (CLOCK_MONOTONIC ns)."""

    tokens: tuple[int, ...]
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A token is a byte of UTF-8; an empty text is one BOS.

    extra_s: CPU time really spent on each text, to stand for a heavier tokenizer.
    heavy: a real tokenizer, run on each text for what it costs; what it says is dropped, as the model reads bytes.
    """

    extra_s: float = 0.0
    heavy: Callable[[str], object] | None = None

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a text."""
        if self.extra_s > 0:
            _burn(self.extra_s)
        if self.heavy is not None:
            self.heavy(text)
        return tuple(text.encode("utf-8", "replace")) or (BOS,)

    def prepare(self, prompt: str | tuple[int, ...]) -> Prepared:
        """Encode, and say when."""
        start_ns = time.monotonic_ns()
        tokens = self.encode(prompt) if isinstance(prompt, str) else prompt
        return Prepared(tokens, start_ns, time.monotonic_ns())


def make_tokenizer(config: EngineConfig) -> Tokenizer:
    """The tokenizer that `config` asks for. Raises ConfigError for a file that is none."""
    if config.tokenizer is None:
        return Tokenizer(config.preprocess_s)
    # Here, since nothing else needs the library.
    try:
        from tokenizers import Tokenizer as HeavyTokenizer  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            f"--tokenizer {config.tokenizer} needs tokenizers, which is not installed",
            hint="pip install 'loadgen[tokenizer]'",
        ) from None
    try:
        heavy = HeavyTokenizer.from_file(str(config.tokenizer))
    except Exception as error:  # the library raises no narrower one
        raise ConfigError(
            f"--tokenizer {config.tokenizer}: {' '.join(str(error).split())}",
            hint="give a tokenizer.json of Hugging Face's tokenizers",
        ) from None
    return Tokenizer(config.preprocess_s, heavy.encode)


class Preprocessor:
    """The staged pipeline's first stage: a pool of threads with a queue of its own before the engine's."""

    def __init__(self, tokenizer: Tokenizer, num_workers: int) -> None:
        self._tokenizer = tokenizer
        self._pool = ThreadPoolExecutor(num_workers, thread_name_prefix="preprocess")
        self.num_waiting = 0

    async def prepare(self, prompt: str | tuple[int, ...]) -> Prepared:
        """Wait for a worker, then for the tokens. A cancelled wait leaves the queue."""
        self.num_waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, self._tokenizer.prepare, prompt)
        finally:
            self.num_waiting -= 1

    def close(self) -> None:
        """Drop what waits and let the workers end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class TextStream:
    """Tokens to text, holding back what may become a stop text.

    Only an end that is a proper prefix of a stop text is held, so that without one each token is sent at once.
    """

    def __init__(self, stops: Sequence[bytes]) -> None:
        self._stops = tuple(stop.decode("utf-8", "replace") for stop in stops)
        self._held = ""

    def push(self, tokens: Sequence[int]) -> str:
        """Text that can go out now."""
        text = self._held + "".join(chr(token) for token in tokens if token < EOS)
        size = max((_prefix_at_end(text, stop) for stop in self._stops), default=0)
        cut = len(text) - size
        self._held = text[cut:]
        return text[:cut]

    def finish(self, tokens: Sequence[int], matched_stop: int) -> str:
        """The rest, without the last `matched_stop` characters, which are the stop text itself."""
        text = self._held + "".join(chr(token) for token in tokens if token < EOS)
        self._held = ""
        return text[: len(text) - matched_stop]


def _prefix_at_end(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a proper prefix of `stop`."""
    sizes = range(min(len(stop) - 1, len(text)), 0, -1)
    return next((size for size in sizes if text.endswith(stop[:size])), 0)


def _burn(length_s: float) -> None:
    until_s = time.thread_time() + length_s
    while time.thread_time() < until_s:
        hashlib.blake2b(_BLOCK).digest()
