"""`replay --tokenizer FILE` sends prompts of exactly the planned tokens."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers

from loadgen.testing import FakeTarget, chat_stream
from support import command, traces

WORDS = [f"{first}{second}" for first in "bdfgk" for second in ("a", "e", "i", "o")]


def tokenizer_file(folder: Path) -> Path:
    vocabulary = {word: place for place, word in enumerate(["[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def test_every_prompt_has_the_tokens_of_its_row(tmp_path: Path) -> None:
    path = tokenizer_file(tmp_path)
    lengths = [1, 2, 50, 700]
    trace = traces.written(tmp_path, [0.0, 0.01, 0.02, 0.03], input_tokens=lengths)
    with FakeTarget(lambda _: chat_stream(2, first_s=0.0, gap_s=0.0)) as fake:
        run = command.run(
            "replay", trace, "--url", fake.url, "--tokenizer", path, "--model", "m", folder=tmp_path
        )
        prompts = {
            asked.row: asked.body["messages"][0]["content"]
            for asked in fake.requests
            if asked.method == "POST"
        }
    assert run.returncode in (0, 4), run.stderr  # 4: a busy machine
    tokenizer = Tokenizer.from_file(str(path))
    assert [len(tokenizer.encode(prompts[row]).ids) for row in range(4)] == lengths


def test_two_ways_to_count_tokens_exclude_each_other(tmp_path: Path) -> None:
    trace = traces.written(tmp_path, [0.0])
    flags = ("--tokenizer", tokenizer_file(tmp_path), "--chars-per-token", "1")
    refused = command.run("replay", trace, "--url", "http://127.0.0.1:9", *flags, folder=tmp_path)
    fact, advice = refused.stderr.splitlines()
    assert refused.returncode == 2
    assert fact.startswith("error: --tokenizer and --chars-per-token")
    assert advice.startswith("hint:")


def test_a_file_that_is_no_tokenizer_is_told_before_the_target_is_asked(tmp_path: Path) -> None:
    trace = traces.written(tmp_path, [0.0])
    refused = command.run(
        "replay", trace, "--url", "http://127.0.0.1:9", "--tokenizer", trace, folder=tmp_path
    )
    assert refused.returncode == 2
    assert "cannot be read as a tokenizer" in refused.stderr
