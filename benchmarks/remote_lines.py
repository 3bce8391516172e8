"""Clients of the remote benchmark: blocking sockets that count updates and cost next to nothing.

They read large pieces and count marks in them, so that the server is what is measured.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from time import monotonic
from typing import Any, Protocol
from urllib.parse import urlsplit

UPDATE = b'"agent_message_chunk"'
TOKEN = "of-the-benchmark"
_READ = 1 << 18
_SECONDS = 120.0
_KEPT_SECONDS = 2.0  # Node and uvicorn close a socket after five seconds without a request


class Line(Protocol):
    """A client's connection to one server."""

    def send(self, message: dict[str, Any], session: str | None = None) -> None: ...

    def read(self) -> bytes:
        """What has come, at least one byte."""

    def close(self) -> None: ...


class UnixLine:
    """Lines over a Unix socket."""

    def __init__(self, path: str) -> None:
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.settimeout(_SECONDS)
        self._sock.connect(path)

    def send(self, message: dict[str, Any], session: str | None = None) -> None:
        self._sock.sendall(json.dumps(message).encode() + b"\n")

    def read(self) -> bytes:
        return _some(self._sock)

    def close(self) -> None:
        self._sock.close()


class WebSocketLine:
    """Frames over a WebSocket; what is read keeps the frame headers, which are not JSON and do not matter here."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._sock = _connect(where.netloc)
        head = (
            f"GET {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {TOKEN}\r\n\r\n"
        )
        self._sock.sendall(head.encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += self._sock.recv(1)
        assert answer.startswith(b"HTTP/1.1 101"), answer

    def send(self, message: dict[str, Any], session: str | None = None) -> None:
        data = json.dumps(message).encode()
        size = struct.pack("!B", 0x80 | len(data)) if len(data) < 126 else struct.pack("!BH", 0x80 | 126, len(data))
        self._sock.sendall(b"\x81" + size + b"\0\0\0\0" + data)  # masked with zeros

    def read(self) -> bytes:
        return _some(self._sock)

    def close(self) -> None:
        self._sock.close()


class HttpLine:
    """Posts on one socket, the stream of the connection and of one session on two others."""

    def __init__(self, url: str) -> None:
        self._where = urlsplit(url)
        self._posts = _connect(self._where.netloc)
        self._used = monotonic()
        self._streams: dict[str | None, socket.socket] = {}
        self._connection = ""
        self._answer = b""

    def send(self, message: dict[str, Any], session: str | None = None) -> None:
        if self._connection and session not in self._streams:
            self._open(session)
        if monotonic() - self._used > _KEPT_SECONDS:
            self._posts.close()
            self._posts = _connect(self._where.netloc)
        self._used = monotonic()
        body = json.dumps(message).encode()
        extra = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self._posts.sendall(self._head("POST", session, extra) + body)
        head, answer = _response(self._posts)
        assert b" 20" in head[:16], head + answer
        if not self._connection:
            lines = head.decode("latin-1").split("\r\n")
            named = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("acp-connection-id:")]
            self._connection = named[0]
            self._answer = answer
            self._open(None)
        self._current = session

    def read(self) -> bytes:
        if self._answer:
            answer, self._answer = self._answer, b""
            return answer
        return _some(self._streams[self._current])

    def close(self) -> None:
        for sock in (self._posts, *self._streams.values()):
            sock.close()

    def _open(self, session: str | None) -> None:
        sock = self._streams[session] = _connect(self._where.netloc)
        sock.sendall(self._head("GET", session, "Accept: text/event-stream\r\n"))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += sock.recv(1)
        assert b" 200 " in head[:16], head

    def _head(self, method: str, session: str | None, extra: str) -> bytes:
        named = f"Acp-Connection-Id: {self._connection}\r\n" if self._connection else ""
        named += f"Acp-Session-Id: {session}\r\n" if session else ""
        return (
            f"{method} {self._where.path} HTTP/1.1\r\nHost: {self._where.netloc}\r\n"
            f"Authorization: Bearer {TOKEN}\r\n{named}{extra}\r\n"
        ).encode()


class Session:
    """One session over a line."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._last_id = 0
        self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        self.id = ""

    def open(self) -> str:
        text = self.ask("session/new", {"cwd": os.getcwd(), "mcpServers": []})
        self.id = text.partition(b'"sessionId":"')[2].partition(b'"')[0].decode()
        assert self.id, text
        return self.id

    def attach(self, session: str) -> None:
        self.id = session
        self.ask("session/resume", {"sessionId": session, "cwd": os.getcwd(), "mcpServers": []}, session)

    def load_all(self, session: str) -> int:
        """Load a session without keeping what comes; gives how many updates of any kind there were."""
        self.id = session
        params = {"sessionId": session, "cwd": os.getcwd(), "mcpServers": []}
        mark = b'"id":%d,"result"' % self._send("session/load", params, session)
        count, rest = 0, b""
        while True:
            data = rest + self._line.read()
            count += data.count(b'"sessionUpdate"')
            if mark in data:
                return count
            rest = data[data.rfind(b'"sessionUpdate"') + 1 :][-100:]

    def prompt(self, text: str) -> int:
        """A turn; gives how many updates came."""
        params = {"sessionId": self.id, "prompt": [{"type": "text", "text": text}]}
        return self.count("session/prompt", params)

    def count(self, method: str, params: dict[str, Any]) -> int:
        self._send(method, params, self.id)
        count, rest = 0, b""
        while True:
            data = rest + self._line.read()
            count += data.count(UPDATE)
            if b'"stopReason"' in data or b'"error"' in data:
                assert b'"error"' not in data, data[-500:]
                return count
            rest = data[data.rfind(UPDATE) + 1 :][-100:] if UPDATE in data else data[-100:]

    def drain(self, count: int) -> None:
        """Read until so many updates came."""
        rest = b""
        while count > 0:
            data = rest + self._line.read()
            count -= data.count(UPDATE)
            rest = data[data.rfind(UPDATE) + 1 :][-100:] if UPDATE in data else data[-100:]

    def ask(self, method: str, params: dict[str, Any], session: str | None = None) -> bytes:
        """Send a request; gives everything up to its answer."""
        id = self._send(method, params, session)
        marks = (b'"id":%d,"result"' % id, b'"id": %d, "result"' % id, b'"id":%d,"error"' % id)
        data = bytearray()
        while not any(mark in data[-4000:] for mark in marks):
            data += self._line.read()
            if len(data) < 100_000 and b'"result"' in data and b'"id":%d' % id in data:
                break
        return bytes(data)

    def close(self) -> None:
        self._line.close()

    def _send(self, method: str, params: dict[str, Any], session: str | None) -> int:
        self._last_id += 1
        self._line.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}, session)
        return self._last_id


def open_line(address: str) -> Line:
    """A line to `unix:`, `ws:` or `http:`."""
    if address.startswith("unix:"):
        return UnixLine(address.removeprefix("unix:"))
    return WebSocketLine(address) if address.startswith("ws") else HttpLine(address)


def _connect(netloc: str) -> socket.socket:
    host, _, port = netloc.partition(":")
    sock = socket.create_connection((host, int(port)), timeout=_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _some(sock: socket.socket) -> bytes:
    data = sock.recv(_READ)
    assert data, "the server closed the connection"
    return data


def _response(sock: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(sock)
    head, _, body = data.partition(b"\r\n\r\n")
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        while not body.endswith(b"0\r\n\r\n"):
            body += _some(sock)
        return head, body
    length = int((lower.partition(b"content-length:")[2].partition(b"\r\n")[0] or b"0").strip() or b"0")
    while len(body) < length:
        body += _some(sock)
    return head, body
