"""The cases about requests on two servers, and `dragoman connect` between two official ends."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import dragoman
from dragoman.conformance.remote.cases import remote_cases
from dragoman.conformance.remote.probe import RemoteProbe
from dragoman.conformance.remote.run import judge_requests
from tests.interop.support import OUR_AGENT, PEERS, ROOT, require
from tests.interop.test_remote import TOKEN, allow, listening

CONNECT = (sys.executable, "-m", "dragoman", "connect")
# Who is let in: the official server has no check for any of these.
OPEN_DOORS = {"missing-token", "wrong-token", "foreign-host", "foreign-origin", "websocket-no-echo"}


@pytest.fixture(scope="module")
def our_agent() -> Iterator[str]:
    with listening(OUR_AGENT) as url:
        yield url


@pytest.fixture(scope="module")
def ts_agent() -> Iterator[str]:
    require("ts")
    with listening(("node", str(PEERS / "ts_agent.mjs"))) as url:
        yield url


def judged(url: str, token: str | None) -> dict[str, str]:
    probe = RemoteProbe(url, token=token, headers={}, tls=None, seconds=20.0)
    results = asyncio.run(judge_requests(probe, list(remote_cases().values())))
    return {result.id.removeprefix("agent/remote/"): result.status for result in results}


def test_our_server_passes_every_case_and_the_official_one_those_about_the_wire(our_agent: str, ts_agent: str) -> None:
    assert set(judged(our_agent, TOKEN).values()) == {"pass"}
    there = judged(ts_agent, None)
    assert {name for name, status in there.items() if status == "warn"} == OPEN_DOORS
    assert {status for name, status in there.items() if name not in OPEN_DOORS} == {"pass"}


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_the_bridge_leads_to_the_official_server(ts_agent: str, scheme: str) -> None:
    url = ts_agent.replace("http", scheme, 1)
    async with dragoman.spawn(*CONNECT, url, permission=allow) as remote:
        await remote.authenticate("key")
        session = await remote.new_session("/tmp")
        await session.prompt("stream 120")
        assert session.state.text.split() == [str(number) for number in range(120)]
        await session.prompt("permission")
        assert session.state.text == "permission: allow_once"


def test_the_official_client_uses_the_bridge_as_its_agent(our_agent: str) -> None:
    require("ts")
    scenarios = ("sessions", "permission", "cancel")
    done = subprocess.run(
        ["node", str(PEERS / "ts_client.mjs"), *scenarios, "--", *CONNECT, our_agent.replace("http", "ws", 1)],
        cwd=ROOT,
        env={**os.environ, "DRAGOMAN_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    events = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert [event["error"] for event in events if event["event"] == "failed"] == []
    assert [event["scenario"] for event in events if event["event"] == "exit"] == list(scenarios)
