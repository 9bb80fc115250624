"""Which request lines are the traffic to replay, and the endpoint each names."""

from __future__ import annotations

from collections.abc import Sequence

_MAX_CACHED = 65_536
_MAX_ENDPOINT = 200


class RequestFilter:
    """Keeps requests whose path begins with one of `prefixes`; without any, every POST.

    Answers are cached: a log has few different request lines, save for query strings.
    """

    def __init__(self, prefixes: Sequence[str]) -> None:
        self._prefixes = tuple(prefixes)
        self._known: dict[bytes, str | None] = {}

    def endpoint(self, request: bytes) -> str | None:
        """The path of a request line (`POST /v1/chat HTTP/1.1`), or None if it is not to be kept."""
        try:
            return self._known[request]
        except KeyError:
            pass
        method, _, rest = request.partition(b" ")
        answer = self.endpoint_of(
            method.decode("latin-1"), rest.partition(b" ")[0].decode("utf-8", "replace")
        )
        if len(self._known) < _MAX_CACHED:
            self._known[request] = answer
        return answer

    def endpoint_of(self, method: str, target: str) -> str | None:
        """The path of a request target, without host, query string or fragment, or None."""
        path = path_of(target)
        if self._prefixes:
            return path if path.startswith(self._prefixes) else None
        return path if method == "POST" and path.startswith("/") else None

    @property
    def description(self) -> str:
        """What is kept, in words."""
        if self._prefixes:
            return "kept: paths that begin with " + " or ".join(self._prefixes)
        return "kept: every POST (narrow it with --path)"


def path_of(target: str) -> str:
    """The path of a request target: no scheme, user, host, query string or fragment."""
    path = target.partition("?")[0].partition("#")[0]
    if "://" in path:
        path = "/" + path.partition("://")[2].partition("/")[2]
    return path[:_MAX_ENDPOINT]
