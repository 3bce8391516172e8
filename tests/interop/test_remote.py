"""The official TypeScript SDK at the other end of HTTP and WebSocket, both ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import dragoman
from dragoman.client import Session
from dragoman.schema import v1
from tests.interop.support import OUR_AGENT, PEERS, ROOT, require

TOKEN = "of-the-interop-tests"
SCENARIOS = (
    *("sessions", "auth", "stream", "tools", "facts", "settings", "permission", "files", "terminals", "elicitation"),
    *("bare", "cancel", "errors", "extensions", "side_by_side", "leave", "newer"),
)
both = pytest.mark.parametrize("scheme", ["http", "ws"])


@contextmanager
def listening(command: tuple[str, ...]) -> Iterator[str]:
    """A program that writes its URL to stdout and serves until it is ended."""
    environment = {**os.environ, "ACP_TOKEN": TOKEN}
    with subprocess.Popen(
        [*command, "--listen"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
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
def ts_agent() -> Iterator[str]:
    require("ts")
    with listening(("node", str(PEERS / "ts_agent.mjs"))) as url:
        yield url


@both
def test_the_typescript_client_walks_every_scenario_on_our_server(our_agent: str, scheme: str) -> None:
    require("ts")
    done = subprocess.run(
        ["node", str(PEERS / "ts_client.mjs"), *SCENARIOS, "--", our_agent.replace("http", scheme, 1)],
        cwd=ROOT,
        env={**os.environ, "ACP_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    events = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert [event["error"] for event in events if event["event"] == "failed"] == []
    assert [event["scenario"] for event in events if event["event"] == "exit"] == list(SCENARIOS)
    streamed = [event["update"]["content"]["text"] for event in events if _is_streamed(event)]
    assert streamed[:120] == [f"{number} " for number in range(120)]


def _is_streamed(event: dict[str, Any]) -> bool:
    if (event["scenario"], event["event"]) != ("stream", "update"):
        return False
    return bool(event["update"]["sessionUpdate"] == "agent_message_chunk")


async def allow(request: v1.RequestPermissionRequest, session: Session) -> str:
    return "yes"


@both
async def test_our_client_uses_the_typescript_server(ts_agent: str, scheme: str) -> None:
    async with dragoman.connect(ts_agent.replace("http", scheme, 1), permission=allow) as remote:
        await remote.authenticate("key")
        session = await remote.new_session("/tmp")
        await session.prompt("stream 120")
        assert session.state.text.split() == [str(number) for number in range(120)]
        await session.prompt("permission")
        assert session.state.text == "permission: allow_once"
        loaded = await remote.load_session("old-1", "/work-a")
        assert loaded.id == "old-1"
        if scheme == "ws":  # over HTTP that server sends the answer and the replay on two streams without an order
            assert len(loaded.state.timeline) == 3
        await remote.close_session(session.id)


def test_a_request_of_another_site_enters_there_and_not_here(our_agent: str, ts_agent: str) -> None:
    """What a page of any site can send: the official server takes it, ours does not, with or without the token."""
    code = (
        "import sys, http.client, urllib.parse\n"
        "url = urllib.parse.urlsplit(sys.argv[1])\n"
        "line = http.client.HTTPConnection(url.netloc, timeout=10)\n"
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
