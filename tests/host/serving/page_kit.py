"""A small page that was built, for tests of the way in, and a browser that has opened it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect

from tests.host.serving.kit import SECONDS, Served
from tests.transports.remote_kit import Http

FILES = {
    "/": ("index.html", "text/html; charset=utf-8", "no-store", b"<!doctype html><title>Dragoman</title>" + b" " * 500),
    "/assets/main.0a1b2c.js": ("assets/main.0a1b2c.js", "text/javascript; charset=utf-8", "immutable", b"void 0;" * 90),
    "/manifest.webmanifest": ("manifest.webmanifest", "application/manifest+json", "no-cache", b"{}"),
    "/sw.js": ("sw.js", "text/javascript; charset=utf-8", "no-cache", b"/* worker */"),
    "/icon-192.png": ("icon-192.png", "image/png", "no-cache", b"\x89PNG"),
}


def build_page(folder: Path) -> Path:
    """Write the files and their table; gives the folder."""
    table = {}
    for path, (name, kind, cache, body) in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        table[path] = {"file": name, "type": kind, "sha256": hashlib.sha256(body).hexdigest(), "cache": cache}
    (folder / "table.json").write_text(json.dumps({"version": "1", "files": table}))
    (folder / "secret.txt").write_text("not in the table")
    return folder


class Browser:
    """What a browser with the page at one origin keeps and sends: its cookie, and the page's half of the key."""

    def __init__(self, host: Served, origin: str = "", *, cookie_name: str = "device") -> None:
        self.host = host
        self.origin = origin or f"http://127.0.0.1:{host.port}"
        self.cookie_name = cookie_name
        self.cookie = ""
        self.half = ""
        self.device = ""
        self.set_cookie = ""

    @property
    def headers(self) -> dict[str, str]:
        sent = {"authorization": "", "origin": self.origin, "host": self.origin.partition("//")[2], "accept": ""}
        return sent | ({"cookie": f"theme=x; {self.cookie_name}={self.cookie}"} if self.cookie else {})

    async def post(self, path: str, body: object = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        data = json.dumps({} if body is None else body).encode()
        sent = self.headers | ({"x_dragoman_half": self.half} if self.half else {}) | headers
        status, found, answer = await Http(self.host.port).ask("POST", data, path=path, **sent)
        if "set-cookie" in found:
            self.set_cookie = found["set-cookie"]
            name, _, rest = self.set_cookie.partition("=")
            assert name == self.cookie_name
            self.cookie = rest.partition(";")[0]
        return status, found, answer

    async def pair(self, code: str, name: str = "Ada's phone", **headers: str) -> tuple[int, bytes]:
        status, _, body = await self.post("/pair", {"code": code, "name": name}, **headers)
        if status == 200:
            answer = json.loads(body)
            self.half, self.device = answer["half"], answer["device"]
        return status, body

    async def ticket(self, **headers: str) -> tuple[int, str]:
        status, _, body = await self.post("/ticket", **headers)
        return status, json.loads(body)["ticket"] if status == 200 else body.decode()

    async def socket(self, path: str = "/acp") -> ClientConnection:
        """A WebSocket with a new ticket; the server has answered its handshake."""
        status, ticket = await self.ticket()
        assert status == 200, ticket
        return await connect(
            f"ws://127.0.0.1:{self.host.port}{path}",
            origin=self.origin,  # type: ignore[arg-type]  # a NewType of str
            subprotocols=["acp.v1", f"acp.ticket.{ticket}"],  # type: ignore[list-item]  # likewise
            proxy=None,
        )

    async def line(self) -> ClientConnection:
        """A WebSocket after its `initialize`."""
        socket = await self.socket()
        await socket.send(json.dumps(HELLO))
        answer = json.loads(await asyncio.wait_for(socket.recv(), SECONDS))
        assert "result" in answer, answer
        return socket


HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {"_meta": {"dragoman": {"client": "page"}}}},
}


async def closing(socket: ClientConnection) -> tuple[int, str]:
    """The code and the reason with which the server closes."""
    async with asyncio.timeout(SECONDS):
        await socket.wait_closed()
    return socket.close_code or 0, socket.close_reason or ""
