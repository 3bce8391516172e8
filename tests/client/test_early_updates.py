"""Requests of an agent about a session that the answer on its way will name; the updates are in test_sessions.py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import dragoman.client.early_updates
from dragoman import RequestError
from dragoman.schema import v1
from tests.client.fixtures import AgentLine, by_one_stream, client_and_agent

OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]


def ask(line: AgentLine, session_id: str = "s1") -> dict[str, Any]:
    return line.request(
        "q", "session/request_permission", sessionId=session_id, toolCall={"toolCallId": "t"}, options=OPTIONS
    )


async def allow(request: v1.RequestPermissionRequest, session: Any) -> str:
    assert session.id == request.session_id
    return "yes"


@pytest.mark.rule(103)
async def test_a_request_waits_for_the_answer_that_names_its_session() -> None:
    async with client_and_agent(permission=allow) as (agent, line):
        opening = asyncio.ensure_future(agent.new_session("/tmp"))
        new = await line.expect("session/new")
        line.send(ask(line), line.chunk("s1", "early"))
        line.send(line.result(new["id"], {"sessionId": "s1"}))
        session = await opening
        answer = await line.next()
        assert answer["result"] == {"outcome": {"outcome": "selected", "optionId": "yes"}}
        assert list(session.state.tool_calls) == ["t"]


@pytest.mark.parametrize("outcome", [{"sessionId": "another"}, None])
@by_one_stream
async def test_a_request_for_a_session_that_does_not_come_is_refused_with_the_answer(
    outcome: dict[str, str] | None,
) -> None:
    async with client_and_agent(permission=allow) as (agent, line):
        opening = asyncio.ensure_future(agent.new_session("/tmp"))
        new = await line.expect("session/new")
        line.send(ask(line))
        if outcome is None:
            line.send({"jsonrpc": "2.0", "id": new["id"], "error": {"code": -32603, "message": "No"}})
            with pytest.raises(RequestError):
                await opening
        else:
            line.send(line.result(new["id"], outcome))
            await opening
        assert (await line.next())["error"]["code"] == -32002


@by_one_stream
async def test_a_request_for_an_unknown_session_is_refused_at_once_when_none_is_being_opened() -> None:
    async with client_and_agent(permission=allow) as (_, line):
        line.send(ask(line))
        assert (await line.next())["error"]["code"] == -32002


@by_one_stream
async def test_an_agent_that_wants_its_answer_first_does_not_wait_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dragoman.client.early_updates, "EARLY_REQUEST_SECONDS", 0.1)
    async with client_and_agent(permission=allow) as (agent, line):
        opening = asyncio.ensure_future(agent.new_session("/tmp"))
        new = await line.expect("session/new")
        line.send(ask(line))
        assert (await line.next())["error"]["code"] == -32002
        line.send(line.result(new["id"], {"sessionId": "s1"}))
        assert (await opening).id == "s1"


@by_one_stream
async def test_a_request_that_waits_can_be_withdrawn() -> None:
    async with client_and_agent(permission=allow) as (agent, line):
        opening = asyncio.ensure_future(agent.new_session("/tmp"))
        new = await line.expect("session/new")
        line.send(ask(line), line.request("probe", "_no/such"))
        assert (await line.next())["id"] == "probe"
        line.send(line.note("$/cancel_request", requestId="q"))
        assert (await line.next())["result"] == {"outcome": {"outcome": "cancelled"}}
        line.send(line.result(new["id"], {"sessionId": "s1"}))
        await opening
