"""A provider on the loopback interface that answers what its test lays out, in each of the wire forms.

Owns sockets, statuses, cut and held connections, and the record of every request's bytes. How an answer is written in
a wire form is taken from the model server of the interop tests.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any, Final, NamedTuple, Self

from dragoman.builtin.models.find import find_model
from dragoman.builtin.models.model import Model
from dragoman.builtin.models.package.provider import ProviderModel
from tests.interop.model_server.dialects import chat, gemini, messages, responses
from tests.interop.model_server.question import Event, Part, Question, Reply, Speech, Thought, Tool, ToolUse

_DIALECTS: Final[dict[str, ModuleType]] = {
    r"/chat/completions$": chat,
    r"/responses$": responses,
    r"/v1/messages$": messages,
    r"/models/(?P<model>[^/]+):(?P<stream>streamGenerateContent)$": gemini,
}


class Wire(NamedTuple):
    """One wire form: the model that speaks it, and the variables that lead it to the server."""

    model: str
    key: str
    base: str
    path: str = ""
    is_packaged: bool = False
    """Whether pydantic-ai makes the calls, instead of a wire form of ours."""

    def variables(self, url: str) -> dict[str, str]:
        version = {"OPENAI_API_VERSION": "2026-01-01"} if self.model.startswith("azure:") else {}
        return {self.key: "a-key", self.base: url + self.path, **version}

    def make(self) -> Model:
        return ProviderModel(self.model) if self.is_packaged else find_model(self.model)


WIRES: Final = {
    "anthropic": Wire("anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "openai-responses": Wire("openai:gpt-5", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "openai-chat": Wire("openai-compatible:local-model", "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "google": Wire("google:gemini-2.5-flash", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
}
PACKAGED: Final = {f"package-{name}": wire._replace(is_packaged=True) for name, wire in WIRES.items()}
"""The same forms through pydantic-ai, which makes the calls of providers that log in in their own way."""
AZURE: Final = Wire("azure:gpt-5", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", is_packaged=True)
"""A provider whose calls the package makes, also when the model is found by its name."""
ALL_WIRES: Final = {**WIRES, **PACKAGED}
VARIABLES: Final = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "GOOGLE_API_KEY"),
    *("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "OLLAMA_BASE_URL", "DRAGOMAN_MODEL"),
)


class Answer(NamedTuple):
    """What the provider does with one request. `cut_after`: so many events, then the line breaks; `is_held`: then it
    sends nothing more and waits for the client to close the connection."""

    parts: tuple[Part, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = {}
    body: Any = None
    cut_after: int | None = None
    is_held: bool = False
    is_short: bool = False
    """Its last events, which say that it is done, are missing; the connection ends well."""
    rewrite: Callable[[Any], Any] = lambda event: event
    """Changes the events, where a wire form has to say something special."""


def text_answer(*pieces: str) -> Answer:
    return Answer((Speech(pieces),))


def thought(text: str, *parts: Part) -> Answer:
    return Answer((Thought(text), *parts))


def use(tool: str, **arguments: Any) -> ToolUse:
    return ToolUse(Tool(tool, {}), arguments)


def refused(status: int, words: str, **headers: str) -> Answer:
    """An error as all of the wire forms write it."""
    error = {"type": "some_error", "code": status, "message": words, "status": "FAILED"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, headers=named, body={"type": "error", "error": error})


class Asked(NamedTuple):
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    data: bytes
    question: Question
    port: int = 0
    """The client's port, which differs between connections."""

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.data)
        return body


class ProviderServer:
    """Answers each request with the result of `play`, or with the next of a list."""

    def __init__(
        self,
        *answers: Answer,
        play: Callable[[Asked], Answer] | None = None,
        certificate: ssl.SSLContext | None = None,
    ) -> None:
        self._answers = list(answers)
        self._play = play
        self.asked: list[Asked] = []
        self.failures: list[str] = []
        self.hung_up = threading.Event()
        """Set when a client closed the connection of an answer that was held."""
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        if certificate is not None:
            self._http.socket = certificate.wrap_socket(self._http.socket, server_side=True)
            self.url = self.url.replace("http:", "https:")

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if self._play is not None:
            return self._play(asked)
        return self._answers.pop(0) if self._answers else refused(400, "there is nothing more in the script")


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: ProviderServer
    plain: tuple[str, bytes] | None = None
    """A media type and a body that answer every request, instead of the answers of a wire form."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        import sys

        error = sys.exception()
        if not isinstance(error, (ConnectionError, ssl.SSLError)):
            self.owner.failures.append(repr(error))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise each small write waits 40 ms for an acknowledgement
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:
        """The record is in `asked`."""

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.server.plain is not None:
            self._send_bytes(200, {"content-type": self.server.plain[0]}, self.server.plain[1])
            return
        path = self.path.partition("?")[0]
        for pattern, dialect in _DIALECTS.items():
            if found := re.search(pattern, path):
                question: Question = dialect.read(json.loads(data))
                if address := found.groupdict():
                    question = question._replace(model=address["model"], is_streamed=True)
                asked = Asked(path, dict(self.headers.items()), data, question, self.client_address[1])
                self._reply(self.server.owner.answer(asked), dialect, question)
                return
        self._send(404, {}, {"error": {"message": f"nothing is at {path}"}})

    def _reply(self, answer: Answer, dialect: ModuleType, question: Question) -> None:
        if answer.status != 200:
            self._send(answer.status, answer.headers, answer.body)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        events = list(dialect.stream(question, Reply(answer.parts), str(len(self.server.owner.asked))))
        if answer.is_short:
            events = events[:3]
        try:
            for event in events[: answer.cut_after]:
                self._write(event._replace(data=answer.rewrite(event.data)))
            if answer.is_held and not self.connection.recv(1):
                self.server.owner.hung_up.set()
        except ConnectionError:  # closed before all events were written, or with some of them unread
            if not answer.is_held:
                raise
            self.server.owner.hung_up.set()
        if not answer.is_held and answer.cut_after is None:
            self.wfile.write(b"0\r\n\r\n")
            return
        self.close_connection = True
        with suppress(OSError):  # the client may be gone already
            self.connection.shutdown(socket.SHUT_RDWR)

    def _write(self, event: Event) -> None:
        data = event.data if isinstance(event.data, str) else json.dumps(event.data)
        name = f"event: {event.name}\n" if event.name else ""
        line = f"{name}data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

    def _send(self, status: int, headers: Mapping[str, str], value: Any) -> None:
        self._send_bytes(status, {"content-type": "application/json", **headers}, json.dumps(value).encode())

    def _send_bytes(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.send_response(status)
        for name, text in {"content-length": str(len(data)), **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)
