"""Planted secrets come out nowhere: not in the trace, not in its metadata, not in what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadgen.trace.parquet import read_trace
from support import command

TEXT = "my-secret-prompt about-harbors"
SECRETS = (
    "my-secret-prompt",
    "about-harbors",
    "alice@example.test",
    "192.0.2.77",
    "sk-key-123",
    "secret-agent",
    "token=hush",
)

NGINX = (
    '192.0.2.77 - alice@example.test [25/Oct/2026:02:00:01 +0100] "POST /v1/chat?token=hush HTTP/1.1" 200 5 '
    '"https://my-secret-prompt/" "secret-agent" rt=1.500 msec=1792890001.204 rl=911 bs=1077'
)
JSONL = json.dumps(
    {
        "t": 1_700_000_000_123, "in": 5, "out": 7, "user": "alice@example.test", "ip": "192.0.2.77",
        "authorization": "Bearer sk-key-123", "messages": [{"role": "user", "content": TEXT}],
    }
)  # fmt: skip
LITELLM = json.dumps(
    {
        "id": "1", "startTime": 1_792_889_998.25, "endTime": 1_792_889_999.5, "prompt_tokens": 3,
        "completion_tokens": 2, "model": "demo", "messages": [{"role": "user", "content": TEXT}],
        "end_user": "alice@example.test", "session_id": "alice@example.test", "api_key": "sk-key-123",
    }
)  # fmt: skip
VLLM = (
    f"INFO 10-25 00:59:58 [logger.py:42] Received request a: prompt: '{TEXT}', params: SamplingParams(), "
    "prompt_token_ids: [7701, 7702, 7703], prompt_embeds shape: None."
)
PAIRS = json.dumps(
    {
        "ts": "2026-10-25T02:58:20.252563+02:00",
        "request": {"messages": [{"role": "user", "content": TEXT}], "user": "alice@example.test"},
        "response": {"choices": [{"message": {"content": "about-harbors"}}]},
        "headers": {"authorization": "sk-key-123"},
    }
)  # fmt: skip
FIELDS = ("--time", "t", "--input-tokens", "in", "--output-tokens", "out", "--session-field", "user")


@pytest.mark.parametrize(
    ("line", "options", "has_prompts"),
    [
        (NGINX, ("--format", "nginx"), False),
        (JSONL, ("--format", "jsonl", *FIELDS, "--prompt-field", "messages"), True),
        (LITELLM, ("--format", "litellm"), True),
        (VLLM, ("--format", "vllm", "--year", "2026", "--zone", "UTC"), True),
        (PAIRS, ("--format", "openai-pairs"), True),
    ],
    ids=["nginx", "jsonl", "litellm", "vllm", "pairs"],
)
def test_no_secret_comes_out(tmp_path: Path, line: str, options: tuple[str, ...], has_prompts: bool) -> None:
    # The half line is malformed, and is told by its place alone.
    log = tmp_path / "app.log"
    log.write_text(line + "\n" + line[: len(line) - 3] + "\n" + line + "\n", encoding="utf-8")
    for extra in ((), ("--prefix-blocks",)) if has_prompts else ((),):
        trace = tmp_path / "trace.parquet"
        ran = command.run("record", log, *options, *extra, "--json", "--force", "-o", trace)
        assert ran.returncode == 0, ran.stderr
        read = read_trace(trace)
        dump = json.dumps(read.table.to_pylist()) + str(read.metadata) + ran.stdout + ran.stderr
        dump += trace.read_bytes().decode("latin-1")
        assert [secret for secret in SECRETS if secret in dump] == []
        assert "7701" not in dump
        if extra:
            assert read.table.column("prefix_blocks").to_pylist()[0]


def test_lines_are_shown_only_on_demand(tmp_path: Path) -> None:
    log = tmp_path / "app.jsonl"
    log.write_text(JSONL + "\n" + "my-secret-prompt\n", encoding="utf-8")
    arguments = ("record", log, "--format", "jsonl", *FIELDS, "--force")
    assert "my-secret-prompt" not in command.run(*arguments).stderr
    assert "my-secret-prompt" in command.run(*arguments, "--show-lines").stderr
