"""Logins over SSE, the older way to reach a server at an address: the same logins, and messages that are refused."""

import asyncio
import time
from pathlib import Path

import httpx2
import pytest
from msgspec.structs import replace

from dragoman.builtin.mcp.connection import PackageConnection
from dragoman.builtin.mcp.oauth import auth_for
from dragoman.builtin.mcp.server import McpConnectionLost, McpLoginNeeded, Waits
from tests.builtin.mcp.fixtures import connected
from tests.builtin.mcp.test_oauth import SECONDS, Locked, port

__all__ = ["port"]  # the fixture


@pytest.fixture
def server(port: int, tmp_path: Path) -> Locked:
    locked = Locked(port, tmp_path)
    locked.spec = replace(locked.spec, url=f"{locked.base}/sse", is_sse=True)
    httpx2.post(f"{locked.base}/control", json={"reset": True})
    return locked


async def test_a_login_over_sse_is_kept_and_refreshed_without_a_browser(server: Locked) -> None:
    with pytest.raises(McpLoginNeeded, match="log in with: dragoman mcp login locked"):
        await server.use()
    await server.log_in()
    assert await server.control() == {"register": 1, "authorize": 1, "code": 1, "refresh": 0}
    assert await server.use() == "opened"
    await server.control(expire=True)
    server.tokens.change(server.spec.url, expires_at=time.time() - 10)
    assert await server.use() == "opened"
    assert await server.control() == {"register": 1, "authorize": 1, "code": 1, "refresh": 1}


async def test_a_refusal_in_mid_session_is_answered_by_a_refresh(server: Locked) -> None:
    await server.log_in()
    auth = auth_for(server.spec, server.tokens)
    async with PackageConnection(server.spec, "/", lambda: None, auth=auth) as connection:
        await connection.call("open", {}, {})
        await server.control(expire=True)
        assert (await connection.call("open", {}, {})).text == "opened"
    assert (await server.control())["refresh"] == 1


async def test_a_login_that_ends_in_mid_session_fails_the_call_in_words_and_at_once(server: Locked) -> None:
    """The package only logs that a message could not be sent; the call would wait for ten minutes."""
    await server.log_in()
    auth = auth_for(server.spec, server.tokens)
    async with asyncio.timeout(SECONDS):
        async with PackageConnection(server.spec, "/", lambda: None, auth=auth) as connection:
            await connection.call("open", {}, {})
            await server.control(expire=True, revoke=True)
            with pytest.raises(McpConnectionLost, match="log in again with: dragoman mcp login locked"):
                await connection.call("open", {}, {})


async def test_a_session_uses_a_login_made_later(server: Locked, tmp_path: Path) -> None:
    entry = {"type": "sse", "url": server.spec.url}
    waits = Waits(again_seconds=(0.0,))
    folder = server.tokens.path.parent
    async with connected(tmp_path, configured={"locked": entry}, waits=waits, config_dir=folder) as session:
        [(_, why)] = session.notices
        assert "dragoman mcp login locked" in why
        await server.log_in()
        await session.servers.ready()
        assert (await session.call("locked_open")).text == "opened"
        # Its login ends: the call fails with the command to log in, and the next login is used again.
        await server.control(expire=True, revoke=True)
        async with asyncio.timeout(SECONDS):
            with pytest.raises(Exception, match="log in again with: dragoman mcp login locked"):
                await session.call("locked_open")
            await server.log_in()
            await session.servers.ready()
            assert (await session.call("locked_open")).text == "opened"
