"""The exported tokenizer counts as the server does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer as FileTokenizer

from loadgen_target.byte_tokenizer import export_tokenizer
from loadgen_target.config import BOS, EOS, PAD, ConfigError, EngineConfig, PolicyConfig
from loadgen_target.flags import parse_flags
from loadgen_target.stages import Tokenizer, make_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer") / "made"
    export_tokenizer(folder)
    return folder


@pytest.mark.parametrize(
    "text", ["Hello, world", " two  spaces\n\ttab ", "é ü 😀 漢字", "".join(map(chr, range(256)))]
)
def test_its_tokens_are_the_servers(folder: Path, text: str) -> None:
    tokenizer = FileTokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tokenizer.encode(text).ids
    assert tuple(ids) == Tokenizer().encode(text)
    assert tokenizer.decode(ids) == text


def test_its_special_tokens_are_the_models(folder: Path) -> None:
    tokenizer = FileTokenizer.from_file(str(folder / "tokenizer.json"))
    assert [tokenizer.token_to_id(text) for text in ("<bos>", "<eos>", "<pad>")] == [BOS, EOS, PAD]
    assert tokenizer.get_vocab_size() == 259
    assert json.loads((folder / "tokenizer_config.json").read_text())["eos_token"] == "<eos>"


def test_a_flag_writes_it_and_leaves(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as left:
        parse_flags(["--export-tokenizer", str(tmp_path / "new" / "one")])
    assert left.value.code == 0 and (tmp_path / "new" / "one" / "tokenizer.json").exists()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="--export-tokenizer"):
        parse_flags(["--export-tokenizer", str(tmp_path / "file")])


def test_a_heavy_tokenizer_runs_on_each_text_and_changes_no_token(folder: Path) -> None:
    config = EngineConfig(PolicyConfig(), preset="tiny", tokenizer=folder / "tokenizer.json")
    tokenizer = make_tokenizer(config)
    assert tokenizer.heavy is not None
    assert tokenizer.encode("Héllo") == Tokenizer().encode("Héllo")
    texts: list[str] = []
    assert Tokenizer(heavy=texts.append).encode("Hello") == tuple(b"Hello") and texts == ["Hello"]


def test_a_file_that_is_no_tokenizer_is_one_line_and_code_2(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    ended = subprocess.run(
        [sys.executable, "-m", "loadgen_target", "--preset", "tiny", "--port", "0", "--tokenizer", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert str(path) in ended.stderr and len(ended.stderr.splitlines()) == 1
