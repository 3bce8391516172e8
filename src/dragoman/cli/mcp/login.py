"""`dragoman mcp login` and `logout`: log in to an MCP server with OAuth, in a browser or by a pasted address.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.console import write_note
from dragoman.cli.mcp.context import load_package, load_servers_here, required_name
from dragoman.cli.mcp.test import seconds_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dragoman.builtin.mcp.config import ServerSpec
    from dragoman.builtin.mcp.listing import Listing
    from dragoman.builtin.mcp.token_store import TokenStore
    from dragoman.cli.command import CliCall


def login_server(call: CliCall) -> int:
    """Exit code 7 if the login failed."""
    name = required_name(call.given.server, "login", "dragoman mcp login docs")
    servers = load_servers_here()
    spec = servers.usable(name)
    if not spec.url:
        raise exits.CliError(f"{name} is a program, which has no login here", hint="see its own documentation")
    if not spec.can_login or spec.oauth is None:
        raise exits.CliError(f"{name} does not use OAuth: its entry sets a header, or oauth to false")
    if spec.oauth.uses_client_credentials:
        raise exits.CliError(f"{name} logs in by itself, with client credentials", hint=f"dragoman mcp test {name}")
    from dragoman.builtin.mcp.login import LOGIN_SECONDS

    load_package()
    opens = not call.given.no_browser
    listing = asyncio.run(_login(spec, servers.tokens, seconds_of(call, LOGIN_SECONDS), opens=opens))
    if not servers.tokens.get(spec.where).tokens:
        write_note(f"{name} wants no login; it offers {len(listing.tools)} tools")
    else:
        write_note(f"logged in to {name}, which offers {len(listing.tools)} tools")
    return exits.OK


def logout_server(call: CliCall) -> int:
    from dragoman.builtin.mcp.config import ServerSpec

    name = required_name(call.given.server, "logout", "dragoman mcp logout docs")
    servers = load_servers_here()
    url = name if name.startswith(("http://", "https://")) else servers.find(name).entry.get("url", "")
    if not url or not servers.tokens.remove(ServerSpec(name, url=url).where):
        write_note(f"there is no stored login to {name}")
    else:
        write_note(f"the login to {name} was removed from this machine; its server may keep it until it expires")
    return exits.OK


async def _login(spec: ServerSpec, tokens: TokenStore, seconds: float, *, opens: bool) -> Listing:
    """Connect, with the user to log in. Raises: CliError."""
    from dragoman.builtin.mcp.connection import PackageConnection
    from dragoman.builtin.mcp.login import listening, redirect_ports
    from dragoman.builtin.mcp.oauth import auth_for
    from dragoman.builtin.mcp.server import McpConnectionLost

    port = spec.oauth.callback_port if spec.oauth is not None else 0
    ports = redirect_ports(port, tokens.get(spec.where).redirect_uri)

    async def show(url: str) -> None:
        await _show_page(url, opens=opens)

    try:
        async with listening(ports, show, write_note, _line_reader(), seconds=seconds) as user:
            connection = PackageConnection(spec, os.getcwd(), lambda: None, auth=auth_for(spec, tokens, user))
            async with connection:
                return await connection.listing()
            # A connection that breaks leaves the block without an exception.
            raise McpConnectionLost(connection.lost or "it closed the connection")
    except McpConnectionLost as error:
        raise exits.CliError(f"{spec.name}: {error}", exit_code=exits.AUTH_REQUIRED) from None


async def _show_page(url: str, *, opens: bool) -> None:
    from dragoman.client.elicitation.pages import inspect, is_web, open_in_browser
    from dragoman.text.visible import spelled

    host, warnings = inspect(url)
    sys.stderr.write(f"Log in on this page of {host or 'an unknown host'}:\n\n  {spelled(url)}\n\n")
    for warning in warnings if not host.startswith(("127.0.0.1", "localhost")) else ():
        write_note(f"note: {warning}")
    has_opened = opens and is_web(url) and await asyncio.to_thread(open_in_browser, url)
    how = "It was opened in your browser." if has_opened else "Open it in a browser."
    sys.stderr.write(f"{how} If the browser runs on another machine, paste the address that it ends at here:\n")
    sys.stderr.flush()


def _line_reader() -> Callable[[], Awaitable[str]]:
    """Return a function that returns the next line of stdin.

    The lines are read by a thread that is left behind: a read cannot be cancelled, and the program must be able to end.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        try:
            while line := sys.stdin.readline():
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, "")
        except (OSError, RuntimeError, ValueError):
            pass  # the loop has ended, or stdin is closed

    async def next_line() -> str:
        if not is_reading.is_set():
            is_reading.set()
            threading.Thread(target=read, name="dragoman-login", daemon=True).start()
        return await lines.get()

    is_reading = threading.Event()
    return next_line
