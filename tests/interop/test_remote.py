"""The official SDKs at the other end of HTTP and WebSocket, both ways."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import dragoman
from dragoman.client import RemoteAgent, Session
from dragoman.schema import v1
from tests.interop.support import OUR_AGENT, PEERS, ROOT, client_command, require

TOKEN = "of-the-interop-tests"
SCENARIOS = (
    *("sessions", "auth", "stream", "tools", "facts", "settings", "permission", "files", "terminals", "elicitation"),
    *("bare", "cancel", "errors", "extensions", "side_by_side", "leave", "newer"),
)
both = pytest.mark.parametrize("scheme", ["http", "ws"])


@contextmanager
def listening(command: tuple[str, ...], how: str = "--listen") -> Iterator[str]:
    """A program that writes its URL to stdout and serves until it is ended."""
    environment = {**os.environ, "ACP_TOKEN": TOKEN}
    with subprocess.Popen(
        [*command, how], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def our_agent() -> Iterator[str]:
    with listening(OUR_AGENT) as url:
        yield url


@pytest.fixture(scope="module")
def our_asgi_agent() -> Iterator[str]:
    with listening(OUR_AGENT, "--asgi") as url:
        yield url


@pytest.fixture(scope="module")
def py_agent() -> Iterator[str]:
    require("py")
    with listening((sys.executable, "-W", "ignore", str(PEERS / "py_agent.py"))) as url:
        yield url


@pytest.fixture(scope="module")
def ts_agent() -> Iterator[str]:
    require("ts")
    with listening(("node", str(PEERS / "ts_agent.mjs"))) as url:
        yield url


def walk(sdk: str, url: str, scenarios: tuple[str, ...]) -> list[dict[str, Any]]:
    """What an SDK's client reports of these scenarios; each must have ended without a failure."""
    if sdk == "py" and importlib.util.find_spec("httpx") is None:
        pytest.skip("the client of the Python SDK needs httpx: pip install 'agent-client-protocol[http]'")
    done = subprocess.run(
        [*client_command(sdk), *scenarios, "--", url],
        cwd=ROOT,
        env={**os.environ, "ACP_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    events = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert [event["error"] for event in events if event["event"] == "failed"] == []
    assert [event["scenario"] for event in events if event["event"] == "exit"] == list(scenarios)
    return events


@both
def test_the_typescript_client_walks_every_scenario_on_our_server(our_agent: str, scheme: str) -> None:
    """Among them: sessions that are loaded and resumed, permission, cancel, updates of 300,000 characters."""
    events = walk("ts", our_agent.replace("http", scheme, 1), SCENARIOS)
    streamed = [event["update"]["content"]["text"] for event in events if _is_streamed(event)]
    assert streamed[:120] == [f"{number} " for number in range(120)]
    assert max(map(len, streamed)) == 300_000


@both
def test_the_python_client_walks_every_scenario_on_our_server(our_agent: str, scheme: str) -> None:
    """All but `newer`, for which it has no code."""
    events = walk("py", our_agent.replace("http", scheme, 1), tuple(name for name in SCENARIOS if name != "newer"))
    streamed = [event["update"]["content"]["text"] for event in events if _is_streamed(event)]
    assert streamed[:120] == [f"{number} " for number in range(120)]
    assert max(map(len, streamed)) == 300_000


@both
@pytest.mark.parametrize("sdk", ["ts", "py"])
def test_the_sdks_use_our_agent_inside_an_asgi_server(our_asgi_agent: str, scheme: str, sdk: str) -> None:
    walk(
        sdk,
        our_asgi_agent.replace("http", scheme, 1),
        ("sessions", "stream", "permission", "files", "cancel", "errors"),
    )


def _is_streamed(event: dict[str, Any]) -> bool:
    if (event["scenario"], event["event"]) != ("stream", "update"):
        return False
    return bool(event["update"]["sessionUpdate"] == "agent_message_chunk")


async def allow(request: v1.RequestPermissionRequest, session: Session) -> str:
    return "yes"


async def use(remote: RemoteAgent) -> Session:
    """What every server can do: a stream, large updates, questions one after the other, a cancel."""
    await remote.authenticate("key")
    session = await remote.new_session("/tmp")
    await session.prompt("stream 120")
    assert session.state.text.split() == [str(number) for number in range(120)]
    await session.prompt("big 2000000")
    assert len(session.state.text) == 2_000_000
    for _ in range(5):
        await session.prompt("permission")
        assert session.state.text == "permission: allow_once"
    turn = session.prompt("wait")
    async for _ in turn:
        await session.cancel()
    assert (await turn).stop_reason == "cancelled"
    return session


@both
async def test_our_client_uses_the_typescript_server(ts_agent: str, scheme: str) -> None:
    async with dragoman.connect(ts_agent.replace("http", scheme, 1), permission=allow) as remote:
        session = await use(remote)
        loaded = await remote.load_session("old-1", "/work-a")
        assert loaded.id == "old-1"
        if scheme == "ws":  # over HTTP that server sends the answer and the replay on two streams without an order
            assert len(loaded.state.timeline) == 3
        await loaded.prompt("stream 5")
        assert loaded.state.text.split() == ["0", "1", "2", "3", "4"]
        await remote.close_session(session.id)


@both
async def test_our_client_uses_the_python_server(py_agent: str, scheme: str) -> None:
    async with dragoman.connect(py_agent.replace("http", scheme, 1), permission=allow) as remote:
        await use(remote)
        loaded = await remote.load_session("old-1", "/work-a")
        assert loaded.id == "old-1"
        if scheme == "ws":
            assert len(loaded.state.timeline) == 3
            await loaded.prompt("stream 5")
            assert loaded.state.text.split() == ["0", "1", "2", "3", "4"]
        else:  # over HTTP that server never learns of a loaded session, and refuses everything that names it
            with pytest.raises(dragoman.RequestError, match="did not take the request"):
                await loaded.prompt("stream 5")


def test_a_request_of_another_site_enters_there_and_not_here(our_agent: str, ts_agent: str) -> None:
    """What a page of any site can send: the official server takes it, ours does not, with or without the token."""
    code = (
        "import sys, http.client, urllib.parse\n"
        "url = urllib.parse.urlsplit(sys.argv[1])\n"
        "line = http.client.HTTPConnection(url.netloc, timeout=60)\n"
        "head = {'Content-Type': 'application/json', 'Origin': 'https://evil.example'}\n"
        "head |= {'Authorization': 'Bearer ' + sys.argv[2]}\n"
        'body = \'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\'\n'
        "line.request('POST', url.path, body, head)\n"
        "print(line.getresponse().status)\n"
    )

    def status(url: str) -> int:
        run = subprocess.run([sys.executable, "-c", code, url, TOKEN], capture_output=True, text=True, check=True)
        return int(run.stdout)

    assert status(ts_agent) == 200
    assert status(our_agent) == 403
