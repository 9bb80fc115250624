"""The official client of OpenAI's interface, against the server over loopback."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest
from openai import OpenAI

_MODEL = "tiny"
_ASKED = {"ignore_eos": True}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    ready = tmp_path_factory.mktemp("openai") / "ready.json"
    command = [sys.executable, "-m", "loadgen_target", "--preset", _MODEL, "--port", "0", "--timeout", "20s"]
    process = subprocess.Popen([*command, "--ready-file", str(ready)], stderr=subprocess.DEVNULL)
    try:
        until_s = time.monotonic() + 60
        while not ready.exists():
            assert process.poll() is None and time.monotonic() < until_s
            time.sleep(0.02)
        yield json.loads(ready.read_text())["url"]
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def client(url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_models_are_listed(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [_MODEL]


def test_a_chat_answers(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model=_MODEL, messages=[{"role": "user", "content": "Hello"}], max_tokens=12, extra_body=_ASKED
    )
    choice = answer.choices[0]
    assert answer.object == "chat.completion" and choice.finish_reason == "length"
    assert choice.message.role == "assistant" and len(choice.message.content or "") == 12
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 12)


def test_a_chat_streams_what_it_answers_whole(client: OpenAI) -> None:
    whole = client.chat.completions.create(
        model=_MODEL, messages=[{"role": "user", "content": "Hello"}], max_tokens=12, extra_body=_ASKED
    )
    stream = client.chat.completions.create(
        model=_MODEL,
        messages=[{"role": "user", "content": "Hello"}],
        max_completion_tokens=12,
        stream=True,
        stream_options={"include_usage": True},
        extra_body=_ASKED,
    )
    *chunks, last = list(stream)
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert chunks[0].choices[0].delta.role == "assistant" and len(texts) == 12
    assert "".join(texts) == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == "length"
    assert last.choices == [] and last.usage is not None and last.usage.completion_tokens == 12


def test_the_streaming_helper_sees_the_same_text(client: OpenAI) -> None:
    said = client.completions.create(model=_MODEL, prompt="Hello", max_tokens=9, extra_body=_ASKED).choices[0]
    # It takes an end by length for a failure, so a stop text ends it.
    with client.chat.completions.stream(
        model=_MODEL,
        messages=[{"role": "user", "content": "Hello"}],
        stop=said.text[5:8],
        max_tokens=50,
        extra_body=_ASKED,
    ) as stream:
        streamed = "".join(event.delta for event in stream if event.type == "content.delta")
        final = stream.get_final_completion()
    assert streamed == final.choices[0].message.content == said.text[: said.text.index(said.text[5:8])]


def test_a_completion_answers_and_streams(client: OpenAI) -> None:
    whole = client.completions.create(model=_MODEL, prompt="Hello", max_tokens=9, extra_body=_ASKED)
    parts = client.completions.create(
        model=_MODEL, prompt="Hello", max_tokens=9, stream=True, extra_body=_ASKED
    )
    assert whole.object == "text_completion" and len(whole.choices[0].text) == 9
    assert "".join(part.choices[0].text for part in parts) == whole.choices[0].text


def test_a_stop_text_ends_it(client: OpenAI) -> None:
    text = (
        client.completions.create(model=_MODEL, prompt="Hello", max_tokens=9, extra_body=_ASKED)
        .choices[0]
        .text
    )
    choice = client.completions.create(
        model=_MODEL, prompt="Hello", max_tokens=9, stop=text[4:6], extra_body=_ASKED
    ).choices[0]
    assert (choice.text, choice.finish_reason) == (text[: text.index(text[4:6])], "stop")


def test_a_wrong_request_is_the_clients_bad_request(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.completions.create(model=_MODEL, prompt="Hello", max_tokens=5_000)
    assert raised.value.status_code == 400 and "5005" in str(raised.value)
    assert raised.value.param == "max_tokens" and raised.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError, match="n is 2"):
        client.chat.completions.create(model=_MODEL, messages=[{"role": "user", "content": "Hi"}], n=2)


def test_what_is_not_there_is_the_clients_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model=_MODEL, input="Hello")


def _metrics(base_url: str) -> bytes:
    with urllib.request.urlopen(base_url.removesuffix("v1") + "metrics") as page:
        said: bytes = page.read()
    return said


def test_a_refusal_and_a_timeout_are_the_clients_own_errors(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    flags = ["--policy", "serial", "--max-queue-size", "1", "--step-delay-ms", "20", "--timeout", "1s"]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "loadgen_target",
            "--preset",
            _MODEL,
            "--port",
            "0",
            "--ready-file",
            str(ready),
            *flags,
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        until_s = time.monotonic() + 60
        while not ready.exists():
            assert process.poll() is None and time.monotonic() < until_s
            time.sleep(0.02)
        base_url = json.loads(ready.read_text())["url"] + "/v1"
        with OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            # The stream has begun when its time runs out: an error within it.
            stream = client.completions.create(
                model=_MODEL, prompt="Hello", max_tokens=400, stream=True, extra_body=_ASKED
            )
            said = [next(stream)]
            with pytest.raises(openai.APIError, match="out of time"):
                said += list(stream)
            assert said
            # One runs and one waits: a third finds no place.
            running = client.completions.create(
                model=_MODEL, prompt="Hello", max_tokens=400, stream=True, extra_body=_ASKED
            )
            next(running)
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(
                    client.completions.create, model=_MODEL, prompt="Hello", max_tokens=2, extra_body=_ASKED
                )
                while b'num_requests_waiting{model_name="tiny"} 1.0' not in _metrics(base_url):
                    assert not waiting.done()
                with pytest.raises(openai.RateLimitError) as refused:
                    client.completions.create(model=_MODEL, prompt="Hello", max_tokens=2, extra_body=_ASKED)
                assert refused.value.status_code == 429 and "retry-after" in refused.value.response.headers
                running.close()
                assert waiting.result().usage is not None
            # Nothing has been said when its time runs out: a status of its own.
            with pytest.raises(openai.InternalServerError) as raised:
                client.completions.create(model=_MODEL, prompt="Hello", max_tokens=400, extra_body=_ASKED)
            assert raised.value.status_code == 504
    finally:
        process.kill()
        process.wait()
