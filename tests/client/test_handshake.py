"""Connecting to an agent: what the client sends first, and when it disconnects."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.client import connect
from dragoman.errors import ConnectionClosed, RemoteProtocolError
from dragoman.schema import v1
from dragoman.transports.memory import memory_pair
from tests.client.fixtures import AgentLine, client_and_agent


class Reader:
    async def read_text_file(self, request: object, session: object) -> str:
        return ""


class Form:
    async def form(self, request: object, session: object) -> v1.DeclineElicitation:
        return v1.DeclineElicitation()


@pytest.mark.rule(33, 36, 37, 43, 44, 46, 49, 51)
async def test_initialize_comes_first_and_names_the_client_and_its_capabilities() -> None:
    ours, theirs = memory_pair()
    line = AgentLine(theirs)

    async def meet() -> None:
        async with connect(ours, name="probe", version="3", files=Reader(), elicitation=Form()):
            pass

    meeting = asyncio.create_task(meet())
    request = await line.answer("initialize", {"protocolVersion": 1})
    await meeting
    params = request["params"]
    assert params["protocolVersion"] == 1
    assert params["clientInfo"]["name"] == "probe"
    assert params["clientInfo"]["version"] == "3"
    capabilities = params["clientCapabilities"]
    assert capabilities["fs"] == {"readTextFile": True, "writeTextFile": False}
    assert capabilities["terminal"] is False
    assert capabilities["elicitation"] == {"form": {}}
    assert capabilities["session"] == {"configOptions": {"boolean": {}}, "compaction": {}, "notices": {}}
    assert "plan" not in capabilities


@pytest.mark.rule(41)
async def test_an_agent_of_another_version_is_left_with_a_clear_error() -> None:
    ours, theirs = memory_pair()
    line = AgentLine(theirs)

    async def meet() -> None:
        async with connect(ours):
            pytest.fail("the client went on with version 2")

    meeting = asyncio.create_task(meet())
    await line.answer("initialize", {"protocolVersion": 2})
    with pytest.raises(RemoteProtocolError, match="version 2"):
        await meeting
    await line.ended
    assert line.lines.empty()


async def test_an_agent_that_ends_before_it_answers_is_an_error_with_the_reason() -> None:
    ours, theirs = memory_pair()
    line = AgentLine(theirs)

    async def meet() -> None:
        async with connect(ours):
            pytest.fail("there is no agent")

    meeting = asyncio.create_task(meet())
    await line.expect("initialize")
    theirs.close()
    with pytest.raises(ConnectionClosed):
        await meeting


async def test_an_agent_that_never_answers_is_given_up() -> None:
    ours, theirs = memory_pair()
    line = AgentLine(theirs)
    with pytest.raises(ConnectionClosed, match="did not answer initialize"):
        async with connect(ours, initialize_seconds=0.05):
            pytest.fail("there is no agent")
    await line.expect("initialize")


@pytest.mark.rule(26, 45, 57, 59)
async def test_an_agent_may_send_almost_nothing_about_itself() -> None:
    async with client_and_agent({"loadSession": "yes", "sessionCapabilities": {"list": True, "close": None}}) as (
        agent,
        _,
    ):
        assert agent.info is None
        assert agent.auth_methods == ()
        assert not agent.capabilities.load_session
        assert not agent.capabilities.session_capabilities.close  # type: ignore[union-attr]
