"""The server as a process, over real sockets: one event a token, refusals, leaving, draining, the books."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

STAGES = [
    "parsed",
    "pre_start",
    "pre_end",
    "enqueued",
    "exec_start",
    "prefill_end",
    "first_token",
    "last_token",
    "finished",
]
_LONG_S = 30.0


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        lines = [line[6:] for line in self.body.decode().split("\n") if line.startswith("data: ")]
        assert lines[-1] == "[DONE]"
        return [json.loads(line) for line in lines[:-1]]


@dataclass
class Server:
    url: str
    process: subprocess.Popen[bytes]
    stderr: Path

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=_LONG_S)

    def ask(self, path: str, body: Any = None, **headers: str) -> Answer:
        connection = self.connect()
        try:
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, data, headers)
            response = connection.getresponse()
            heads = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, heads, response.read())
        finally:
            connection.close()

    def complete(self, **fields: Any) -> Answer:
        body = {"prompt": "Hello", "max_tokens": 4, "ignore_eos": True, **fields}
        return self.ask("/v1/completions", body)

    def begin(self, **fields: Any) -> socket.socket:
        """Send a streamed request and leave its answer unread."""
        body = {"prompt": "Hello", "max_tokens": 4, "ignore_eos": True, "stream": True, **fields}
        data = json.dumps(body).encode()
        parts = urlsplit(self.url)
        sent = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=_LONG_S)
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
        sent.sendall(head.encode() + data)
        return sent

    def meter(self, name: str) -> float:
        text = self.ask("/metrics").body.decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + "{"))

    def until(self, name: str, value: float) -> None:
        """Wait until a meter shows a value: events are asynchronous, and no time is assumed of them."""
        until_s = time.monotonic() + _LONG_S
        while self.meter(name) != value:
            assert time.monotonic() < until_s, f"{name} is {self.meter(name)}, not {value}"
            time.sleep(0.01)


@contextmanager
def started(folder: Path, *flags: str) -> Iterator[Server]:
    """The server on a free port. The caller ends it, or it is killed."""
    ready, stderr = folder / "ready.json", folder / "stderr.txt"
    command = [sys.executable, "-m", "loadgen_target", "--preset", "tiny", "--port", "0", "--ready-file"]
    with stderr.open("wb") as sink:
        process = subprocess.Popen([*command, str(ready), *flags], stderr=sink)
    try:
        until_s = time.monotonic() + 60
        while not ready.exists():
            assert process.poll() is None and time.monotonic() < until_s, stderr.read_text()
            time.sleep(0.02)
        facts = json.loads(ready.read_text())
        assert facts["pid"] == process.pid
        yield Server(facts["url"], process, stderr)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with started(tmp_path_factory.mktemp("server"), "--timeout", "none") as running:
        yield running


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_stream_has_one_event_a_token_and_then_the_counts(server: Server, path: str) -> None:
    prompt = {"prompt": "Hello"} if path == "/v1/completions" else {"messages": [{"content": "Hello"}]}
    body = {**prompt, "max_tokens": 6, "ignore_eos": True, "stream": True}
    answer = server.ask(path, {**body, "stream_options": {"include_usage": True}}, **{"X-Request-Id": "r-1"})
    *tokens, counts = answer.events
    texts = [
        event["choices"][0].get("text") or event["choices"][0].get("delta", {}).get("content")
        for event in tokens
    ]
    assert len(tokens) == 6 and all(len(text) == 1 for text in texts)
    assert [event["choices"][0]["finish_reason"] for event in tokens] == [None] * 5 + ["length"]
    assert counts["choices"] == []
    assert counts["usage"] == {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}
    assert answer.headers["x-request-id"] == "r-1"
    assert "queue;dur=" in answer.headers["server-timing"]
    if "chat" in path:
        assert tokens[0]["choices"][0]["delta"]["role"] == "assistant"
    assert {event["object"] for event in tokens} == {
        "chat.completion.chunk" if "chat" in path else "text_completion"
    }


def test_the_stages_are_whole_microseconds_in_order(server: Server) -> None:
    before_ns = time.monotonic_ns()
    stages = server.complete().json["metrics"]["loadgen"]
    assert before_ns < stages["recv_mono_ns"] < time.monotonic_ns()
    assert abs(time.time_ns() - stages["recv_unix_ns"]) < 60e9
    offsets = [stages[f"{name}_us"] for name in STAGES]
    assert all(type(offset) is int for offset in offsets)
    assert offsets == sorted(offsets) and offsets[0] >= 0
    assert (stages["v"], stages["policy"], stages["batch_at_start"], stages["steps"]) == (
        1,
        "continuous",
        1,
        4,
    )


def test_whole_answers_and_streams_say_the_same(server: Server) -> None:
    whole = server.complete(max_tokens=9).json
    streamed = server.complete(max_tokens=9, stream=True).events
    assert whole["choices"][0]["text"] == "".join(event["choices"][0]["text"] for event in streamed)
    assert whole["object"] == "text_completion"
    assert whole["usage"]["completion_tokens"] == 9


def test_prompts_come_in_every_usual_form(server: Server) -> None:
    texts = {
        server.complete(prompt=prompt).json["choices"][0]["text"]
        for prompt in ("Hello", ["Hello"], list(b"Hello"), [list(b"Hello")])
    }
    parts = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    for messages in (parts, [{"role": "user", "content": "Hello"}]):
        body = {"messages": messages, "max_completion_tokens": 4, "ignore_eos": True, "unknown": {"x": 1}}
        texts.add(server.ask("/v1/chat/completions", body).json["choices"][0]["message"]["content"])
    assert len(texts) == 1


def test_a_stop_text_ends_the_answer_before_it(server: Server) -> None:
    text = server.complete(max_tokens=12).json["choices"][0]["text"]
    stop = text[4:7]
    answer = server.complete(max_tokens=12, stop=["never seen", stop]).json["choices"][0]
    assert (answer["text"], answer["finish_reason"]) == (text[: text.index(stop)], "stop")
    streamed = server.complete(max_tokens=12, stop=stop, stream=True).events
    assert "".join(event["choices"][0]["text"] for event in streamed) == answer["text"]


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        ({"prompt": "Hello", "max_tokens": 508}, ["513", "512"]),
        ({"prompt": "x" * 512, "max_tokens": 1}, ["513", "512"]),
        ({"prompt": "Hello", "n": 2}, ["2"]),
        ({"prompt": "Hello", "max_tokens": 0}, ["0"]),
        ({"prompt": "Hello", "max_tokens": 4, "min_tokens": 5}, ["5", "4"]),
        ({"prompt": [1, 4000]}, ["4000"]),
        ({"prompt": ["a", "b"]}, ["2"]),
        ({"prompt": "Hello", "temperature": "hot"}, ["hot"]),
        ({}, ["prompt"]),
        (b"{not json", ["JSON"]),
        (b"[]", ["object"]),
    ],
)
def test_a_request_that_cannot_be_served_is_told_why(server: Server, body: Any, numbers: list[str]) -> None:
    answer = server.ask("/v1/completions", body)
    assert answer.status == 400
    error = answer.json["error"]
    assert error["code"] == 400 and all(number in error["message"] for number in numbers)


@pytest.mark.parametrize("policy", ["serial", "fixed-window", "dynamic", "continuous"])
def test_one_that_is_too_long_stops_nobody_behind_it(policy: str, tmp_path: Path) -> None:
    # F71: who waits behind it is served.
    with started(tmp_path, "--policy", policy, "--max-model-len", "256", "--timeout", "none") as server:
        running = server.begin(max_tokens=200)
        assert server.complete(prompt="x" * 200, max_tokens=100).status == 400
        assert server.complete(prompt="x" * 100, max_tokens=100).json["usage"]["total_tokens"] == 200
        assert b"[DONE]" in _all(running)
        server.until("vllm:num_requests_running", 0)
        assert server.meter("vllm:kv_cache_usage_perc") == 0


def test_the_largest_request_that_fits_is_served(server: Server) -> None:
    assert server.complete(prompt="x" * 504, max_tokens=8).json["usage"]["total_tokens"] == 512


def test_pages(server: Server) -> None:
    assert server.ask("/health").status == 200
    assert server.ask("/v1/models").json["data"][0]["id"] == "tiny"
    facts = server.ask("/loadgen/facts").json
    assert {"name", "version", "policy", "flags", "preset", "device", "torch"} <= set(facts)
    # The tiny model stays in the cache: what is not known is null, and has its reason.
    assert facts["engine"]["read_bandwidth_bytes_per_s"] is None and facts["engine"]["read_bandwidth_reason"]
    assert server.ask("/nowhere").status == 404
    assert server.ask("/v1/completions").status == 405
    metrics = server.ask("/metrics").body.decode()
    for name in (
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:request_success_total",
        "vllm:time_to_first_token_seconds_bucket",
        "vllm:e2e_request_latency_seconds_bucket",
        "vllm:request_queue_time_seconds_bucket",
        "vllm:request_prefill_time_seconds_bucket",
        "vllm:request_decode_time_seconds_bucket",
        "loadgen_target:preprocess_seconds_bucket",
        "loadgen_target:batch_size_bucket",
        "loadgen_target:useful_rows_total",
        "loadgen_target:rows_total",
        "loadgen_target:step_busy_seconds_total",
        "loadgen_target:kernel_seconds_total",
        "loadgen_target:cpu_wait_seconds_total",
        "loadgen_target:rejected_total",
        "loadgen_target:timed_out_total",
        "loadgen_target:cancelled_total",
        "loadgen_target:num_preprocess_waiting",
        "loadgen_target:active_seconds_total",
        "loadgen_target:engine_restarts_total",
        "vllm:request_inference_time_seconds_bucket",
        "vllm:request_time_per_output_token_seconds_bucket",
        "vllm:iteration_tokens_total_bucket",
    ):
        assert f"\n{name}{{" in metrics, name


def test_one_who_leaves_frees_the_slot(server: Server) -> None:
    # F72.
    cancelled = server.meter("loadgen_target:cancelled_total")
    gone = server.begin(max_tokens=500)
    assert gone.recv(100)
    server.until("vllm:num_requests_running", 1)
    gone.close()
    server.until("loadgen_target:cancelled_total", cancelled + 1)
    server.until("vllm:num_requests_running", 0)
    assert server.meter("vllm:kv_cache_usage_perc") == 0


def test_health_and_others_are_answered_during_a_step_and_tokens_come_one_by_one(tmp_path: Path) -> None:
    # F75.
    with started(tmp_path, "--step-delay-ms", "1500", "--timeout", "none") as server:
        running = server.begin(max_tokens=3)
        for _ in range(5):
            assert server.ask("/health").status == 200
        assert server.ask("/v1/completions", b"{").status == 400
        # All that before the end of the first step, with the connection still silent.
        assert not select.select([running], [], [], 0)[0]
        said = b""
        while said.count(b"data: ") < 1:
            said += running.recv(65536)
        assert said.count(b"data: ") == 1
        assert server.ask("/health").status == 200 and not select.select([running], [], [], 0)[0]
        assert _all(running).count(b"data: ") == 3


def test_one_who_leaves_before_a_whole_answer_frees_the_slot_at_once(tmp_path: Path) -> None:
    steps = tmp_path / "steps.parquet"
    with started(tmp_path, "--step-delay-ms", "20", "--timeout", "none", "--step-log", str(steps)) as server:
        other = server.begin(max_tokens=60)
        gone = server.begin(max_tokens=500, stream=False)
        server.until("vllm:num_requests_running", 2)
        gone.close()
        server.until("loadgen_target:cancelled_total", 1)
        server.until("vllm:num_requests_running", 1)
        assert b"[DONE]" in _all(other)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(_LONG_S) == 0
    # It would have taken 500 steps.
    assert len(pq.read_table(steps)) < 120


def test_the_queue_refuses_at_its_limit_and_the_books_hold_every_request(tmp_path: Path) -> None:
    log, steps = tmp_path / "requests.parquet", tmp_path / "steps.parquet"
    flags = ["--policy", "serial", "--max-queue-size", "2", "--step-delay-ms", "5", "--timeout", "20s"]
    with started(tmp_path, *flags, "--request-log", str(log), "--step-log", str(steps)) as server:
        running = server.begin(max_tokens=400)
        server.until("vllm:num_requests_running", 1)
        waiting = []
        for count in (1, 2):
            waiting.append(server.begin(max_tokens=3))
            server.until("vllm:num_requests_waiting", count)
        refused = server.complete()
        assert refused.status == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 30
        assert refused.json["error"]["code"] == 429 and "2" in refused.json["error"]["message"]
        waiting.pop().close()  # leaves while it waits
        server.until("vllm:num_requests_waiting", 1)
        running.close()  # leaves while it runs
        assert b"[DONE]" in _all(waiting.pop())
        assert server.complete(n=3).status == 400
        assert not log.exists() and log.with_name(log.name + ".partial").exists()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(_LONG_S) == 0
    rows = pq.read_table(log).to_pylist()
    assert [row["http_status"] for row in rows].count(429) == 1
    ends = sorted(row["status"] for row in rows)
    assert len(rows) == 5 and ends.count("cancelled") == 2 and ends.count("ok") == 1
    for row in rows:
        stamps = [row["recv_ns"], *(row[f"{name}_ns"] for name in STAGES)]
        reached = [stamp for stamp in stamps if stamp is not None]
        assert reached == sorted(reached)
        assert (None not in stamps) == (row["status"] == "ok")
    columns = pq.read_table(steps)
    assert set(columns.column("rows").to_pylist()) == {1}
    wanted = {
        "t_start_ns",
        "t_end_ns",
        "kind",
        "rows",
        "useful_rows",
        "new_tokens",
        "kv_tokens",
        "cpu_ns",
        "cpu_wait_ns",
        "num_waiting",
    }
    assert not wanted - set(columns.column_names)


def test_time_runs_out_before_the_first_token_and_after_it(tmp_path: Path) -> None:
    flags = ["--policy", "serial", "--timeout", "800ms", "--step-delay-ms", "10", "--overload-status", "503"]
    with started(tmp_path, *flags, "--max-queue-size", "1") as server:
        running = server.begin(max_tokens=400)
        server.until("vllm:num_requests_running", 1)
        late = server.begin(max_tokens=400)  # starts once the first is cut, or is cut in the queue
        server.until("vllm:num_requests_waiting", 1)
        refused = server.complete()
        assert refused.status == 503 and "retry-after" in refused.headers
        said = _all(running)
        assert b" 200 " in said.split(b"\r\n")[0]
        assert b'"code":504' in said and said.rindex(b"[DONE]") > said.index(b'"code":504')
        assert b"504" in _all(late)
        server.until("loadgen_target:timed_out_total", 2)


def test_time_runs_out_for_one_who_never_sends_the_body(tmp_path: Path) -> None:
    with started(tmp_path, "--timeout", "300ms", "--max-queue-size", "1") as server:
        parts = urlsplit(server.url)
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=_LONG_S) as silent:
            silent.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n")
            assert b" 504 " in silent.recv(65536).split(b"\r\n")[0]
        server.until("loadgen_target:timed_out_total", 1)
        assert server.complete().status == 200  # its place is free again


def test_a_drain_finishes_what_runs_and_takes_no_more(tmp_path: Path) -> None:
    with started(tmp_path, "--step-delay-ms", "10", "--timeout", "none") as server:
        running = server.begin(max_tokens=200)
        server.until("vllm:num_requests_running", 1)
        server.process.send_signal(signal.SIGTERM)
        until_s = time.monotonic() + _LONG_S
        while server.ask("/health").status == 200:
            assert time.monotonic() < until_s
        assert server.complete().status == 503
        said = _all(running)
        assert said.count(b"data: ") == 201 and b'"finish_reason":"length"' in said
        assert server.process.wait(_LONG_S) == 0


@pytest.mark.parametrize(("limit", "signals"), [("200ms", 1), ("10m", 2)])
def test_a_drain_ends_at_its_limit_or_at_the_second_signal(tmp_path: Path, limit: str, signals: int) -> None:
    flags = ["--step-delay-ms", "100", "--timeout", "none", "--shutdown-timeout", limit]
    with started(tmp_path, *flags) as server:
        running = server.begin(max_tokens=400)
        server.until("vllm:num_requests_running", 1)
        for count in range(signals):
            server.process.send_signal(signal.SIGTERM)
            until_s = time.monotonic() + _LONG_S
            while count + 1 < signals and server.ask("/health").status == 200:
                assert time.monotonic() < until_s
        assert b'"code":500' in _all(running)
        assert server.process.wait(_LONG_S) == 0
        assert "1 requests unfinished" in server.stderr.read_text()


def test_the_death_of_the_engine_reaches_the_clients_and_the_exit_code(tmp_path: Path) -> None:
    with started(tmp_path, "--step-delay-ms", "10", "--timeout", "none") as server:
        running = server.begin(max_tokens=200)
        server.until("vllm:num_requests_running", 1)
        os.kill(server.ask("/loadgen/facts").json["engine_pid"], signal.SIGKILL)
        assert b'"code":500' in _all(running)
        assert server.process.wait(_LONG_S) == 1
        lines = server.stderr.read_text().splitlines()
        assert len(lines) == 2 and "engine" in lines[1]


def test_an_engine_that_died_is_started_again_where_told_so(tmp_path: Path) -> None:
    with started(tmp_path, "--step-delay-ms", "10", "--timeout", "none", "--restart-engine") as server:
        running = server.begin(max_tokens=200)
        server.until("vllm:num_requests_running", 1)
        first = server.ask("/loadgen/facts").json["engine_pid"]
        os.kill(first, signal.SIGKILL)
        assert b'"code":500' in _all(running)
        until_s = time.monotonic() + _LONG_S
        while server.ask("/health").status != 200:
            assert time.monotonic() < until_s
            assert server.complete().status in (200, 503)
            time.sleep(0.02)
        assert server.complete().status == 200
        assert server.ask("/loadgen/facts").json["engine_pid"] != first
        assert server.meter("loadgen_target:engine_restarts_total") == 1
        server.until("vllm:num_requests_running", 0)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(_LONG_S) == 0
        assert sum("has died" in line for line in server.stderr.read_text().splitlines()) == 1


def test_one_who_does_not_read_stalls_nobody(tmp_path: Path) -> None:
    with started(tmp_path, "--policy", "null", "--max-model-len", "200000", "--timeout", "none") as server:
        # Far more than the sockets between the two hold.
        slow = server.begin(max_tokens=150_000)
        assert slow.recv(1)
        assert [server.complete(max_tokens=50).status for _ in range(5)] == [200] * 5
        assert server.ask("/health").status == 200
        assert server.meter("vllm:request_success_total") == 5
        said = 1
        while part := slow.recv(1 << 20):
            said += len(part)
            if part.endswith(b"0\r\n\r\n"):
                break
        slow.close()
        server.until("vllm:request_success_total", 6)
        assert said > 150_000 * len('data: {"choices"')


def test_long_prompts_come_in_parts_and_the_step_log_says_so(server: Server, tmp_path: Path) -> None:
    steps = tmp_path / "steps.parquet"
    flags = ["--enable-chunked-prefill", "--max-num-batched-tokens", "32", "--step-log", str(steps)]
    prompt = "a long prompt " * 20
    with started(tmp_path, *flags) as chunked:
        answer = chunked.complete(prompt=prompt, max_tokens=9).json["choices"]
        assert chunked.ask("/loadgen/facts").json["flags"]["chunked_prefill"] is True
        chunked.process.send_signal(signal.SIGTERM)
        assert chunked.process.wait(_LONG_S) == 0
    rows = pq.read_table(steps).to_pylist()
    assert [row["new_tokens"] for row in rows] == [*[32] * 8, 24, *[1] * 8]
    assert {row["kind"] for row in rows[:9]} == {"mixed"} and {row["kind"] for row in rows[9:]} == {"decode"}
    assert all(
        row["kernel_ns"] > 0 and row["active_ns"] == row["t_end_ns"] - row["t_start_ns"] for row in rows
    )
    assert answer == server.complete(prompt=prompt, max_tokens=9).json["choices"]


def test_the_null_policy_needs_no_model(tmp_path: Path) -> None:
    with started(tmp_path, "--policy", "null", "--timeout", "none") as server:
        assert server.complete(max_tokens=300).json["usage"]["completion_tokens"] == 300
        assert len(server.complete(max_tokens=300, stream=True).events) == 300
        threads = [threading.Thread(target=server.complete) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.until("vllm:request_success_total", 18)


def test_a_port_in_use_is_one_line_and_code_2(server: Server) -> None:
    port = str(urlsplit(server.url).port)
    ended = subprocess.run(
        [sys.executable, "-m", "loadgen_target", "--port", port], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert port in ended.stderr and len(ended.stderr.splitlines()) == 1


def _all(connection: socket.socket) -> bytes:
    """Everything up to the end of a streamed answer, in its chunks; closes the connection."""
    said = b""
    with connection:
        while not said.endswith(b"\r\n0\r\n\r\n"):
            part = connection.recv(65536)
            if not part:
                break
            said += part
            if b"Content-Length" in said or b"content-length" in said:
                connection.settimeout(0.5)
                if said.endswith(b"}"):
                    break
    return said
