"""Each dialect: what it asks, what its events amount to, and a whole answer over a real socket."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import UsageError
from loadgen.replay.dialects import DIALECT_NAMES, dialect_named
from loadgen.replay.dialects.dialect import Ask
from loadgen.replay.exchange import Exchange
from loadgen.replay.lines import LineScanner
from loadgen.replay.template_file import read_template
from loadgen.testing import LAST_CHUNK, FakeRequest, FakeTarget, Send, Step, chunk, head, whole
from support import command, traces
from support.sending import send

NATIVE = [name for name in DIALECT_NAMES if name != "generic"]
ASK = Ask(model="m", prompt="abc", output_tokens=3, stream=True, force_length=False)


def sse(document: Any, name: str = "") -> bytes:
    text = document if isinstance(document, str) else json.dumps(document)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def line(document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


def typed(kind: str, **fields: Any) -> bytes:
    """An event of the responses endpoint, which names its type twice."""
    return sse({"type": kind, **fields}, kind)


def completed(status: str = "completed", **fields: Any) -> bytes:
    usage = {"input_tokens": 5, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1}}
    return typed(f"response.{status}", response={"status": status, "usage": usage, **fields})


def sgl(text: str, tokens: int | None, finish: Any = None) -> bytes:
    facts = {"prompt_tokens": 5, "finish_reason": finish}
    return sse(
        {"text": text, "meta_info": facts if tokens is None else {**facts, "completion_tokens": tokens}}
    )


def tgi(text: str, *, special: bool = False, **more: Any) -> bytes:
    last = {"generated_text": None, "details": None}
    return sse({"index": 1, "token": {"id": 1, "text": text, "special": special}, **last, **more})


TGI_END: dict[str, Any] = {
    "generated_text": "ab",
    "details": {"finish_reason": "length", "generated_tokens": 3, "input_length": 5},
}

# name, reads (one a millisecond), outcome, token events at ms, first answer token, tokens in and out, finish.
STREAMS: list[tuple[str, list[bytes], str, list[int], int | None, tuple[int | None, int | None], str | None]] = [
    (
        "responses",
        [
            typed("response.created", response={"status": "in_progress", "usage": None, "error": None}),
            typed("response.output_item.added", item={"type": "reasoning"}),
            typed("response.reasoning_text.delta", delta="hm"),
            typed("response.output_item.added", item={"type": "message"}),
            typed("response.output_text.delta", delta=""),
            typed("response.output_text.delta", delta="a"),
            typed("response.output_text.delta", delta="b"),
            typed("response.output_text.done", text="ab"),
            completed(),
        ],
        "ok", [3, 6, 7], 6, (5, 3), "completed",
    ),
    (
        "responses",
        [
            typed("response.output_item.added", item={"type": "function_call", "name": "f"}),
            typed("response.function_call_arguments.delta", delta="{}"),
            completed("incomplete", incomplete_details={"reason": "max_output_tokens"}),
        ],
        "ok", [1, 2], 1, (5, 3), "max_output_tokens",
    ),
    (
        "responses",
        [
            typed("response.output_text.delta", delta="a"),
            completed("failed", error={"code": "server_error", "message": "engine died"}),
        ],
        "stream_error", [1], 1, (5, 3), "failed",
    ),
    ("responses", [typed("error", code="x", message="no room")], "stream_error", [], None, (None, None), None),
    ("responses", [sse({"type": "error", "message": "x"})], "stream_error", [], None, (None, None), None),
    ("responses", [typed("response.refusal.delta", delta="a")], "incomplete_stream", [1], 1, (None, None), None),
    ("responses", [completed()], "empty", [], None, (5, 3), "completed"),
    (
        "vllm",
        [line({"text": ["abcx"]}), line({"text": ["abcx"]}), b'{"text": ["abcxy"]}'],  # the last without its end
        "ok", [1, 4], 1, (None, None), None,
    ),
    (
        "vllm",
        [b'{"text": ["abcx"]}\0{"text": ["abc', b'xy"]}\0'],
        "ok", [1, 2], 1, (None, None), None,
    ),
    ("vllm", [line({"error": "bad"})], "stream_error", [], None, (None, None), None),
    ("vllm", [line({"text": ["x"]}), b"{broken\n"], "stream_error", [1], 1, (None, None), None),
    ("vllm", [b"\n"], "empty", [], None, (None, None), None),
    (
        "sglang",  # the whole text each time; two tokens in one event, and one without text
        [sgl("a", 1), sgl("ab", 3), sgl("ab", 3, {"type": "length", "length": 3}), sse("[DONE]")],
        "ok", [1, 2], 1, (5, 3), "length",
    ),
    (
        "sglang",  # only what is new, which may be equal to what was new before
        [sgl("a", 1), sgl("a", 2), sgl("", 2, {"type": "stop"}), sse("[DONE]")],
        "ok", [1, 2], 1, (5, 2), "stop",
    ),
    ("sglang", [sgl("a", None), sgl("a", None), sgl("ab", None), sse("[DONE]")], "ok", [1, 3], 1, (5, None), None),
    (
        "sglang",
        [sgl("a", 1), sgl("a", 1, {"type": "abort", "message": "out of memory"}), sse("[DONE]")],
        "stream_error", [1], 1, (5, 1), None,
    ),
    ("sglang", [sse({"error": {"message": "no"}}), sse("[DONE]")], "stream_error", [], None, (None, None), None),
    ("sglang", [sgl("a", 1)], "incomplete_stream", [1], 1, (5, 1), None),
    (
        "tgi",
        [tgi("a"), tgi("b"), tgi("</s>", special=True, **TGI_END)],
        "ok", [1, 2], 1, (5, 3), "length",
    ),
    ("tgi", [tgi("a"), sse({"error": "full", "error_type": "x"})], "stream_error", [1], 1, (None, None), None),
    ("tgi", [tgi("a")], "incomplete_stream", [1], 1, (None, None), None),
    ("tgi", [tgi("", **TGI_END)], "empty", [], None, (5, 3), "length"),
    (
        "triton",
        [sse({"text_output": "a"}), sse({"text_output": ""}), sse({"text_output": "b", "model_name": "m"})],
        "ok", [1, 3], 1, (None, None), None,
    ),
    (
        "triton-trtllm",
        [sse({"text_output": "a"}), sse({"text_output": "b", "finish_reason": "stop", "num_output_tokens": 2})],
        "ok", [1, 2], 1, (None, 2), "stop",
    ),
    ("triton", [sse({"text_output": "a"}), sse({"error": "bad"})], "stream_error", [1], 1, (None, None), None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "reads", "outcome", "tokens_ms", "first_answer_ms", "counts", "finish"), STREAMS
)
def test_what_a_stream_amounts_to(
    name: str,
    reads: list[bytes],
    outcome: str,
    tokens_ms: list[int],
    first_answer_ms: int | None,
    counts: tuple[int | None, int | None],
    finish: str | None,
) -> None:
    made = Exchange(0, 0, dialect_named(name), stream=True)
    content_type = b"text/plain" if name == "vllm" else b"text/event-stream"
    made.on_headers(200, {b"content-type": content_type}, 0)
    for moment, read in enumerate(reads, 1):
        made.on_body(read, moment)
    made.on_complete(len(reads) + 1)
    assert made.outcome == outcome, made.error
    assert made.token_ns == tokens_ms
    assert made.first_answer_token_ns == first_answer_ms
    assert (made.prompt_tokens, made.output_tokens) == counts
    assert made.finish_reason == finish
    assert (made.error is not None) == (outcome in ("stream_error", "incomplete_stream"))


@pytest.mark.parametrize(
    ("name", "document", "outcome", "output_tokens"),
    [
        (
            "responses",
            {
                "status": "completed",
                "error": None,
                "output": [{"type": "message", "content": [{"type": "output_text", "text": "a"}]}],
                "usage": {"input_tokens": 5, "output_tokens": 1},
            },
            "ok",
            1,
        ),
        ("responses", {"status": "completed", "output": [{"type": "function_call"}]}, "ok", None),
        (
            "responses",
            {"status": "completed", "output": [{"type": "reasoning", "summary": ["x"]}]},
            "ok",
            None,
        ),
        ("responses", {"status": "completed", "output": []}, "empty", None),
        ("responses", {"status": "failed", "error": {"message": "no"}, "output": []}, "stream_error", None),
        ("vllm", {"text": ["abcx"]}, "ok", None),
        ("vllm", {"text": [""]}, "empty", None),
        (
            "sglang",
            {"text": "a", "meta_info": {"completion_tokens": 2, "finish_reason": {"type": "stop"}}},
            "ok",
            2,
        ),
        ("sglang", {"text": "", "meta_info": {"finish_reason": {"type": "abort"}}}, "stream_error", None),
        ("tgi", {"generated_text": "a", "details": {"generated_tokens": 2}}, "ok", 2),
        ("tgi", [{"generated_text": "a"}], "ok", None),
        ("tgi", {"error": "overloaded"}, "stream_error", None),
        ("triton", {"text_output": "a"}, "ok", None),
        ("triton", {"text_output": ""}, "empty", None),
    ],
)
def test_what_a_whole_answer_amounts_to(
    name: str, document: Any, outcome: str, output_tokens: int | None
) -> None:
    made = Exchange(0, 0, dialect_named(name), stream=False)
    made.on_headers(200, {b"content-type": b"application/json"}, 1)
    made.on_body(json.dumps(document).encode(), 2)
    made.on_complete(3)
    assert made.outcome == outcome, made.error
    assert made.output_tokens == output_tokens
    assert made.last_token_ns == (3 if outcome == "ok" else None)
    assert made.token_ns == []


@pytest.mark.parametrize(
    ("name", "path", "body"),
    [
        (
            "responses",
            "/v1/responses",
            {
                "model": "m",
                "input": "abc",
                "temperature": 0,
                "store": False,
                "max_output_tokens": 3,
                "stream": True,
            },
        ),
        ("vllm", "/generate", {"prompt": "abc", "temperature": 0, "stream": True, "max_tokens": 3}),
        (
            "sglang",
            "/generate",
            {"text": "abc", "sampling_params": {"temperature": 0, "max_new_tokens": 3}, "stream": True},
        ),
        (
            "tgi",
            "/generate_stream",
            {"inputs": "abc", "parameters": {"details": True, "do_sample": False, "max_new_tokens": 3}},
        ),
        (
            "triton",
            "/v2/models/m/generate_stream",
            {"text_input": "abc", "parameters": {"temperature": 0, "stream": True, "max_tokens": 3}},
        ),
        (
            "triton-trtllm",
            "/v2/models/m/generate_stream",
            {"text_input": "abc", "temperature": 0, "stream": True, "max_tokens": 3},
        ),
    ],
)
def test_what_is_asked(name: str, path: str, body: dict[str, Any]) -> None:
    dialect = dialect_named(name)
    assert dialect.path("m", stream=True) == path
    assert json.loads(dialect.body(ASK)) == body


@pytest.mark.parametrize("name", NATIVE)
def test_no_limit_is_asked_for_where_none_is_planned_and_a_length_only_where_it_can_be(name: str) -> None:
    dialect = dialect_named(name)
    unlimited = dialect.body(Ask("m", "abc", None, stream=False, force_length=True)).decode()
    assert not any(word in unlimited for word in ("max_", "min_", "ignore_eos", "null"))
    forced = dialect.body(Ask("m", "abc", 3, stream=True, force_length=True)).decode()
    assert ("min_" in forced) == dialect.can_force_length


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_lines_come_out_the_same_however_they_are_cut(stream: bytes, cuts: list[int]) -> None:
    borders = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    cut = LineScanner()
    found = [one for start, end in pairwise(borders) for one in cut.feed(stream[start:end])]
    uncut = LineScanner()
    assert found + cut.feed(b"\n") == uncut.feed(stream) + uncut.feed(b"\n")


@given(name=st.sampled_from(NATIVE), text=st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["text", "type", "response", "item", "token", "details", "meta_info", "delta", "usage", "choices",
             "error", "output", "status", "text_output", "generated_text", "finish_reason",
             "completion_tokens"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
))  # fmt: skip
def test_no_event_of_any_form_breaks_a_dialect(name: str, text: Any) -> None:
    stream = Exchange(0, 0, dialect_named(name), stream=True)
    stream.on_headers(200, {b"content-type": b"text/event-stream"}, 1)
    stream.on_body(line(text) if name == "vllm" else sse(text), 2)
    stream.on_complete(3)
    assert stream.outcome is not None
    document = Exchange(0, 0, dialect_named(name), stream=False)
    document.on_headers(200, {b"content-type": b"application/json"}, 1)
    document.on_body(json.dumps(text).encode(), 2)
    document.on_complete(3)
    assert document.outcome is not None


def answer(name: str, request: FakeRequest) -> Sequence[Step]:
    """A good answer of two tokens in the form of each dialect."""
    if name == "responses":
        events = [typed("response.output_text.delta", delta=text) for text in "ab"] + [completed()]
    elif name == "vllm":
        prompt = request.body["prompt"]
        return [
            head(content_type="text/plain"),
            *(chunk(line({"text": [prompt + text]})) for text in ("a", "ab")),
            LAST_CHUNK,
        ]
    elif name == "sglang":
        events = [sgl("a", 1), sgl("ab", 2, {"type": "length"}), sse("[DONE]")]
    elif name == "tgi":
        events = [tgi("a"), tgi("b", **TGI_END)]
    elif name.startswith("triton"):
        events = [sse({"text_output": text}) for text in "ab"]
    else:
        field = {"delta": {"content": "a"}} if name == "chat" else {"text": "a"}
        choice = {"index": 0, **field, "finish_reason": None}
        last = {"choices": [{**choice, "finish_reason": "length"}]}
        events = [sse({"choices": [choice]}), sse(last), sse("[DONE]")]
    return [head(), *(chunk(read) for read in events), LAST_CHUNK]


@pytest.mark.parametrize("name", NATIVE)
def test_a_worker_and_a_server_of_each_dialect_understand_each_other(name: str) -> None:
    with FakeTarget(lambda request: answer(name, request)) as fake:
        sent = send(fake.url, [0.0, 0.02], endpoint_type=name)
    assert sent.outcomes == ["ok", "ok"], [row["error"] for row in sent.records]
    assert [row["num_chunks"] for row in sent.records] == [2, 2]
    assert {request.path for request in fake.requests} == {dialect_named(name).path("fake", stream=True)}


IMAGE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
OLLAMA = """
[request]
path = "/api/chat"
headers = {X-Team = "inference"}

[request.body]
model = "{model}"
stream = "{stream}"
options = {num_predict = "{max_tokens}"}
messages = [{role = "user", content = "Q: {prompt}"}]

[answer]
framing = "lines"
text = "message.content"
reasoning = "message.thinking"
end = "done"
finish_reason = "done_reason"
prompt_tokens = "prompt_eval_count"
output_tokens = "eval_count"
"""
PICTURE = """
[request]
path = "/v1/images/generations"
[request.body]
prompt = "{prompt}"
n = 1
"""


def ollama(request: FakeRequest) -> Sequence[Step]:
    said = [
        {"message": {"content": "", "thinking": "hm"}},
        {"message": {"content": "a"}},
        {"message": {"content": "b"}},
    ]
    end = {
        "message": {"content": ""},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 7,
        "eval_count": 3,
    }
    return [
        head(content_type="application/x-ndjson"),
        *(chunk(line(one)) for one in [*said, end]),
        LAST_CHUNK,
    ]


def image(_: FakeRequest) -> Sequence[Step]:
    top = f"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: {len(IMAGE)}\r\n\r\n"
    return [Send(top.encode() + IMAGE)]


def template(folder: Path, text: str, name: str = "service.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_service_described_by_a_template_is_replayed_by_the_command(tmp_path: Path) -> None:
    trace = traces.written(tmp_path, [0.0, 0.05, 0.1])
    with FakeTarget(ollama) as fake:
        ran = command.run(
            "replay", trace, "--url", fake.url, "--dialect", "generic", "--template", template(tmp_path, OLLAMA),
            "--out-dir", tmp_path / "runs", "--chars-per-token", "1",
        )  # fmt: skip
    assert ran.returncode in (0, 4), ran.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    records = pq.read_table(folder / "requests.parquet").to_pylist()
    assert [row["outcome"] for row in records] == ["ok"] * 3
    assert {
        (row["prompt_tokens"], row["output_tokens"], row["num_chunks"], row["finish_reason"])
        for row in records
    } == {(7, 3, 3, "stop")}
    assert all(
        row["first_token_ns"] < row["first_answer_token_ns"] or row["num_coalesced"] for row in records
    )
    request = fake.requests[0]
    assert request.path == "/api/chat"
    assert request.headers["x-team"] == "inference"
    assert request.body["model"] == "fake"
    assert request.body["stream"] is True
    assert request.body["options"] == {"num_predict": 4}
    assert request.body["messages"][0]["content"].startswith("Q: ")
    assert len(request.body["messages"][0]["content"]) == 3 + 8


def test_an_image_is_an_answer(tmp_path: Path) -> None:
    with FakeTarget(image) as fake:
        sent = send(
            fake.url,
            [0.0, 0.02],
            endpoint_type="generic",
            template=read_template(template(tmp_path, PICTURE)),
        )
    assert sent.outcomes == ["ok", "ok"], sent.records
    for row in sent.records:
        assert row["last_token_ns"] == row["end_ns"]
        assert (row["num_chunks"], row["output_tokens"], row["first_token_ns"]) == (None, None, None)


def test_an_image_can_be_sent_within_json_or_alone(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(IMAGE)
    within = (
        '[request]\npath = "/see"\nbody = {url = "data:image/png;base64,{base64:cat.png}", ask = "{prompt}"}'
    )
    alone = '[request]\npath = "/raw"\nfile = "cat.png"\ncontent_type = "image/png"\nmethod = "PUT"'
    with FakeTarget(lambda _: [whole(200, {"label": "cat"})]) as fake:
        for number, text in enumerate((within, alone)):
            made = read_template(template(tmp_path, text, f"{number}.toml"))
            assert send(fake.url, [0.0], endpoint_type="generic", template=made).outcomes == ["ok"]
    assert base64.b64decode(fake.requests[0].body["url"].partition(",")[2]) == IMAGE
    assert len(fake.requests[0].body["ask"]) == 16
    assert fake.requests[1].raw_body == IMAGE
    assert (fake.requests[1].method, fake.requests[1].headers["content-type"]) == ("PUT", "image/png")


def generic(text: str, tmp_path: Path, *reads: bytes, content_type: bytes = b"text/event-stream") -> Exchange:
    dialect = dialect_named("generic", read_template(template(tmp_path, text)))
    made = Exchange(0, 0, dialect, stream=dialect.fixed_stream is not False)
    made.on_headers(200, {b"content-type": content_type}, 0)
    for moment, read in enumerate(reads, 1):
        made.on_body(read, moment)
    made.on_complete(len(reads) + 1)
    return made


REQUEST = '[request]\npath = "/x"\ntext = "{prompt}"\n[answer]\n'


@pytest.mark.parametrize(
    ("answer_keys", "reads", "outcome", "tokens"),
    [
        ('framing = "events"', [b"data: a\n\n", b"data: b\n\n"], "ok", [1, 2]),  # whatever comes is the answer
        ('framing = "events"\ntext = "a.b"\ncumulative = true', [sse({"a": {"b": t}}) for t in ("x", "x", "xy")],
         "ok", [1, 3]),
        ('framing = "events"\ntext = ["p", "q"]\nend_data = "END"', [sse({"q": "x"}), sse("END")], "ok", [1]),
        ('framing = "events"\ntext = "p"\nend_data = "END"', [sse({"p": "x"})], "incomplete_stream", [1]),
        ('framing = "events"\ntext = "p"\nerror = "fault.is"', [sse({"fault": {"is": "no"}})], "stream_error", []),
        ('framing = "events"\ntext = "p"', [sse({"error": {"message": "no"}})], "stream_error", []),
        ('framing = "events"\ntext = "p"', [sse("no json")], "stream_error", []),
        ('framing = "events"', [sse("words", "error")], "stream_error", []),
        ('framing = "lines"\ntext = "p"', [line({"p": ""})], "empty", []),
        ('framing = "whole"\ntext = "p.0"', [b'{"p": ["x"]}'], "ok", []),
        ('framing = "whole"\ntext = "p.0"', [b'{"p": []}'], "empty", []),
        ('framing = "whole"\ntext = "p"', [b"\x89PNG"], "reset", []),
        ("", [b'{"error": "no"}'], "stream_error", []),
        ("", [], "empty", []),
    ],
)  # fmt: skip
def test_a_template_says_what_is_a_token_an_end_and_an_error(
    tmp_path: Path, answer_keys: str, reads: list[bytes], outcome: str, tokens: list[int]
) -> None:
    made = generic(REQUEST + answer_keys, tmp_path, *reads)
    assert (made.outcome, made.token_ns) == (outcome, tokens), made.error


def test_values_are_put_in_whole_within_a_text_and_not_at_all(tmp_path: Path) -> None:
    text = """{"request": {"path": "/m/{model}/go", "body": {"n": "{max_tokens}", "deep": [{"n": "{max_tokens}"}],
        "s": "{stream}", "t": "<{prompt}> of {model}, {max_tokens} {other}", "k": 7}}}"""
    dialect = dialect_named("generic", read_template(template(tmp_path, text, "t.json")))
    assert dialect.needs_model
    assert dialect.path("a/b", stream=False) == "/m/a/b/go"
    ask = Ask('q"t', "abc", 3, stream=False, force_length=False)
    assert json.loads(dialect.body(ask)) == {
        "n": 3, "deep": [{"n": 3}], "s": False, "t": '<abc> of q"t, 3 {other}', "k": 7,
    }  # fmt: skip
    without = Ask("m", "abc", None, stream=False, force_length=False)
    assert json.loads(dialect.body(without)) == {
        "deep": [{}],
        "s": False,
        "t": "<abc> of m,  {other}",
        "k": 7,
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "[request]"),
        ('[request]\npath = "x"\ntext = ""', "request.path"),
        ('[request]\npath = "/x"', "body, text and file"),
        ('[request]\npath = "/x"\ntext = ""\nbody = {}', "body, text and file"),
        ('[request]\npath = "/x"\nfile = "absent"', "absent"),
        ('[request]\npath = "/x"\nbdy = {}', "request.bdy"),
        ('[request]\npath = "/x"\ntext = ""\nmethod = "P T"', "request.method"),
        ('[request]\npath = "/x"\ntext = ""\nheaders = {A = "x\\ny"}', "request.headers.A"),
        ('[request]\npath = "/x"\ntext = ""\n[answer]\nframing = "xml"', "answer.framing"),
        ('[request]\npath = "/x"\ntext = ""\n[answer]\ntext = 3', "answer.text"),
        ('[request]\npath = "/x"\ntext = ""\n[reply]\ntext = 3', "reply"),
        ("[request", "TOML"),
    ],
)
def test_a_wrong_template_is_refused_by_the_key(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(UsageError, match=named.replace("[", r"\[")):
        read_template(template(tmp_path, text))


@pytest.mark.parametrize(
    "flags",
    [
        ["--endpoint-type", "generic"],
        ["--template", "absent.toml", "--endpoint-type", "generic"],
        ["--endpoint-type", "tgi", "--ignore-eos"],
    ],
)
def test_wrong_use_is_refused_before_anything_is_sent(tmp_path: Path, flags: list[str]) -> None:
    trace = traces.written(tmp_path, [0.0])
    ran = command.run("replay", trace, "--url", "http://127.0.0.1:9", *flags, "--out-dir", tmp_path / "runs")
    assert ran.returncode == 2
    assert flags[0] in ran.stderr
    assert not (tmp_path / "runs").exists()


def test_a_server_that_needs_no_model_is_not_asked_for_one(tmp_path: Path) -> None:
    trace = traces.written(tmp_path, [0.0, 0.05])
    with FakeTarget(lambda request: answer("tgi", request)) as fake:
        ran = command.run(
            "replay", trace, "--url", fake.url, "--endpoint-type", "tgi", "--out-dir", tmp_path / "r"
        )
    assert ran.returncode in (0, 4), ran.stderr
    (folder,) = (tmp_path / "r").iterdir()
    assert json.loads((folder / "run.json").read_text())["target"]["dialect"] == "tgi"
    assert json.loads((folder / "run.json").read_text())["target"]["model"] is None
