"""What a kind of endpoint is asked and how its answers are read; one file a dialect."""

from __future__ import annotations

from loadgen.errors import UsageError
from loadgen.replay.dialects.dialect import Dialect
from loadgen.replay.dialects.generic import Generic
from loadgen.replay.dialects.openai_chat import OpenAiChat
from loadgen.replay.dialects.openai_completions import OpenAiCompletions
from loadgen.replay.dialects.openai_responses import OpenAiResponses
from loadgen.replay.dialects.sglang_generate import SglangGenerate
from loadgen.replay.dialects.template import Template
from loadgen.replay.dialects.tgi_generate import TgiGenerate
from loadgen.replay.dialects.triton_generate import TritonGenerate
from loadgen.replay.dialects.vllm_generate import VllmGenerate

DIALECT_NAMES = (
    "chat", "completions", "responses", "vllm", "sglang", "tgi", "triton", "triton-trtllm", "generic",
)  # fmt: skip


def dialect_named(name: str, template: Template | None = None) -> Dialect:
    """The dialect of `--endpoint-type`; `generic` is what `template` says.

    Raises UsageError for a name nobody knows, and for a template that is missing or not wanted.
    """
    if name not in DIALECT_NAMES:
        raise UsageError(f"--endpoint-type is {name!r}", hint=f"give one of: {', '.join(DIALECT_NAMES)}")
    if (name == "generic") != (template is not None):
        raise UsageError("--template goes with --endpoint-type generic, and that with it")
    if template is not None:
        return Generic(template)
    known: dict[str, Dialect] = {
        dialect.name: dialect
        for dialect in (
            OpenAiChat(),
            OpenAiCompletions(),
            OpenAiResponses(),
            VllmGenerate(),
            SglangGenerate(),
            TgiGenerate(),
            TritonGenerate(trtllm=False),
            TritonGenerate(trtllm=True),
        )
    }
    return known[name]
