"""A headless Chromium, driven over its DevTools protocol; tests skip where there is none."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import aiohttp

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_START_S = 40.0


def chromium() -> str | None:
    """Path of a Chromium on this machine."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Page:
    """A page that was opened. requests: URLs it asked for, itself first; complaints: console and exceptions."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.requests: list[str] = []
        self.complaints: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command; events that come before it are kept."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = json.loads((await self._socket.receive(timeout=_START_S)).data)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])
            self._note(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])

    async def value(self, expression: str) -> Any:
        """What a JavaScript expression gives; promises are awaited."""
        told = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, expression: str) -> Any:
        """The first true value of an expression."""
        for _ in range(400):
            if value := await self.value(f"document.documentElement && ({expression})"):
                return value
            await asyncio.sleep(0.05)
        raise AssertionError(f"never true: {expression}; {self.complaints}")

    async def resize(self, width: int, height: int) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def prefer(self, scheme: str) -> None:
        """light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def screenshot(self, path: Path) -> None:
        told = await self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(told["data"]))


class Browser:
    """Use it as an asynchronous context manager; open() gives a page of a file."""

    async def __aenter__(self) -> Browser:
        program = chromium()
        assert program is not None
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
             "--disable-background-networking", "--no-first-run", "--disable-dev-shm-usage",
             f"--user-data-dir={self._profile.name}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        told = Path(self._profile.name) / "DevToolsActivePort"
        async with asyncio.timeout(_START_S):
            while not (told.exists() and len(told.read_text().split()) > 1):
                assert self._process.poll() is None, "the browser ended"
                await asyncio.sleep(0.05)
        self._port = told.read_text().split()[0]
        self._session = aiohttp.ClientSession()
        self._sockets: list[aiohttp.ClientWebSocketResponse] = []
        return self

    async def __aexit__(self, *_: object) -> None:
        for socket in self._sockets:
            await socket.close()
        await self._session.close()
        self._process.terminate()
        self._process.wait()
        self._profile.cleanup()

    async def open(self, path: Path, *, width: int = 1280, height: int = 900) -> Page:
        """The page of a file, as soon as it has begun to load."""
        async with self._session.get(f"http://127.0.0.1:{self._port}/json/list") as answer:
            pages = [one for one in await answer.json(content_type=None) if one["type"] == "page"]
        socket = await self._session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)
        self._sockets.append(socket)
        page = Page(socket)
        for domain in ("Page", "Network", "Runtime", "Log"):
            await page.call(f"{domain}.enable")
        await page.resize(width, height)
        await page.call("Page.navigate", url=path.as_uri())
        return page
