"""A server of HTTP/2 without TLS on the loopback: every POST gets a chat stream of three tokens."""

from __future__ import annotations

import asyncio
import json
import threading


class Http2Server:
    """num_connections: how many were opened for requests with a body. Use it as a context manager."""

    def __init__(self) -> None:
        self.url = ""
        self.num_connections = 0

    def __enter__(self) -> Http2Server:
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
        from h2.config import H2Configuration
        from h2.connection import H2Connection
        from h2.events import RequestReceived, StreamEnded

        connection = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        methods: dict[int, bytes] = {}
        answers: list[asyncio.Task[None]] = []
        try:
            while data := await reader.read(65536):
                for happened in connection.receive_data(data):
                    if isinstance(happened, RequestReceived):
                        methods[happened.stream_id] = dict(happened.headers)[b":method"]
                        if (
                            list(methods.values()).count(b"POST") == 1
                            and methods[happened.stream_id] == b"POST"
                        ):
                            self.num_connections += 1
                    elif isinstance(happened, StreamEnded):
                        answer = self._answer(
                            connection, writer, happened.stream_id, methods[happened.stream_id]
                        )
                        answers.append(asyncio.ensure_future(answer))
                writer.write(connection.data_to_send())
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, connection: object, writer: asyncio.StreamWriter, stream_id: int, method: bytes
    ) -> None:
        from h2.connection import H2Connection

        assert isinstance(connection, H2Connection)
        if method == b"GET":
            body = json.dumps({"data": [{"id": "fake"}]}).encode()
            connection.send_headers(stream_id, [(":status", "200"), ("content-type", "application/json")])
            connection.send_data(stream_id, body, end_stream=True)
        else:
            connection.send_headers(stream_id, [(":status", "200"), ("content-type", "text/event-stream")])
            for position in range(3):
                await asyncio.sleep(0.02)
                choice = {"delta": {"content": "x"}, "finish_reason": "stop" if position == 2 else None}
                connection.send_data(stream_id, f"data: {json.dumps({'choices': [choice]})}\n\n".encode())
                writer.write(connection.data_to_send())
            connection.send_data(stream_id, b"data: [DONE]\n\n", end_stream=True)
        writer.write(connection.data_to_send())
