"""The user's login to an MCP server: the page of the authorisation server is shown, and its redirect is received.

Owns the address of this machine that the page redirects to, and the alternative for a user whose browser runs on
another machine: the address that the browser ends at, pasted. Does not know OAuth beyond that redirect, and starts no
browser by itself. The port is bound before anything is sent, because the redirect is part of the client's registration.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from dragoman.builtin.mcp.server import McpConnectionLost
from dragoman.text.visible import label

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from mcp.shared.auth import AuthorizationCodeResult

LOGIN_SECONDS: Final = 300.0  # a password, a second factor, and a page that explains what is allowed
_HOST: Final = "127.0.0.1"
_PATH: Final = "/callback"
_LARGEST_REQUEST: Final = 16 * 1024
_REQUEST_SECONDS: Final = 10.0
_PAGE: Final = (
    "<!doctype html><meta charset=utf-8><title>Dragoman</title><p style='font: 1.1em sans-serif; margin: 3em'>{}</p>"
)


class Redirect(Struct, frozen=True):
    """What the authorisation server answered by its redirect: a code, or the name of an error."""

    code: str = ""
    state: str = ""
    issuer: str = ""
    error: str = ""


def read_redirect(text: str) -> Redirect | None:
    """Read an address that a browser was redirected to, or the part after its question mark. None for other text."""
    text = text.strip().strip("'\"<>")
    try:
        query = urlsplit(text).query if "?" in text else text
        members = parse_qs(query)
    except ValueError:
        return None
    found = Redirect(*(members.get(name, [""])[0] for name in ("code", "state", "iss", "error")))
    return found if found.code or found.error else None


class BrowserLogin:
    """A login by browser. Created by `listening`.

    Args:
        show_page: shows the address of the page to the user, and opens it if that is wanted.
        complain: shows why a pasted text cannot be used.
        read_pasted: returns the next line that the user entered, empty at the end of the input; None if there is none.
    """

    def __init__(
        self,
        port: int,
        show_page: Callable[[str], Awaitable[None]],
        complain: Callable[[str], None],
        read_pasted: Callable[[], Awaitable[str]] | None,
        seconds: float,
    ) -> None:
        self.redirect_uri = f"http://{_HOST}:{port}{_PATH}"
        self._show_page = show_page
        self._complain = complain
        self._read_pasted = read_pasted
        self._seconds = seconds
        self._state = ""
        self._received: asyncio.Future[Redirect] = asyncio.get_running_loop().create_future()

    async def show(self, url: str) -> None:
        """Show the page of the authorisation server."""
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        await self._show_page(url)

    async def answer(self) -> AuthorizationCodeResult:
        """Wait for the redirect. Raises: McpConnectionLost."""
        from mcp.shared.auth import AuthorizationCodeResult

        pasting = None if self._read_pasted is None else asyncio.create_task(self._paste(self._read_pasted))
        try:
            async with asyncio.timeout(self._seconds):
                found = await asyncio.shield(self._received)
        except TimeoutError:
            raise McpConnectionLost(f"the login was not finished within {self._seconds:g} s; try again") from None
        finally:
            if pasting is not None:
                pasting.cancel()
        if found.error:
            raise McpConnectionLost(f"the login was refused: {label(found.error, 60)}; try again, or ask its operator")
        return AuthorizationCodeResult(code=found.code, state=found.state, iss=found.issuer or None)

    async def _paste(self, read: Callable[[], Awaitable[str]]) -> None:
        while line := await read():
            if not line.strip():
                continue
            found = read_redirect(line)
            if found is None:
                self._complain("this is not the address after the login; paste all of it, from http to its end")
            elif not self._receive(found):
                self._complain("this address belongs to another login; open the page above, and paste where it leads")
            else:
                return

    def _receive(self, found: Redirect) -> bool:
        """Take a redirect of this login. Any page can make a browser send something here: only the state is secret."""
        if not self._state or found.state != self._state:
            return False
        if not self._received.done():
            self._received.set_result(found)
        return True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a browser. Nothing of the request is repeated in the answer."""
        status, text = "404 Not Found", "There is nothing here."
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            method, target, *_ = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
            found = read_redirect(target) if method == "GET" and urlsplit(target).path == _PATH else None
            if found is not None and self._receive(found):
                done = "The login was refused." if found.error else "You are logged in."
                status, text = "200 OK", f"{done} You can close this page and return to Dragoman."
            elif found is not None:
                status, text = "400 Bad Request", "This page does not belong to the login that is waiting."
            body = _PAGE.format(text).encode()
            lines = (f"HTTP/1.1 {status}", "Content-Type: text/html; charset=utf-8", f"Content-Length: {len(body)}")
            writer.write("\r\n".join((*lines, "Cache-Control: no-store", "Connection: close", "", "")).encode() + body)
            await writer.drain()
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a browser, or one that has left; the login goes on
        finally:
            writer.close()


@asynccontextmanager
async def listening(
    ports: Sequence[int],
    show_page: Callable[[str], Awaitable[None]],
    complain: Callable[[str], None],
    read_pasted: Callable[[], Awaitable[str]] | None = None,
    *,
    seconds: float = LOGIN_SECONDS,
) -> AsyncIterator[BrowserLogin]:
    """Listen for the redirect of a login at the first of these ports that is free; 0 is any free port.

    Raises: McpConnectionLost.
    """
    login: BrowserLogin | None = None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert login is not None
        await login.serve(reader, writer)

    server: asyncio.Server | None = None
    for port in ports:
        try:
            server = await asyncio.start_server(serve, _HOST, port, limit=_LARGEST_REQUEST)
            break
        except OSError:
            continue
    if server is None:
        raise McpConnectionLost(f"the port {ports[-1]} of the redirect is taken; end the program that uses it")
    async with server:
        login = BrowserLogin(server.sockets[0].getsockname()[1], show_page, complain, read_pasted, seconds)
        yield login


def redirect_ports(preset: int, redirect_uri: str) -> tuple[int, ...]:
    """Return the ports to try: the preset one alone, or that of the registered client, so that it can be used again."""
    if preset:
        return (preset,)
    known = urlsplit(redirect_uri).port if redirect_uri else None
    return (known, 0) if known else (0,)
