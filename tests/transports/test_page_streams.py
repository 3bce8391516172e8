"""Pages of a server that answer piece by piece: on our own sockets and inside an ASGI server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman.transports.remote.answers import PageReply, StreamedReply
from dragoman.transports.remote.gate import Entered
from dragoman.transports.remote.server import ServerLimits
from tests.transports.asgi_kit import application, uvicorn_server
from tests.transports.remote_kit import SECONDS, TOKEN, remote_server

both = pytest.mark.parametrize("kind", ["socket", "asgi"])
PIECE = b"x" * 65536


class Page:
    """Makes pieces until it is closed."""

    def __init__(self, pieces: int | None, piece: bytes = b"piece ") -> None:
        self.pieces = pieces
        self.piece = piece
        self.made = 0
        self.go = asyncio.Event()
        self.go.set()
        self.closed = asyncio.Event()

    async def __call__(self, entered: Entered, body: bytes) -> PageReply:
        return StreamedReply(self.stream(), b"text/event-stream", ((b"x-own", entered.path.encode()),))

    async def stream(self) -> AsyncGenerator[bytes, None]:
        try:
            while self.pieces is None or self.made < self.pieces:
                await self.go.wait()
                await asyncio.sleep(0)
                self.made += 1
                yield self.piece
        finally:
            self.closed.set()


@asynccontextmanager
async def asked(
    kind: str, page: Page, **limits: Any
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """The page behind `/own/`, asked for by a client that has not read the answer yet."""
    options: dict[str, Any] = {"pages": {"/own/": page}, "limits": ServerLimits(**limits)}
    rules = {"paths": lambda path: path.startswith("/own/")}
    serving = (
        remote_server(lambda opened: None, rules=rules, **options)
        if kind == "socket"
        else uvicorn_server(lambda port: application(lambda opened: None, port, rules=rules, **options))
    )
    async with serving as found:
        port = found[1] if isinstance(found, tuple) else found
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"GET /own/a/b HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
        writer.write(head.encode())
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


@both
async def test_pieces_are_sent_as_they_are_made_for_every_path_below(kind: str) -> None:
    page = Page(2)
    page.go.clear()
    async with asked(kind, page) as (reader, _), asyncio.timeout(SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"x-own: /own/a/b" in head
        assert b"transfer-encoding: chunked" in head.lower()
        page.go.set()
        body = await reader.readuntil(b"0\r\n\r\n")
        assert body.count(b"6\r\npiece \r\n") == 2
        await page.closed.wait()


@both
async def test_a_client_that_goes_away_closes_what_makes_the_pieces(kind: str) -> None:
    page = Page(None)
    async with asked(kind, page) as (reader, writer), asyncio.timeout(SECONDS):
        await reader.readuntil(b"piece ")
        page.go.clear()
        writer.close()
        await page.closed.wait()


async def test_a_client_that_does_not_read_holds_the_pieces_back_and_is_cut() -> None:
    page = Page(None, PIECE)
    async with asked("socket", page, stall_seconds=0.3) as (reader, _), asyncio.timeout(SECONDS):
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # the client's kernel fills up
        await page.closed.wait()
        assert page.made * len(PIECE) < 64 * 1024 * 1024


async def test_a_silent_page_is_kept_alive() -> None:
    page = Page(None)
    page.go.clear()
    async with asked("socket", page, keep_alive_seconds=0.02) as (reader, _), asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n:\n\n\r\n")
        await reader.readuntil(b"\r\n:\n\n\r\n")


class BrokenPage(Page):
    """Fails before its answer, or in the middle of it."""

    def __init__(self, *, fails_at_once: bool) -> None:
        super().__init__(None)
        self.fails_at_once = fails_at_once

    async def __call__(self, entered: Entered, body: bytes) -> PageReply:
        if self.fails_at_once:
            raise RuntimeError("the password is swordfish")
        return StreamedReply(self.stream(), b"text/plain")

    async def stream(self) -> AsyncGenerator[bytes, None]:
        yield self.piece
        raise RuntimeError("the password is swordfish")


@both
async def test_a_page_that_fails_is_answered_without_its_reason(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async with asked(kind, BrokenPage(fails_at_once=True)) as (reader, _), asyncio.timeout(SECONDS):
        answer = await reader.readuntil(b"Internal Server Error")
        assert answer.startswith(b"HTTP/1.1 500 ")
        assert b"swordfish" not in answer
    assert "swordfish" in caplog.text


@both
async def test_a_page_that_fails_in_the_middle_ends_the_response_unfinished(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with asked(kind, BrokenPage(fails_at_once=False)) as (reader, _), asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n\r\n")
        body = await _rest(reader)
        assert body.startswith(b"6\r\npiece \r\n")
        assert not body.endswith(b"0\r\n\r\n")
        assert b"swordfish" not in body
    assert kind == "asgi" or "swordfish" in caplog.text  # an ASGI server writes its own log


async def _rest(reader: asyncio.StreamReader) -> bytes:
    """Read until the connection ends, in whichever way."""
    body = b""
    try:
        while piece := await reader.read(65536):
            body += piece
    except ConnectionResetError:
        pass  # it was cut
    return body
