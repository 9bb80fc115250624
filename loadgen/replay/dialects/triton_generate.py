"""Triton's generate extension: POST /v2/models/MODEL/generate_stream, or /generate for a whole answer.

Its streams have no end mark: they are complete where HTTP ends as it should. The tensors that a request may
name are those of the model, so that there are two ways to ask: `triton` puts what limits the answer under
`parameters` (vLLM and Python backends), `triton-trtllm` beside the prompt (TensorRT-LLM's ensemble).
"""

from __future__ import annotations

from typing import Any

import orjson

from loadgen.replay.dialects.dialect import PLAIN, Ask, JsonDialect, Part, Told
from loadgen.replay.dialects.failure import document_of, whole_document_of


class TritonGenerate(JsonDialect):
    """The prompt is the tensor text_input, the answer text_output."""

    has_end_mark = False

    def __init__(self, *, trtllm: bool) -> None:
        self.name = "triton-trtllm" if trtllm else "triton"
        self._trtllm = trtllm

    def path(self, model: str | None, *, stream: bool) -> str:
        return f"/v2/models/{model}/{'generate_stream' if stream else 'generate'}"

    def body(self, ask: Ask) -> bytes:
        options: dict[str, Any] = {"temperature": 0, "stream": ask.stream}
        if ask.output_tokens is not None:
            options["max_tokens"] = ask.output_tokens
            if ask.force_length:
                if self._trtllm:
                    options["min_length"] = ask.output_tokens
                else:
                    options.update(min_tokens=ask.output_tokens, ignore_eos=True)
        if self._trtllm:
            return orjson.dumps({"text_input": ask.prompt, **options})
        return orjson.dumps({"text_input": ask.prompt, "parameters": options})

    def reader(self) -> _TritonReader:
        return _READER


class _TritonReader:
    """Without memory."""

    __slots__ = ()

    texts = (b"text_output",)

    def event(self, name: bytes, data: bytes) -> Told:
        document = document_of(name, data)
        return document if isinstance(document, Told) else _read(document)

    def whole(self, body: bytes) -> Told:
        document = whole_document_of(body)
        return document if isinstance(document, Told) else _read(document)


def _read(document: dict[str, Any]) -> Told:
    part = Part.ANSWER if document.get("text_output") else Part.NOTHING
    finish = document.get("finish_reason")
    prompt, output = document.get("num_input_tokens"), document.get("num_output_tokens")
    if not finish and prompt is None and output is None:
        return PLAIN[part]
    return Told(
        part, finish_reason=str(finish) if finish else None, prompt_tokens=prompt, output_tokens=output
    )


_READER = _TritonReader()
