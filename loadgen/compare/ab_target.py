"""AbTarget: one side of an experiment: a live server, or one that is started for each of its runs."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from loadgen.errors import TargetError, UsageError
from loadgen.parent import end_with_parent
from loadgen.replay.served_target import served_target
from loadgen.replay.target import parse_url

_STOP_WITHIN_S = 40.0
# The list of models for servers that have no /health.
_HEALTH = ("/health", "/v1/models")


@dataclass(frozen=True, slots=True)
class AbTarget:
    """kind: url, serve (flags of the bundled server) or command (which has {port} where its port belongs)."""

    kind: str
    text: str


def parse_target(text: str, *, option: str) -> AbTarget:
    """`http://HOST:PORT`, flags that begin with `-`, or a command with {port}.

    Raises UsageError naming `option`.
    """
    compact = text.strip()
    if compact.startswith("-"):
        return AbTarget("serve", compact)
    words = _words(compact, option)
    if len(words) == 1 and "{port}" not in compact:
        parse_url(compact)
        return AbTarget("url", compact)
    if "{port}" not in compact:
        raise UsageError(
            f"{option} {text!r} is a command without {{port}}",
            hint="write {port} where the server's port belongs: 'my-server --port {port}'",
        )
    return AbTarget("command", compact)


@contextmanager
def started(target: AbTarget, *, ready_within_s: float, health: str | None = None) -> Iterator[str]:
    """The URL of `target`, which is up; what was started here is stopped at the end.

    health: path that answers 200 once a command's server is ready; None for the usual ones.

    Raises TargetError when it does not come up.
    """
    if target.kind == "url":
        yield target.text
    elif target.kind == "serve":
        with served_target(target.text) as url:
            yield url
    else:
        with _commanded(target.text, ready_within_s, (health,) if health else _HEALTH) as url:
            yield url


@contextmanager
def _commanded(text: str, ready_within_s: float, health: Sequence[str]) -> Iterator[str]:
    port = _free_port()
    command = [word.replace("{port}", str(port)) for word in shlex.split(text)]
    try:
        # A session of its own: Ctrl-C is for the run, which then stops the server.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509  # one system call
        )
    except OSError as exc:
        raise TargetError(
            f"{command[0]}: cannot be started ({exc.strerror})", hint="check the target's command"
        ) from exc
    try:
        _wait_until_listening(process, command[0], port, ready_within_s, health)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_listening(
    process: subprocess.Popen[bytes], name: str, port: int, ready_within_s: float, health: Sequence[str]
) -> None:
    """Ready is: one of the paths of `health` is answered with 200."""
    deadline_s = time.monotonic() + ready_within_s
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            raise TargetError(
                f"{name} ended with status {process.returncode} before it was ready",
                hint="its message stands above",
            )
        if any(_status(port, path) == 200 for path in health):
            return
        time.sleep(0.1)
    answers = ", ".join(f"{path}: {_status(port, path) or 'no answer'}" for path in health)
    raise TargetError(
        f"{name} was not ready within {ready_within_s:.0f} s ({answers}; 200 is wanted)",
        hint="--ready-within gives it longer",
    )


def _status(port: int, path: str) -> int | None:
    """The status of a GET over a plain socket; None where nobody answers in time."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
            head = connection.recv(64).split()
    except OSError:
        return None
    return int(head[1]) if len(head) > 1 and head[1].isdigit() else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _words(text: str, option: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as exc:
        raise UsageError(f"{option} {text!r} cannot be read ({exc})", hint="check its quotes") from exc
    if not words:
        raise UsageError(f"{option} is empty", hint="give a URL, flags of the bundled server, or a command")
    return words
