"""A forward proxy on the loopback, for plain HTTP: it writes down what it is asked for and passes it on."""

from __future__ import annotations

import asyncio
import threading
from urllib.parse import urlsplit


class ForwardProxy:
    """asked_for: (method, absolute URL) of each request. Use it as a context manager."""

    def __init__(self) -> None:
        self.asked_for: list[tuple[str, str]] = []
        self.url = ""

    def __enter__(self) -> ForwardProxy:
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection, in HTTP/1.1 with `Connection: close` towards the target."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            line, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
            method, url, _ = line.split(" ")
            self.asked_for.append((method, url))
            lengths = [text.split(":")[1] for text in lines if text.lower().startswith("content-length")]
            body = await reader.readexactly(int(lengths[0]) if lengths else 0)
            parts = urlsplit(url)
            from_target, to_target = await asyncio.open_connection(parts.hostname, parts.port)
            kept = [text for text in lines if not text.lower().startswith("proxy-")]
            to_target.write("\r\n".join([f"{method} {parts.path} HTTP/1.1", *kept, "", ""]).encode() + body)
            while data := await from_target.read(65536):
                writer.write(data)
                await writer.drain()
                if data.endswith((b"0\r\n\r\n", b"}")):
                    break
            to_target.close()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
