"""Every wrong JSON type in every optional member of every stable method, over a connection: answered, and alive."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.schema import AGENT_METHODS, CLIENT_METHODS, Method
from dragoman.testing import ScriptedClient
from tests.client.fixtures import AgentLine, client_and_agent, open_session
from tests.roles.test_bad_input import agent_line
from tests.rpc.fixtures import RawEnd
from tests.schema.model import JSON_VALUES, MODEL, accepts, members_of, smallest_named

# A union as params: its variants are records of their own.
VARIANTS = {
    "SetSessionConfigOptionRequest": ("SetSessionConfigBoolean", "SetSessionConfigSelect"),
    "CreateElicitationRequest": ("ElicitationFormMode", "ElicitationUrlMode"),
}


def _bad_params(method: Method, **known: object) -> list[dict[str, Any]]:
    """Params of the method with one optional member wrong."""
    cases = []
    for name in VARIANTS.get(method._params, (method._params,)):
        assert name in MODEL.records, name
        good = {**smallest_named(name), **known}
        for member in members_of(name):
            if not member.is_required:
                cases += [{**good, member.wire: value} for value in JSON_VALUES if not accepts(member, value)]
    return cases


def _stable(table: dict[str, Method], kind: str) -> list[Any]:
    return [
        pytest.param(method, id=name)
        for name, method in table.items()
        if method.is_stable and method.kind == kind and name != "session/update"
    ]


def _is_answer(message: dict[str, Any], request_id: object) -> bool:
    return message.get("id") == request_id and "method" not in message


async def _sound(line: RawEnd, request_id: int) -> None:
    """The answer to this request is a result, or an error that blames the params and no bug of ours."""
    while not _is_answer(message := await line.next(), request_id):
        pass
    if "error" in message:
        assert message["error"]["code"] in (-32602, -32002), message


@pytest.mark.rule(59, 100, 227)
@pytest.mark.parametrize("method", _stable(AGENT_METHODS, "request"))
async def test_an_agent_answers_a_wrong_type_in_any_optional_member(method: Method) -> None:
    async with agent_line("memory") as line:
        line.send(line.request(-1, "session/new", cwd="/tmp", mcpServers=[]))
        session_id = (await line.next())["result"]["sessionId"]
        known: dict[str, object] = {"sessionId": session_id} if method.is_session_scoped else {}
        for number, params in enumerate(_bad_params(method, **known)):
            line.send({"jsonrpc": "2.0", "id": number, "method": method.name, "params": params})
            await _sound(line, number)
        line.send(line.request("probe", "_scripted/echo", alive=True))
        while not _is_answer(await line.next(), "probe"):
            pass


@pytest.mark.rule(59, 227)
@pytest.mark.parametrize("method", _stable(CLIENT_METHODS, "request"))
async def test_a_client_answers_a_wrong_type_in_any_optional_member(method: Method) -> None:
    client = ScriptedClient(files={"/a": "text"})
    async with client_and_agent(**client.options()) as (agent, line):
        await open_session(agent, line)
        known: dict[str, object] = {"sessionId": "s1", "path": "/a", "command": "/bin/true"}
        for number, params in enumerate(_bad_params(method, **known)):
            line.send({"jsonrpc": "2.0", "id": number, "method": method.name, "params": params})
            await _sound(line, number)
        await _is_alive(agent, line)
    await client.close()


@pytest.mark.parametrize(
    ("table", "method"),
    [("agent", case.values[0]) for case in _stable(AGENT_METHODS, "notification")]
    + [("client", case.values[0]) for case in _stable(CLIENT_METHODS, "notification")],
)
async def test_a_wrong_type_in_a_notification_is_never_answered(table: str, method: Method) -> None:
    frames = [{"jsonrpc": "2.0", "method": method.name, "params": params} for params in _bad_params(method)]
    if table == "agent":
        async with agent_line("memory") as line:
            line.send(*frames, line.request("probe", "_scripted/echo", alive=True))
            assert _is_answer(await line.next(), "probe")
    else:
        async with client_and_agent() as (agent, raw):
            raw.send(*frames)
            await _is_alive(agent, raw)


@pytest.mark.rule(226, 227)
async def test_an_update_with_a_wrong_type_in_any_optional_member_is_still_delivered() -> None:
    variants = [
        "AgentMessageChunk",
        "UserMessageChunk",
        "AgentThoughtChunk",
        "ToolCall",
        "ToolCallUpdate",
        "Plan",
        "AvailableCommandsUpdate",
        "CurrentModeUpdate",
        "ConfigOptionUpdate",
        "SessionInfoUpdate",
        "UsageUpdate",
        "Notice",
        "CompactionUpdate",
        "CompactionSummaryChunk",
    ]
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        updates = session.updates()
        for name in variants:
            good = smallest_named(name)
            for member in members_of(name):
                if member.is_required or not member.on_error:
                    continue
                for value in JSON_VALUES:
                    if not accepts(member, value):
                        line.send(line.note("session/update", sessionId="s1", update={**good, member.wire: value}))
                        received = await anext(updates)
                        assert type(received.update).__name__ == name, (name, member.wire, value)


async def _is_alive(agent: Any, line: AgentLine) -> None:
    listing = asyncio.ensure_future(agent.list_sessions())
    await line.answer("session/list", {"sessions": []})
    await listing
