"""Model servers of this machine: what is asked, what is not, and how long the answers are waited for."""

from __future__ import annotations

import inspect
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import pytest

from dragoman.builtin.models import local_servers
from dragoman.builtin.models.local_servers import FoundServer, find_servers

KEYS = {"OLLAMA_API_KEY": "sk-ollama-secret", "VLLM_API_KEY": "sk-vllm-secret", "OPENAI_API_KEY": "sk-openai-secret"}
MODELS = {"object": "list", "data": [{"id": "nomic-embed-text"}, {"id": "qwen3:8b"}, {"id": "llama3:latest"}]}


class Server:
    """A server on a port of this machine that answers every request with the same bytes, or never."""

    def __init__(self, answer: bytes | None, host: str = "127.0.0.1") -> None:
        self.received = b""
        self._answer = answer
        self._socket = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port: int = self._socket.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        for each in (*self._open, self._socket):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection = self._socket.accept()[0]
                self._open.append(connection)
                while b"\r\n\r\n" not in self.received:
                    self.received += connection.recv(65536)
                if self._answer is not None:
                    connection.sendall(self._answer)
                    connection.close()


def response(value: Any, status: str = "200 OK") -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        status.encode(),
        len(body),
        body,
    )


def chunked(value: Any) -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


@contextmanager
def serving(answer: bytes | None, host: str = "127.0.0.1") -> Iterator[Server]:
    server = Server(answer, host)
    try:
        yield server
    finally:
        server.close()


def nowhere() -> dict[str, str]:
    """The usual ports led to one where nothing listens: other programs of this machine are not asked."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    return {f"{id.upper()}_BASE_URL": f"http://127.0.0.1:{port}" for id in local_servers.LOCAL}


def found_at(port: int, **more: str) -> list[FoundServer]:
    return find_servers({**nowhere(), **KEYS, "OLLAMA_BASE_URL": f"http://127.0.0.1:{port}", **more}, seconds=20.0)


@pytest.mark.parametrize("written", [response(MODELS), chunked(MODELS)])
def test_a_server_that_lists_models_is_found_and_gets_no_key(written: bytes) -> None:
    with serving(written) as server:
        (found,) = found_at(server.port)
    assert (found.provider.id, found.answer, found.models) == ("ollama", "models", ("qwen3:8b", "llama3:latest"))
    assert found.address == f"127.0.0.1:{server.port}"
    assert server.received.startswith(b"GET /v1/models HTTP/1.1\r\n")
    names = {line.partition(b":")[0].lower() for line in server.received.split(b"\r\n")[1:] if line}
    assert names == {b"host", b"accept", b"connection"}
    assert b"secret" not in server.received


@pytest.mark.parametrize(
    "answer",
    [
        response({"hello": "world"}),
        response("no", "404 Not Found"),
        response(MODELS, "302 Found"),
        b"<html>my own web server</html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{{{{{",
        b"",
    ],
)
def test_what_is_not_a_list_of_models_is_not_a_model_server(answer: bytes) -> None:
    with serving(answer) as server:
        assert found_at(server.port) == []
    assert server.received


def test_a_server_without_models_and_one_that_wants_a_key_are_named() -> None:
    with serving(response({"data": None, "models": []})) as empty, serving(response({}, "401 No")) as closed:
        found = found_at(empty.port, VLLM_BASE_URL=f"http://localhost:{closed.port}/v1")
    assert [(server.provider.id, server.answer) for server in found] == [("ollama", "empty"), ("vllm", "wants a key")]
    assert b"secret" not in empty.received + closed.received


def test_a_server_that_accepts_and_never_answers_is_not_waited_for() -> None:
    with serving(None) as silent, serving(response(MODELS)) as other:
        env = {**nowhere(), "OLLAMA_BASE_URL": f"http://127.0.0.1:{silent.port}"}
        env["OPENAI_BASE_URL"] = f"http://127.0.0.1:{other.port}/v1"
        # A longer limit than the real one, which a busy machine would not keep: the answer of the other counts.
        started = monotonic()
        found = find_servers(env, seconds=2.0)
        assert monotonic() - started < 10.0
    assert [(server.provider.id, server.variable) for server in found] == [("openai-compatible", "OPENAI_BASE_URL")]
    assert inspect.signature(find_servers).parameters["seconds"].default == local_servers.PROBE_SECONDS == 0.3


@pytest.mark.parametrize(
    "url",
    [
        "http://models.example:11434/v1",
        "http://10.0.0.7:11434",
        "http://0.0.0.0:{port}",
        "https://127.0.0.1:{port}/v1",
        "http://user:sk-in-the-address@127.0.0.1:{port}/v1",
        "http://127.0.0.1:{port}/v1?key=sk-in-the-address",
        "http://127.0.0.1.models.example:{port}/v1",
    ],
)
def test_an_address_that_is_not_plainly_of_this_machine_is_shown_and_not_asked(url: str) -> None:
    with serving(response(MODELS)) as server:
        (found,) = found_at(0, OLLAMA_BASE_URL=url.format(port=server.port))
        assert not server.received
    assert (found.answer, found.models, found.variable) == ("not asked", (), "OLLAMA_BASE_URL")
    assert "sk-in" not in found.address


def test_what_is_not_an_address_is_left_out() -> None:
    for url in ("http://[::1", "http://127.0.0.1:70000/v1", "nonsense", "http:///v1"):
        assert found_at(0, OLLAMA_BASE_URL=url) == []
