"""With a tokenizer, prompts have exactly the planned tokens, unlike each other or sharing the trace's blocks."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from loadgen.errors import LoadgenError, ScheduleError, UsageError
from loadgen.plan.token_prompts import TokenPrompts, token_prompts
from loadgen.plan.tokenizer_file import TokenizerFile
from support.sending import schedule_table

WORDS = (  # noqa: SIM905  # a list would take forty lines
    "the quick brown fox jumps over lazy dogs while seven wizards make toxic brew for evil queen and jack "
    "some very common little words stand here again because merges need many of them to learn from every line"
).split()
TEXT = [" ".join(WORDS[k:] + WORDS[:k]) for k in range(len(WORDS))] * 4
BLOCK = 16


def byte_level(vocab_size: int = 700) -> Tokenizer:
    """As GPT-2's and Llama 3's: byte-level BPE, words with the space before them; BOS by the post-processor."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*TEXT, *WORDS], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.enable_truncation(10)
    tokenizer.enable_padding(length=50)
    return tokenizer


def bytes_only() -> Tokenizer:
    """Each byte a token, as the bundled server's."""
    return byte_level(256)


def word_pieces() -> Tokenizer:
    """As BERT's."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer


def unigram() -> Tokenizer:
    """As T5's."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def sentence_piece() -> Tokenizer:
    """As Llama 2's: no pre-tokeniser, spaces by the normaliser, so that words are not cut before."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    document = json.loads(tokenizer.to_str())
    document["pre_tokenizer"] = None
    return Tokenizer.from_str(json.dumps(document))


def word_level() -> Tokenizer:
    vocabulary = {word: place for place, word in enumerate(["[UNK]", *dict.fromkeys(WORDS)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def eager_bpe() -> Tokenizer:
    """Few words, many merges of letters, nothing cut: the letters that never join are all that is certain."""
    letters = [*"abcdefghijklmnopqrstuvwxyz "]
    merges = [(a, b) for a in "aeiou" for b in "bcdfg"]
    vocabulary = {token: place for place, token in enumerate([*letters, *(a + b for a, b in merges)])}
    return Tokenizer(models.BPE(vocabulary, merges))


KINDS: dict[str, Callable[[], Tokenizer]] = {
    made.__name__: made
    for made in (byte_level, bytes_only, word_pieces, unigram, sentence_piece, word_level, eager_bpe)
}


class Made:
    """A tokenizer of a kind, in a file, with its prompts."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.path = folder / f"{kind}.json"
        KINDS[kind]().save(str(self.path))
        self.prompts = token_prompts(self.path, 3, BLOCK)
        self._tokenizer = Tokenizer.from_file(str(self.path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


@pytest.fixture(scope="module", params=list(KINDS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(request.param, tmp_path_factory.mktemp("tokenizer"))


patient = settings(deadline=None, max_examples=60)
keys = st.integers(-(2**40), 2**60)


@patient
@given(keys, st.integers(1, 3000))
def test_a_prompt_has_exactly_the_tokens_asked_for(made: Made, key: int, length: int) -> None:
    text = made.prompts.text(key, length)
    assert len(made.ids(text)) == length
    # A JSON body takes it as it is.
    assert text.isascii()
    assert text.replace(" ", "a").isalpha()


@patient
@given(
    keys,
    keys,
    st.lists(st.integers(0, 5), max_size=4),
    st.lists(st.integers(0, 5), max_size=4),
    st.integers(130, 300),
)
def test_prompts_share_the_tokens_of_their_common_blocks_and_no_more(
    made: Made,
    first_key: int,
    second_key: int,
    first_blocks: list[int],
    second_blocks: list[int],
    length: int,
) -> None:
    first = made.ids(made.prompts.text(first_key, length, first_blocks))
    second = made.ids(made.prompts.text(second_key, length, second_blocks))
    assert len(first) == len(second) == length
    common = 0
    while (
        common < min(len(first_blocks), len(second_blocks)) and first_blocks[common] == second_blocks[common]
    ):
        common += 1
    shared = common * BLOCK
    assert first[:shared] == second[:shared]
    is_same = first_key == second_key and first_blocks == second_blocks
    after = slice(shared, shared + made.prompts.head_tokens)
    assert is_same or first[after] != second[after]


def test_prompts_of_neighbours_differ_from_their_first_tokens_on(made: Made) -> None:
    heads = {
        tuple(made.ids(made.prompts.text((row << 16) + copy, 100))[: made.prompts.head_tokens])
        for row in range(300)
        for copy in range(3)
    }
    assert len(heads) == 900


@patient
@given(keys, st.integers(1, 300), st.integers(1, 300))
def test_a_longer_prompt_of_a_request_begins_with_a_shorter_one(
    made: Made, key: int, shorter: int, longer: int
) -> None:
    shorter, longer = sorted((shorter, longer))
    assert made.prompts.text(key, longer).startswith(made.prompts.text(key, shorter))


def test_a_last_block_that_is_not_full_is_cut(made: Made) -> None:
    whole = made.ids(made.prompts.text(1, 2 * BLOCK, [4, 5]))
    assert made.ids(made.prompts.text(2, BLOCK + 5, [4, 5])) == whole[: BLOCK + 5]


def test_worker_processes_make_the_same_texts(made: Made) -> None:
    sent = pickle.loads(pickle.dumps(made.prompts))
    assert sent.text(77, 200, [1, 2]) == made.prompts.text(77, 200, [1, 2])
    assert token_prompts(made.path, 3, BLOCK).text(77, 200, [1, 2]) == sent.text(77, 200, [1, 2])
    assert token_prompts(made.path, 4, BLOCK).text(77, 200) != sent.text(77, 200)


@pytest.mark.parametrize(
    ("kind", "separator", "is_certain"),
    [
        ("byte_level", " ", True),
        ("word_pieces", " ", True),
        ("unigram", " ", True),
        ("sentence_piece", " ", False),
        ("bytes_only", "", True),
        ("eager_bpe", "", True),
    ],
)
def test_texts_are_counted_again_only_where_words_are_not_cut_first(
    tmp_path: Path, kind: str, separator: str, is_certain: bool
) -> None:
    prompts = Made(kind, tmp_path).prompts
    assert (prompts.separator, prompts.checked_by is None) == (separator, is_certain)


def test_a_text_that_counts_otherwise_is_mended_at_its_end(tmp_path: Path) -> None:
    # Units that join: what was thought to be one token each is not.
    made = Made("eager_bpe", tmp_path)
    joined = TokenPrompts(1, tuple("abcdefg"), "", BLOCK, TokenizerFile(made.path))
    for length in (1, 2, 17, 400):
        assert len(made.ids(joined.text(5, length))) == length


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"input_tokens": [8], "input_chars": [99]}, 8),
        ({"input_tokens": [None], "input_chars": [60], "input_bytes": [99]}, 12),
        ({"input_tokens": [None], "input_chars": [None], "input_bytes": [50]}, 10),
        ({"input_tokens": [None]}, 1),
        ({"input_tokens": [0]}, 1),
    ],
)
def test_lengths_in_characters_become_about_as_many_tokens(
    columns: dict[str, list[int | None]], expected: int
) -> None:
    prompts = TokenPrompts(0, ("four", "word"), " ")  # five characters a token
    assert prompts.lengths(schedule_table([0.0], **columns)).tolist() == [expected]


def test_a_folder_with_the_file_in_it_will_do(tmp_path: Path) -> None:
    word_level().save(str(tmp_path / "tokenizer.json"))
    assert token_prompts(tmp_path, 0, None).units


@pytest.mark.parametrize(
    ("text", "message"), [(None, "no such file"), ("{", "cannot be read as a tokenizer")]
)
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "tokenizer.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ScheduleError, match=message) as refused:
        token_prompts(path, 0, None)
    assert refused.value.hint


def test_a_tokenizer_that_knows_nothing_is_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.save(str(tmp_path / "t.json"))
    with pytest.raises(ScheduleError, match="no prompts of exact length"):
        token_prompts(tmp_path / "t.json", 0, None)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    modules: dict[str, Any] = {"tokenizers": None}
    monkeypatch.setitem(sys.modules, "tokenizers", modules["tokenizers"])
    with pytest.raises(UsageError) as refused:
        token_prompts(tmp_path, 0, None)
    assert isinstance(refused.value, LoadgenError)
    assert "loadgen[tokenizer]" in str(refused.value.hint)
