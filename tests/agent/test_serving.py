"""An agent at an address: one line to serve it, one line to connect to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.agent import Agent, Turn
from dragoman.errors import ConfigError, ConnectionClosed


def make_agent() -> Agent:
    agent = Agent("remote-test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say(f"You wrote: {turn.text}")

    return agent


@asynccontextmanager
async def served(address: str, **options: Any) -> AsyncIterator[str]:
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(make_agent().serve(address, on_listening=listening.set_result, **options))
    first: list[asyncio.Future[Any]] = [serving, listening]
    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    try:
        if serving.done():
            serving.result()
        yield listening.result()
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def answer(url: str, **options: Any) -> str:
    async with dragoman.connect(url, **options) as remote:
        session = await remote.new_session("/tmp")
        await session.prompt("hello")
        return session.state.text


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_a_port_serves_http_and_websocket(scheme: str) -> None:
    async with served("127.0.0.1:0", token="secret") as url:
        url = url.replace("http", scheme, 1)
        assert await answer(url, token="secret") == "You wrote: hello"
        with pytest.raises(ConnectionClosed, match="401"):
            await answer(url)
        # The name for the same machine is as good; any other is refused.
        assert await answer(url.replace("127.0.0.1", "localhost"), token="secret") == "You wrote: hello"


async def test_a_unix_socket_is_for_this_user_and_is_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    async with served(f"unix:{path}") as url:
        assert path.stat().st_mode & 0o077 == 0
        assert await answer(url) == "You wrote: hello"
        with pytest.raises(ConfigError, match="another program listens"):
            await make_agent().serve(f"unix:{path}")
    assert not path.exists()
    with pytest.raises(ConnectionClosed, match="no program listens"):
        await answer(f"unix:{path}")


async def test_serving_ends_as_usual_when_its_socket_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(make_agent().serve(f"unix:{path}", on_listening=listening.set_result))
    await listening
    path.unlink()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_without_a_token_one_is_made_once_and_kept_for_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    monkeypatch.delenv("DRAGOMAN_TOKEN", raising=False)
    kept = tmp_path / "data" / "tokens" / "127.0.0.1_0"
    tokens = []
    for _ in range(2):
        async with served("127.0.0.1:0") as url:
            tokens.append(kept.read_text().strip())
            assert await answer(url, token=tokens[-1]) == "You wrote: hello"
    assert tokens[0] == tokens[1]
    assert len(tokens[0]) >= 40
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("0.0.0.0:0", "can be reached by others"),
        ("[::]:0", "can be reached by others"),
        ("8787", "is not an address"),
        ("127.0.0.1:99999", "is not an address"),
        (f"unix:/tmp/{'x' * 200}", "may have 107 bytes"),
    ],
)
async def test_an_address_that_cannot_be_used_is_refused(address: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        await make_agent().serve(address, token="x")


async def test_a_port_in_use_is_refused() -> None:
    async with served("127.0.0.1:0", token="x") as url:
        with pytest.raises(ConfigError, match="choose another port"):
            await make_agent().serve(url.removeprefix("http://").removesuffix("/acp"), token="x")


@pytest.mark.parametrize("url", ["ftp://x/acp", "http://user:password@127.0.0.1/acp", "nonsense", "http://[x/acp"])
async def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        await answer(url)


async def test_the_end_of_serving_ends_its_connections() -> None:
    async with served("127.0.0.1:0", token="x") as url:
        connection = dragoman.connect(url.replace("http", "ws", 1), token="x")
        remote = await connection.__aenter__()
    async with asyncio.timeout(60):
        await remote.wait_closed()
    await connection.__aexit__(None, None, None)
