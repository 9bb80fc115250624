"""The real model, small, in float32: batching changes when tokens come, never which."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from loadgen_target.clock import SimClock
from loadgen_target.config import EOS, PRESETS, EngineConfig, PolicyConfig
from loadgen_target.engine import Engine
from loadgen_target.request import Sampling, Status, Work
from loadgen_target.rows import Chunk, Row

if TYPE_CHECKING:
    from loadgen_target.runner import ModelRunner

MS = 1_000_000
POISON = 1e3  # finite: a weight of 0 times NaN is NaN
POLICIES = {
    "serial": PolicyConfig("serial"),
    "fixed-window": PolicyConfig("fixed-window"),
    "dynamic": PolicyConfig("dynamic"),
    "dynamic, two in flight": PolicyConfig("dynamic", max_inflight_batches=2, max_batch_size=4),
    # Less rows in a batch than a step is padded to: what would fill it up is the other batch's.
    "dynamic, two of two rows": PolicyConfig("dynamic", max_inflight_batches=2, max_batch_size=2),
    "dynamic, each answers alone": PolicyConfig("dynamic", release="request"),
    "continuous": PolicyConfig("continuous"),
    "continuous, three rows": PolicyConfig("continuous", max_batch_size=3),
    "chunked, whole prompts fit": PolicyConfig("continuous", splits_prompts=True),
    "chunked, seven tokens a step": PolicyConfig(
        "continuous", max_batch_size=5, max_num_batched_tokens=7, splits_prompts=True
    ),
}


def runner_of(policy: PolicyConfig, *, seed: int = 0, uses_prepack: bool = True) -> ModelRunner:
    from loadgen_target.runner import ModelRunner

    config = EngineConfig(
        policy=policy, preset="tiny", max_model_len=128, seed=seed, uses_prepack=uses_prepack
    )
    runner = ModelRunner(config)
    runner.cache.fill(POISON)
    return runner


class Timed:
    """The model on a simulated clock: each pass takes 10 ms."""

    def __init__(self, runner: ModelRunner, clock: SimClock) -> None:
        self.runner, self.clock = runner, clock

    def prefill(self, rows: Sequence[Row]) -> list[int]:
        self.clock.work(10 * MS)
        return self.runner.prefill(rows)

    def decode(self, rows: Sequence[Row]) -> list[int]:
        self.clock.work(10 * MS)
        return self.runner.decode(rows)

    def mixed(self, rows: Sequence[Row], chunks: Sequence[Chunk]) -> list[int]:
        self.clock.work(10 * MS)
        return self.runner.mixed(rows, chunks)

    def move(self, source: int, target: int, length: int) -> None:
        self.runner.move(source, target, length)
        # What is behind the row that moved belongs to nobody now; a read of it must show.
        keys = self.runner.cache
        for index in range(2):
            for part in keys.layer(index):
                part[source] = POISON


def work_of(seed: int = 7) -> list[tuple[int, Work]]:
    rng = random.Random(seed)
    listed, at_ns = [], 0
    for key in range(30):
        at_ns += round(rng.expovariate(1 / 20) * MS)
        prompt = tuple(rng.randrange(32, 127) for _ in range(rng.randint(1, 40)))
        drawn = 1.0 if key % 5 == 4 else 0.0
        sampling = Sampling(
            max_tokens=rng.randint(1, 24), ignore_eos=key % 3 > 0, temperature=drawn, seed=key
        )
        listed.append((at_ns, Work(key, prompt, sampling)))
    return listed


def tokens_of(
    policy: PolicyConfig, listed: list[tuple[int, Work]], leaves: dict[int, int] | None = None
) -> dict[int, tuple[int, ...]]:
    """Tokens of each request. leaves: request -> the number of tokens after which its client is gone."""
    clock, leaves = SimClock(), leaves or {}
    engine = Engine(policy, Timed(runner_of(policy), clock), clock)
    tokens: dict[int, list[int]] = {work.request_id: [] for _, work in listed}
    left = list(listed)
    while True:
        while left and left[0][0] <= clock.now_ns():
            engine.submit(left.pop(0)[1])
        wake_ns = engine.wake_ns()
        if wake_ns is not None and wake_ns <= clock.now_ns():
            for outcome in engine.step():
                for emission in outcome.emissions:
                    tokens[emission.request_id] += emission.tokens
            for key, limit in leaves.items():
                if len(tokens[key]) >= limit:
                    engine.abort(key, Status.CANCELLED)
            continue
        moments = [moment for moment in (wake_ns, left[0][0] if left else None) if moment is not None]
        if not moments:
            assert engine.num_running == engine.num_waiting == engine.kv_tokens == 0
            return {key: tuple(said) for key, said in tokens.items()}
        clock.jump_to(min(moments))


@cache
def serial_tokens() -> dict[int, tuple[int, ...]]:
    return tokens_of(POLICIES["serial"], work_of())


@pytest.mark.parametrize("name", list(POLICIES))
def test_every_policy_gives_the_same_tokens_with_a_poisoned_cache(name: str) -> None:
    assert tokens_of(POLICIES[name], work_of()) == serial_tokens()


@pytest.mark.parametrize(
    "name", ["continuous", "dynamic", "dynamic, each answers alone", "chunked, seven tokens a step"]
)
def test_those_who_leave_change_nothing_for_the_others(name: str) -> None:
    leaves = {3: 0, 5: 1, 8: 4, 13: 7}
    tokens = tokens_of(POLICIES[name], work_of(), leaves)
    others = {key: said for key, said in tokens.items() if key not in leaves}
    assert others == {key: said for key, said in serial_tokens().items() if key not in leaves}


def test_every_token_is_a_visible_character_or_the_end() -> None:
    said = [token for tokens in serial_tokens().values() for token in tokens]
    assert all(0x20 <= token < 0x7F or token == EOS for token in said)
    assert len(set(said)) > 10  # no model that repeats one token


def row_of(prompt: str, **sampling: float) -> Row:
    asked = Sampling(max_tokens=8, ignore_eos=True, **sampling)  # type: ignore[arg-type]
    row = Row(Work(1, tuple(prompt.encode()), asked), tuple(prompt.encode()), 0)
    row.slot = 0
    return row


def say(runner: ModelRunner, row: Row, count: int = 8) -> list[int]:
    row.take(runner.prefill([row])[0], 1, 0)
    while len(row.output) < count:
        row.take(runner.decode([row])[0], 1, 0)
    return row.output


def test_packed_and_plain_weights_give_the_same_tokens() -> None:
    plain = runner_of(POLICIES["serial"], uses_prepack=False)
    assert say(plain, row_of("Hello")) == say(runner_of(POLICIES["serial"]), row_of("Hello"))
    assert not plain.packs


def test_decoding_with_the_cache_equals_reading_the_whole_text_again() -> None:
    runner = runner_of(POLICIES["serial"])
    said = say(runner, row_of("Hello, world"))
    for count in range(1, len(said)):
        text = "Hello, world" + bytes(said[:count]).decode()
        assert say(runner, row_of(text), 1) == [said[count]]


def test_a_decode_step_gives_the_logits_of_the_whole_text() -> None:
    import torch

    from loadgen_target.cache import SlotCache
    from loadgen_target.model import Decoder, Prompt
    from loadgen_target.weights import SeededWeights

    shape = PRESETS["tiny"]
    place: dict[str, Any] = {"device": torch.device("cpu"), "dtype": torch.float32}
    decoder = Decoder(shape, SeededWeights(0), max_len=64, packs=False, **place)
    cache = SlotCache(shape, 4, 64, **place)
    cache.fill(POISON)
    text = b"Hello, world, and all who live in it"
    with torch.inference_mode():
        decoder.prefill([Prompt(text[:1], 0, 0), Prompt(text[:20], 0, 1)], cache)
        step = decoder.decode([text[1], text[20]], [1, 20], 0, cache)
        whole = decoder.prefill([Prompt(text[:2], 0, 2), Prompt(text[:21], 0, 3)], cache)
    assert (step - whole).abs().max() < 1e-4


def test_the_end_token_comes_only_where_it_may() -> None:
    runner = runner_of(POLICIES["serial"])

    def said(seed: int, *, least: int = 0, ignores: bool = False) -> list[int]:
        # So hot that every token is as likely as any other.
        sampling = Sampling(max_tokens=60, min_tokens=least, ignore_eos=ignores, temperature=1e4, seed=seed)
        row = Row(Work(1, (65,), sampling), (65,), 0)
        row.slot = 0
        reason = row.take(runner.prefill([row])[0], 1, 0)
        while reason is None:
            reason = row.take(runner.decode([row])[0], 1, 0)
        return row.output

    free, late = ([said(seed, least=least) for seed in range(12)] for least in (0, 20))
    assert any(tokens[-1] == EOS and len(tokens) < 20 for tokens in free)
    assert any(tokens[-1] == EOS for tokens in late) and all(len(tokens) >= 20 for tokens in late)
    assert all(len(said(seed, ignores=True)) == 60 for seed in range(12))


def test_weights_follow_their_seed() -> None:
    said = [say(runner_of(POLICIES["serial"], seed=seed), row_of("Hello")) for seed in (1, 1, 2)]
    assert said[0] == said[1] != said[2]


def test_drawn_tokens_follow_the_seed_of_the_request() -> None:
    runner = runner_of(POLICIES["serial"])
    said = [say(runner, row_of("Hello", temperature=1.0, seed=seed)) for seed in (4, 4, 5)]
    assert said[0] == said[1] != said[2]
