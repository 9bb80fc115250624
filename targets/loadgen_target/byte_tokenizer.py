"""The byte tokenizer as files, so that other load generators count tokens as this server does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from loadgen_target.config import BOS, EOS, PAD

_SPECIAL = {"<bos>": BOS, "<eos>": EOS, "<pad>": PAD}
# As the server reads chats: the texts of all messages, one a line, and nothing around them.
_CHAT_TEMPLATE = (
    "{% for message in messages %}{% if not loop.first %}{{ '\\n' }}{% endif %}"
    "{{ message['content'] }}{% endfor %}"
)


def export_tokenizer(folder: Path) -> None:
    """Write tokenizer.json (Hugging Face tokenizers) and tokenizer_config.json (transformers) into `folder`.

    It is made if it does not exist. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "tokenizer.json", _tokenizer())
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "pad_token": "<pad>",
            "clean_up_tokenization_spaces": False,
            "chat_template": _CHAT_TEMPLATE,
        },
    )


def _tokenizer() -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for text, number in _SPECIAL.items()
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {**{letter: byte for byte, letter in enumerate(_letters())}, **_SPECIAL},
            "merges": [],
        },
    }


def _letters() -> list[str]:
    """The letter for each byte that byte-level tokenizers use: itself where it is visible, else one above 255."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    following = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(following)) for byte in range(0x100)]


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
