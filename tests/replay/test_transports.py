"""The contract of the transports: over real sockets, the same bytes make the same records with each of them."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loadgen.replay.target import Timeouts
from loadgen.replay.transport import TRANSPORT_NAMES
from loadgen.testing import (
    LAST_CHUNK,
    Close,
    FakeRequest,
    FakeTarget,
    HalfClose,
    Send,
    Step,
    Wait,
    chat_stream,
    chunk,
    event,
    head,
    one_byte_at_a_time,
    whole,
)
from support import command, traces
from support.http2_server import Http2Server
from support.proxy import ForwardProxy
from support.sending import Sent, send

TOKEN = event({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]})
HANG = Wait(30.0)
LIMITS = Timeouts(first_token_s=1.0, gap_s=1.0, total_s=20.0)
# The moments of a record are compared by whether they happened; how the error is worded is the library's.
MOMENTS = ("error", *(f"{name}_ns" for name in ("dispatched", "sent", "headers", "first_byte", "first_token",
           "first_answer_token", "last_token", "end")))  # fmt: skip
LEFT_OUT = ("planned_ns", "chunk_gap_us", "num_coalesced")

every_transport = pytest.mark.parametrize("transport", TRANSPORT_NAMES)


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    facts = {name: value for name, value in record.items() if name not in LEFT_OUT}
    return (
        facts
        | {name: record[name] is not None for name in MOMENTS}
        | {"gaps": len(record["chunk_gap_us"] or ())}
    )


@dataclass(frozen=True)
class Fault:
    """What a server does to one request, and what must come of it."""

    steps: Sequence[Step]
    outcome: str
    chunks: int = 0
    status: int | None = 200
    error: str | None = None


def zipped(*documents: Any) -> list[Step]:
    """A stream in gzip, cut where no event ends."""
    text = "".join(f"data: {one if isinstance(one, str) else json.dumps(one)}\n\n" for one in documents)
    packed = gzip.compress(text.encode())
    middle = len(packed) // 2
    return [
        head(extra="Content-Encoding: gzip\r\n"),
        chunk(packed[:middle]),
        Wait(0.02),
        chunk(packed[middle:]),
    ]


def delta(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


EMOJI = b'data: {"choices":[{"delta":{"content":"\xf0\x9f\x98\x80"},"finish_reason":"stop"}]}\n\n'
FAULTS = {
    "reset": Fault([Close(reset=True)], "reset", status=None),
    "closed": Fault([Close()], "reset", status=None),
    "reset in the head": Fault(
        [Send(b"HTTP/1.1 200 OK\r\nContent-"), Wait(0.02), Close(reset=True)], "reset", status=None
    ),
    "closed in the head": Fault([Send(b"HTTP/1.1 200 OK\r\nContent-"), Close()], "reset", status=None),
    "reset in mid-stream": Fault([head(), TOKEN, TOKEN, Wait(0.02), Close(reset=True)], "reset", 2),
    "closed in mid-stream": Fault([head(), TOKEN, TOKEN, Close()], "incomplete_stream", 2),
    "half-closed in mid-stream": Fault([head(), TOKEN, HalfClose(), HANG], "incomplete_stream", 1),
    "half-closed before the head": Fault([HalfClose(), HANG], "reset", status=None),
    "closed before its length": Fault(
        [Send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{"), Close()],
        "incomplete_stream",
    ),
    "no finish reason": Fault([head(), TOKEN, TOKEN, LAST_CHUNK], "incomplete_stream", 2),
    "ends with the connection": Fault(
        [Send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"), Send(EMOJI), Close()], "ok", 1
    ),
    "not HTTP": Fault([Send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")], "reset", status=None, error="not HTTP"),
    "garbage status": Fault([Send(b"HTTP/1.1 twohundred OK\r\n\r\n")], "reset", status=None, error="not HTTP"),
    "100 MB head": Fault(
        [Send(b"HTTP/1.1 200 OK\r\n"), *[Send(b"X-Pad: " + b"y" * 8000 + b"\r\n")] * 12_500], "reset", status=None
    ),
    "long header": Fault(
        [Send(b"HTTP/1.1 200 OK\r\nX-Pad: " + b"y" * 600_000 + b"\r\n\r\n")], "reset", status=None
    ),
    "bad chunk size": Fault([head(), Send(b"zz\r\nno chunk size\r\n")], "reset", error="not HTTP"),
    "chunk longer than its size": Fault([head(), TOKEN, Wait(0.02), Send(b"3\r\ndata: more\r\n")], "reset", 1),
    "error event": Fault(
        [head(), event({"error": {"message": "engine died"}}), event("[DONE]"), LAST_CHUNK],
        "stream_error", error="engine died",
    ),
    "error in a whole 200": Fault([whole(200, {"error": {"message": "no room"}})], "stream_error", error="no room"),
    "broken JSON": Fault([head(), chunk(b"data: {broken\n\n"), event("[DONE]"), LAST_CHUNK], "stream_error"),
    "no token": Fault([head(), event(delta("", "stop")), event("[DONE]"), LAST_CHUNK], "empty"),
    "301": Fault([whole(301, {}, "Location: /elsewhere\r\n")], "http_error", status=301),
    "401": Fault([whole(401, {"error": {"message": "no key"}})], "http_error", status=401, error="no key"),
    "404": Fault([whole(404, {})], "http_error", status=404),
    "500": Fault([whole(500, {})], "http_error", status=500),
    "429": Fault([whole(429, {}, "Retry-After: 3\r\n")], "rejected", status=429),
    "503": Fault([whole(503, {})], "rejected", status=503),
    "500 without an end": Fault([head(500), chunk(b"oops"), Close()], "reset", status=500),
    "hangs before the head": Fault([HANG], "timeout_first_token", status=None),
    "hangs before a token": Fault([head(), HANG], "timeout_first_token"),
    "hangs between tokens": Fault([head(), TOKEN, HANG], "timeout_gap", 1),
    "hangs after DONE": Fault([*chat_stream(2)[:-1], HANG], "ok", 2),  # what follows is nobody's wait
    "reset after DONE": Fault([*chat_stream(2)[:-1], Close(reset=True)], "ok", 2),
    "one byte at a time": Fault([*one_byte_at_a_time(chat_stream(2))], "ok", 2),
    "gzip": Fault([*zipped(delta("a"), delta("b", "stop"), "[DONE]"), LAST_CHUNK], "ok", 2),
    "broken gzip": Fault([head(extra="Content-Encoding: gzip\r\n"), chunk(b"no gzip at all"), HANG], "reset"),
    "cut within a character": Fault(
        [head(), chunk(EMOJI[:46]), Wait(0.02), chunk(EMOJI[46:]), event("[DONE]"), LAST_CHUNK], "ok", 1
    ),
    "early hints": Fault([Send(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), *chat_stream(2)], "ok", 2),
    "events in one read": Fault(
        [head(), chunk(f"data: {json.dumps(delta('x'))}\n\n".encode() * 5 + EMOJI), LAST_CHUNK],
        "ok", 6,
    ),
}  # fmt: skip


def sent_over(transport: str, fault: Fault) -> Sent:
    with FakeTarget(lambda request: chat_stream(2) if request.row else fault.steps) as fake:
        return send(
            fake.url, [0.0, 0.25], transport=transport, timeouts=LIMITS, drain_s=20.0, warm_connections=0
        )


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_lands_in_its_own_outcome_with_the_same_record_over_each_transport(name: str) -> None:
    # F05, F07 and the table of misbehaving servers; a good request beside the bad one is not touched.
    fault = FAULTS[name]
    by_transport = {transport: sent_over(transport, fault) for transport in TRANSPORT_NAMES}
    for transport, sent in by_transport.items():
        assert sent.outcomes == [fault.outcome, "ok"], (transport, sent.records[0]["error"])
        record = sent.records[0]
        assert (record["num_chunks"], record["status_code"]) == (fault.chunks, fault.status), transport
        assert record["sent_ns"] is not None
        assert record["end_ns"] is not None
        assert fault.error is None or fault.error in record["error"], (transport, record["error"])
    fast, httpx = ([comparable(record) for record in sent.records] for sent in by_transport.values())
    assert fast[0] == httpx[0]
    # Whether the bad request's connection was free again by the time of the good one is a matter of moments.
    of_moments = ("connection_reused", "num_reconnects")
    assert [{**record, **dict.fromkeys(of_moments)} for record in fast[1:]] == [
        {**record, **dict.fromkeys(of_moments)} for record in httpx[1:]
    ]


@every_transport
def test_events_of_one_read_have_one_moment_and_count_as_coalesced(transport: str) -> None:
    # F21: however the bytes are parsed, what came together came together.
    record = sent_over(transport, FAULTS["events in one read"]).records[0]
    assert record["num_coalesced"] == 5
    assert record["chunk_gap_us"] == [0] * 5


@every_transport
def test_what_a_rejecting_server_asks_for_is_kept(transport: str) -> None:
    assert sent_over(transport, FAULTS["429"]).records[0]["retry_after_s"] == 3.0


@every_transport
def test_the_moments_stand_in_their_order(transport: str) -> None:
    with FakeTarget(lambda _: chat_stream(3, first_s=0.03, gap_s=0.02)) as fake:
        sent = send(fake.url, [0.0, 0.05], transport=transport)
    for row in sent.records:
        names = ("planned", "dispatched", "sent", "headers", "first_byte", "first_token", "last_token", "end")
        moments = [row[f"{name}_ns"] for name in names]
        assert moments == sorted(moments)
        assert row["first_token_ns"] - row["sent_ns"] >= 30_000_000
        assert row["last_token_ns"] - row["first_token_ns"] >= 30_000_000


@every_transport
def test_the_same_bytes_are_asked_for(transport: str) -> None:
    with FakeTarget(lambda _: chat_stream(1)) as fake:
        send(fake.url, [0.0], transport=transport, target_changes={"headers": (("X-Team", "inference"),)})
    request = fake.requests[0]
    assert request.path == "/v1/chat/completions"
    host = fake.url.removeprefix("http://")
    names = ("host", "content-type", "accept", "accept-encoding", "x-team", "x-request-id", "content-length")
    assert tuple(request.headers) == names
    assert request.headers["host"] == host
    assert int(request.headers["content-length"]) == len(request.raw_body)


@every_transport
def test_a_closed_port_is_refused(transport: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    sent = send(f"http://127.0.0.1:{port}", [0.0] * 5, transport=transport)
    assert sent.outcomes == ["refused"] * 5
    assert all(row["sent_ns"] is None and row["last_token_ns"] is None for row in sent.records)
    assert all((row["num_reconnects"], row["connection_reused"]) == (0, None) for row in sent.records)
    assert "refused" in sent.records[0]["error"].lower()


@every_transport
def test_a_port_that_never_answers_times_out_to_connect(transport: str) -> None:
    # A full backlog: the kernel drops what more comes in.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        sent = send(url, [0.0], transport=transport, timeouts=Timeouts(connect_s=0.3), warm_connections=0)
        for filler in fillers:
            filler.close()
    assert sent.outcomes == ["timeout_connect"]
    assert sent.records[0]["sent_ns"] is None


@every_transport
def test_requests_that_are_due_together_are_sent_together(transport: str) -> None:
    # F56: no pool limit stands between a request and its moment.
    with FakeTarget(lambda _: chat_stream(1, first_s=2.0)) as fake:
        sent = send(fake.url, [0.0] * 150, transport=transport)
    assert sent.outcomes == ["ok"] * 150
    assert fake.max_in_flight == 150


@every_transport
def test_a_kept_connection_that_died_is_replaced_without_a_failure(transport: str) -> None:
    # F57: the server closes right after it has answered, without saying so.
    with FakeTarget(lambda _: [*chat_stream(1), Close()]) as fake:
        sent = send(fake.url, [0.1 * k for k in range(6)], warm_connections=0, transport=transport)
    assert sent.outcomes == ["ok"] * 6


@every_transport
def test_a_kept_connection_reset_by_the_request_is_tried_once_more(transport: str) -> None:
    # F57: the first request on each connection is answered, the second one kills it unanswered.
    def script(request: FakeRequest) -> list[Step]:
        return [Close(reset=True)] if request.serial == 1 else chat_stream(1)

    with FakeTarget(script) as fake:
        sent = send(fake.url, [0.0, 0.6], warm_connections=0, transport=transport)
    assert sent.outcomes == ["ok", "ok"]
    assert [row["num_reconnects"] for row in sent.records] == [0, 1]
    assert [row["connection_reused"] for row in sent.records] == [False, False]


@every_transport
def test_a_connection_is_used_again(transport: str) -> None:
    with FakeTarget(lambda _: chat_stream(1)) as fake:
        sent = send(fake.url, [0.0, 0.3, 0.6], warm_connections=0, transport=transport)
    # On a busy machine an answer may take longer than the time to the next request; then there are two.
    assert not sent.records[0]["connection_reused"]
    assert any(row["connection_reused"] for row in sent.records)
    assert fake.num_connections < 3


@every_transport
def test_each_request_can_have_a_connection_of_its_own(transport: str) -> None:
    # F57: reuse turned off.
    with FakeTarget(lambda _: chat_stream(1)) as fake:
        changes = {"reuse": False}
        sent = send(
            fake.url, [0.0, 0.3, 0.6], warm_connections=0, transport=transport, target_changes=changes
        )
    assert [row["connection_reused"] for row in sent.records] == [False] * 3
    assert sent.outcomes == ["ok"] * 3
    assert fake.num_connections == 3
    assert {request.headers["connection"] for request in fake.requests} == {"close"}


@every_transport
def test_the_end_of_the_drain_ends_what_hangs(transport: str) -> None:
    # F35
    with FakeTarget(lambda request: [HANG] if request.row == 0 else chat_stream(1)) as fake:
        sent = send(fake.url, [0.0, 0.05], drain_s=2.0, transport=transport)
    assert sent.outcomes == ["unfinished", "ok"]
    assert sent.records[0]["end_ns"] / 1e9 >= 2.0


@every_transport
def test_a_unix_socket_is_a_target(transport: str, tmp_path: Path) -> None:
    with FakeTarget(lambda _: chat_stream(2), unix_socket=str(tmp_path / "s")) as fake:
        sent = send(fake.url, [0.0, 0.2], transport=transport)
    assert sent.outcomes == ["ok", "ok"]
    assert fake.requests[0].headers["host"] == "localhost"


@pytest.mark.parametrize(
    "flags", [["--url", "unix:{}"], ["--url", "http://localhost", "--unix-socket", "{}"]]
)
def test_the_command_replays_at_a_unix_socket(flags: list[str], tmp_path: Path) -> None:
    path = tmp_path / "target.sock"
    trace = traces.written(tmp_path, [0.0, 0.05])
    with FakeTarget(lambda _: chat_stream(2), unix_socket=str(path)) as fake:
        ran = command.run(
            "replay", trace, *(flag.format(path) for flag in flags), "--out-dir", tmp_path / "runs"
        )
    assert ran.returncode in (0, 4), ran.stderr
    assert len(fake.requests) == 2
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "run.json").read_text())["target"]["url"] == f"unix:{path}"


def test_a_unix_socket_that_nobody_listens_at_fails_the_run(tmp_path: Path) -> None:
    trace = traces.written(tmp_path, [0.0])
    ran = command.run("replay", trace, "--url", f"unix:{tmp_path}/absent", "--out-dir", tmp_path / "runs")
    assert ran.returncode == 5
    assert "absent" in ran.stderr


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--url", "unix:relative"], "--url"),
        (["--serve", "", "--unix-socket", "/s"], "--unix-socket"),
        (["--url", "http://127.0.0.1:9", "--transport", "carrier"], "--transport"),
        (["--url", "http://127.0.0.1:9", "--proxy", "http://127.0.0.1:9"], "--transport fast"),
        (["--url", "http://127.0.0.1:9", "--http2"], "--transport fast"),
        (
            ["--url", "http://127.0.0.1:9", "--transport", "httpx", "--proxy", "ftp://u:SENTINEL@x:1"],
            "--proxy",
        ),
        (["--url", "https://127.0.0.1:9", "--cert-key", "absent"], "--cert-key"),
    ],
)
def test_wrong_use_is_refused_by_the_flag(flags: list[str], named: str, tmp_path: Path) -> None:
    trace = traces.written(tmp_path, [0.0])
    ran = command.run("replay", trace, *flags, "--out-dir", tmp_path / "runs")
    assert ran.returncode == 2, ran.stderr
    assert named in ran.stderr
    assert "SENTINEL" not in ran.stderr + ran.stdout


def test_the_scripted_target_sends_each_piece_at_once() -> None:
    # By default a second piece waits 40 ms for the first one's ACK; what accepts hands its options on.
    with FakeTarget(lambda _: chat_stream(1)) as fake:
        assert send(fake.url, [0.0]).outcomes == ["ok"]
        assert fake._listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# --- TLS and client certificates ---


@dataclass(frozen=True)
class Authority:
    """Certificates for one test, signed by an authority of its own. server: asks each client for a certificate."""

    server: ssl.SSLContext
    client: Path
    client_key: Path


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed: no certificate can be made")
    folder = tmp_path_factory.mktemp("tls")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], check=True, capture_output=True, cwd=folder)

    new = ("-newkey", "rsa:2048", "-nodes")
    run("req", "-x509", *new, "-days", "1", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    for name in ("localhost", "client"):
        run("req", *new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "1", "-out", f"{name}.pem")  # fmt: skip
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "localhost.pem", folder / "localhost.key")
    server.load_verify_locations(folder / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    return Authority(server, folder / "client.pem", folder / "client.key")


@every_transport
def test_a_client_certificate_is_shown(authority: Authority, transport: str, tmp_path: Path) -> None:
    trace = traces.written(tmp_path, [0.0, 0.1])
    with FakeTarget(lambda _: chat_stream(2), tls=authority.server) as fake:
        common = ("replay", trace, "--url", fake.url, "--insecure", "--transport", transport)
        known = command.run(
            *common,
            "--out-dir",
            tmp_path / "a",
            "--cert",
            authority.client,
            "--cert-key",
            authority.client_key,
        )
        unknown = command.run(*common, "--out-dir", tmp_path / "b")
    assert known.returncode in (0, 4), known.stderr
    assert "2 ok" in known.stdout
    assert unknown.returncode == 5
    assert "Traceback" not in unknown.stderr


# --- What only httpx does ---


@pytest.fixture
def forward_proxy() -> Iterator[ForwardProxy]:
    with ForwardProxy() as proxy:
        yield proxy


def test_a_proxy_is_used_when_asked_for_and_never_otherwise(
    forward_proxy: ForwardProxy, tmp_path: Path
) -> None:
    # F58
    trace = traces.written(tmp_path, [0.0, 0.05])
    shell = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"), "http://127.0.0.1:9")
    secret = forward_proxy.url.replace("http://", "http://user:SENTINEL@")
    with FakeTarget(lambda _: chat_stream(2)) as fake:
        ran = {
            name: command.run(
                "replay",
                trace,
                "--url",
                fake.url,
                "--out-dir",
                tmp_path / name,
                "--transport",
                name,
                env=shell,
            )
            for name in TRANSPORT_NAMES
        }
        assert forward_proxy.asked_for == []
        through = command.run(
            "replay", trace, "--url", fake.url, "--out-dir", tmp_path / "through", "--transport", "httpx",
            "--proxy", secret, env=shell,
        )  # fmt: skip
    for one in (*ran.values(), through):
        assert one.returncode in (0, 4), one.stderr
    posts = [path for method, path in forward_proxy.asked_for if method == "POST"]
    assert posts == [f"{fake.url}/v1/chat/completions"] * 2
    (folder,) = (tmp_path / "through").iterdir()
    target = json.loads((folder / "run.json").read_text())["target"]
    assert (target["transport"], target["proxy"]) == ("httpx", forward_proxy.url)
    for path in folder.iterdir():
        assert b"SENTINEL" not in path.read_bytes(), path
    assert "SENTINEL" not in through.stderr + through.stdout


def test_http2_carries_streams_over_one_connection() -> None:
    pytest.importorskip("h2")
    with Http2Server() as server:
        sent = send(
            server.url, [0.0, 0.2, 0.2, 0.2, 0.25], transport="httpx", target_changes={"http2_only": True}
        )
    assert sent.outcomes == ["ok"] * 5, [row["error"] for row in sent.records]
    assert server.num_connections == 1
    assert [row["num_chunks"] for row in sent.records] == [3] * 5
    for row in sent.records:
        moments = [row[f"{name}_ns"] for name in ("sent", "headers", "first_token", "last_token", "end")]
        assert moments == sorted(moments)


def test_the_command_speaks_http2_when_told(tmp_path: Path) -> None:
    pytest.importorskip("h2")
    trace = traces.written(tmp_path, [0.0, 0.05])
    with Http2Server() as server:
        ran = command.run(
            "replay",
            trace,
            "--url",
            server.url,
            "--transport",
            "httpx",
            "--http2",
            "--out-dir",
            tmp_path / "runs",
        )
    assert ran.returncode in (0, 4), ran.stderr
    assert "2 ok" in ran.stdout
