"""Secrets: keys go to the target and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from loadgen.errors import UsageError

HIDDEN = "***"
# Options whose value may be a secret, wherever a command line is shown or kept.
_SECRET_OPTIONS = ("--api-key", "--header", "-H", "--proxy")
_TOKEN_CHARS = re.compile(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")


def parse_headers(texts: Sequence[str], api_key: str | None) -> tuple[tuple[str, str], ...]:
    """Request headers from `Name: value` or `Name=value`, and the bearer of `api_key`.

    Raises UsageError without the value, which may be a secret.
    """
    headers: list[tuple[str, str]] = []
    for text in texts:
        name, separator, value = text.partition(":") if ":" in text.split("=", 1)[0] else text.partition("=")
        name, value = name.strip(), value.strip()
        if not separator or not _TOKEN_CHARS.match(name) or "\n" in value or "\r" in value:
            raise UsageError(
                "a --header is no 'Name: value' pair", hint="write --header 'X-Team: inference', one for each"
            )
        headers.append((name, value))
    if api_key is not None:
        if not api_key.isprintable() or not api_key.isascii():
            raise UsageError(
                "the API key holds characters that no header can carry", hint="check for a line break"
            )
        headers.append(("Authorization", f"Bearer {api_key}"))
    return tuple(headers)


def read_key_file(path: Path) -> str:
    """The key in a file, without the line end."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is no text"
        raise UsageError(f"--api-key-file {path}: cannot be read ({reason})") from exc


def secrets_in(headers: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """What must never be shown: the headers' values, longest first, and bearer tokens without their word."""
    values = {value for _, value in headers} | {value.removeprefix("Bearer ") for _, value in headers}
    return tuple(sorted((value for value in values if len(value) >= 4), key=len, reverse=True))


def parse_proxy(text: str) -> str:
    """A proxy's URL, checked. Raises UsageError without the URL, which may hold a password."""
    try:
        parts = urlsplit(text)
        is_known = parts.scheme in ("http", "https", "socks5", "socks5h") and bool(
            parts.hostname and parts.port
        )
    except ValueError:
        is_known = False
    if not is_known:
        raise UsageError("--proxy is no proxy's URL", hint="give http://HOST:PORT, https:// or socks5://")
    return text


def secrets_in_proxy(url: str | None) -> tuple[str, ...]:
    """What of a proxy's URL must never be shown: the URL itself, where it holds a password, and that."""
    password = None if url is None else urlsplit(url).password
    return () if url is None or not password else (url, password)


def shown_proxy(url: str | None) -> str | None:
    """A proxy's URL without user name and password."""
    if url is None:
        return None
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port}"


def redacted_command(arguments: Sequence[str]) -> tuple[str, ...]:
    """A command line fit to be kept: values of options that may hold secrets are hidden."""
    shown: list[str] = []
    hide_next = False
    for argument in arguments:
        option = argument.split("=", 1)[0]
        if hide_next:
            shown.append(HIDDEN)
            hide_next = False
        elif option in _SECRET_OPTIONS:
            hide_next = "=" not in argument
            shown.append(argument if hide_next else f"{option}={HIDDEN}")
        else:
            shown.append(argument)
    return tuple(shown)
