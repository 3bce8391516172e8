"""The HTTP side: one thread a request, events as they come, and a log of everything that was asked.

Owns sockets, routes and the log. What is answered is decided in `answer.py`, how it is written in `dialects`.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Self

from tests.interop.model_server.answer import reply_to
from tests.interop.model_server.dialects import chat, gemini, messages, responses
from tests.interop.model_server.intents import Intent, read_intent
from tests.interop.model_server.question import Event, Question, Reply, ToolUse

MODEL: Final = "scripted-model"
_DIALECTS: Final[dict[str, ModuleType]] = {
    r"/chat/completions": chat,
    r"/responses": responses,
    r"/messages": messages,
    r"/models/(?P<model>[^/]+):(?:generateContent|(?P<stream>streamGenerateContent))": gemini,
}


class Exchange:
    """One request and how it was answered."""

    def __init__(self, method: str, path: str) -> None:
        self.method = method
        self.path = path
        self.body = ""
        """What was asked, as it was written: all that the agent lets its model know."""
        self.question: Question | None = None
        self.reply: Reply | None = None
        self.status = 0
        self.has_hung_up = False
        """The agent closed the connection before the answer was complete: it cancelled."""
        self.is_over = False

    @property
    def intent(self) -> Intent:
        return read_intent(self.question.prompt if self.question else "")

    @property
    def tool_names(self) -> list[str]:
        return [tool.name for tool in self.question.tools] if self.question else []

    def __str__(self) -> str:
        """One line of the log, as JSON."""
        said: list[Any] = []
        for part in self.reply.parts if self.reply else ():
            said.append([part.tool.name, part.arguments] if isinstance(part, ToolUse) else part.text[:100])
        question = self.question or Question("")
        line = {
            "request": f"{self.method} {self.path}",
            "status": self.status,
            "model": question.model,
            "prompt": question.prompt[-500:],
            "tools": self.tool_names,
            "results": [result[:500] for result in question.results],
            "wants_json": question.schema is not None,
            "said": said,
            "has_hung_up": self.has_hung_up,
        }
        return json.dumps(line)


class ModelServer:
    """The server, running while the `with` block does."""

    def __init__(self, *, port: int = 0, log: Path | None = None) -> None:
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.owner = self
        self._log = log
        self._changed = threading.Condition()
        self._ids = count(1)
        self.closing = threading.Event()
        self.exchanges: list[Exchange] = []
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def serve_forever(self) -> None:
        """Serves in this thread until it is interrupted."""
        try:
            self._http.serve_forever()
        finally:
            self.closing.set()
            self._http.server_close()

    def wait_for(self, test: Callable[[Exchange], bool], within_seconds: float = 30.0) -> Exchange:
        """The first exchange that passes the test, as soon as there is one. Raises: TimeoutError."""
        deadline = time.monotonic() + within_seconds
        with self._changed:
            while True:
                for exchange in self.exchanges:
                    if test(exchange):
                        return exchange
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    seen = "\n".join(map(str, self.exchanges))
                    raise TimeoutError(f"no such request within {within_seconds} s, only:\n{seen}")

    def next_id(self) -> str:
        return str(next(self._ids))

    def began(self, exchange: Exchange) -> None:
        with self._changed:
            self.exchanges.append(exchange)
            self._changed.notify_all()

    def ended(self, exchange: Exchange) -> None:
        with self._changed:
            exchange.is_over = True
            if self._log is not None:
                with self._log.open("a") as file:
                    file.write(f"{exchange}\n")
            self._changed.notify_all()


class _Http(ThreadingHTTPServer):
    # Agents keep connections open; nobody waits for them when the server closes.
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    owner: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that an agent dropped is no news."""
        import sys

        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise each small write waits 40 ms for an acknowledgement
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:
        """The log is in the exchanges."""

    def do_HEAD(self) -> None:
        self._answer(lambda exchange: self._send(exchange, 200, None))

    def do_GET(self) -> None:
        self._answer(self._list_models)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, answer: Callable[[Exchange], None]) -> None:
        exchange = Exchange(self.command, self.path)
        try:
            answer(exchange)
        except ConnectionError:
            exchange.has_hung_up = True
            self.close_connection = True
        finally:
            self.server.owner.ended(exchange)

    def _list_models(self, exchange: Exchange) -> None:
        self.server.owner.began(exchange)
        if not re.search(r"/models(/[^/]+)?$", self.path.partition("?")[0]):
            self._send(exchange, 404, _problem(404))
            return
        model = {"id": MODEL, "object": "model", "type": "model", "display_name": MODEL, "owned_by": "tests"}
        listed = {"object": "list", "data": [model], "has_more": False, "first_id": MODEL, "last_id": MODEL}
        self._send(exchange, 200, listed if self.path.partition("?")[0].endswith("/models") else model)

    def _post(self, exchange: Exchange) -> None:
        exchange.body = self._body()
        body: dict[str, Any] = json.loads(exchange.body or "{}")
        path = self.path.partition("?")[0]
        if path.endswith(("/count_tokens", ":countTokens")):
            self.server.owner.began(exchange)
            self._send(exchange, 200, {"input_tokens": 100, "totalTokens": 100})
            return
        for pattern, dialect in _DIALECTS.items():
            if found := re.search(f"{pattern}$", path):
                question: Question = dialect.read(body)
                if address := found.groupdict():
                    question = question._replace(model=address["model"], is_streamed=bool(address["stream"]))
                exchange.question, exchange.reply = question, reply_to(question)
                self.server.owner.began(exchange)
                self._reply(exchange, dialect, question, exchange.reply)
                return
        self.server.owner.began(exchange)
        self._send(exchange, 404, _problem(404))

    def _reply(self, exchange: Exchange, dialect: ModuleType, question: Question, reply: Reply) -> None:
        id = self.server.owner.next_id()
        if reply.status != 200:
            self._send(exchange, reply.status, _problem(reply.status))
        elif question.is_streamed:
            exchange.status = 200
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for event in dialect.stream(question, reply, id):
                self._write_event(event)
            self.wfile.write(b"0\r\n\r\n")
        else:
            self._send(exchange, 200, dialect.whole(question, reply, id))

    def _write_event(self, event: Event) -> None:
        data = event.data if isinstance(event.data, str) else json.dumps(event.data)
        name = f"event: {event.name}\n" if event.name else ""
        line = f"{name}data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        if event.pause_seconds and self.server.owner.closing.wait(event.pause_seconds):
            raise ConnectionAbortedError("the server closes")

    def _send(self, exchange: Exchange, status: int, value: object) -> None:
        exchange.status = status
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> str:
        if "chunked" in (self.headers.get("transfer-encoding") or ""):
            data = b"".join(iter(self._chunk, b""))
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            data = gzip.decompress(data)
        return data.decode()

    def _chunk(self) -> bytes:
        data = self.rfile.read(int(self.rfile.readline().split(b";")[0], 16))
        self.rfile.readline()
        return data


def _problem(status: int) -> dict[str, Any]:
    """An error that every dialect can read."""
    error = {"type": "invalid_request_error", "code": status, "message": "The script says no", "status": "FAILED"}
    return {"type": "error", "error": error}
