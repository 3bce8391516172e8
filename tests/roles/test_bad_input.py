"""Bad input never ends a connection: both roles, in memory and over stdio, each case followed by a good request."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dragoman.client import spawn
from dragoman.rpc import Limits
from dragoman.schema import v1
from dragoman.testing import scripted_agent
from dragoman.transports.memory import memory_pair
from dragoman.transports.process import ProcessTransport
from tests.client.fixtures import client_and_agent, open_session
from tests.roles.bad_input import BAD_INPUTS, MIB, BadInput
from tests.rpc.fixtures import RawEnd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AGENT = [sys.executable, "-m", "dragoman.testing.scripted_agent"]
FAKE_AGENT = str(Path(__file__).with_name("fake_agent.py"))


def _cases() -> list[Any]:
    return [pytest.param(case, id=case.name, marks=pytest.mark.rule(*case.rules)) for case in BAD_INPUTS]


def _errors(messages: list[dict[str, Any]]) -> list[tuple[int, Any]]:
    return [(message["error"]["code"], message["id"]) for message in messages if "error" in message]


@asynccontextmanager
async def agent_line(kind: str, limits: Limits | None = None) -> AsyncIterator[RawEnd]:
    """A raw client in front of the scripted agent, initialized."""
    if kind == "memory":
        ours, theirs = memory_pair()
        agent = scripted_agent()
        if limits is not None:
            agent.limits = limits
        serving = asyncio.create_task(agent.serve(theirs))
        line = RawEnd(ours)
    else:
        serving = None
        line = RawEnd(await ProcessTransport.spawn(AGENT))
    line.send(line.request("init", "initialize", protocolVersion=1))
    assert "result" in await line.next()
    try:
        yield line
    finally:
        line.transport.close()
        await line.transport.wait_closed()
        if serving is not None:
            await serving


async def _answers(line: RawEnd) -> list[dict[str, Any]]:
    """Everything that comes back before the answer to a good request; the connection is alive if that comes."""
    line.send(line.request("probe", "_scripted/echo", alive=True))
    messages: list[dict[str, Any]] = []
    while True:
        message = await line.next()
        if message.get("id") == "probe":
            assert message["result"] == {"alive": True}
            return messages
        messages.append(message)


@pytest.mark.parametrize("case", _cases())
async def test_an_agent_in_memory_answers_and_lives(case: BadInput) -> None:
    async with agent_line("memory") as line:
        line.send(case.data)
        assert _errors(await _answers(line)) == case.answers


async def test_an_agent_on_stdio_answers_every_case_and_lives() -> None:
    """One process takes them all, so nothing a case leaves behind goes unnoticed. Answers without an id are limited
    to one a second, so only the others are counted here."""
    async with agent_line("stdio") as line:
        for case in BAD_INPUTS:
            line.send(case.data)
            answers = [answer for answer in _errors(await _answers(line)) if answer[1] is not None]
            assert answers == [answer for answer in case.answers if answer[1] is not None], case.name


@pytest.mark.parametrize("case", _cases())
async def test_a_client_in_memory_answers_and_lives(case: BadInput) -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        prompting = asyncio.ensure_future(session.prompt("go"))
        prompt = await line.expect("session/prompt")
        line.send(line.chunk("s1", "be"), case.data, line.chunk("s1", "fore"))
        line.send(line.request("probe", "_no/such"))
        answers = []
        while (message := await line.next()).get("id") != "probe":
            answers.append(message)
        assert _errors(answers) == case.answers
        line.send(line.result(prompt["id"], {"stopReason": "end_turn"}))
        await prompting
        assert session.state.text == "before"


async def test_a_client_on_stdio_answers_every_case_and_lives(tmp_path: Path) -> None:
    """A fake agent sends each case in the middle of a turn and reports the responses."""
    script = tmp_path / "cases.json"
    script.write_text(json.dumps([case.data.decode("latin-1") for case in BAD_INPUTS]))
    async with spawn(sys.executable, FAKE_AGENT, str(script)) as agent:
        session = await agent.new_session(tmp_path)
        for number, case in enumerate(BAD_INPUTS):
            result = await session.prompt(str(number))
            assert session.state.text == "before", case.name
            assert isinstance(result.meta, dict)
            answers = [tuple(answer) for answer in result.meta["answers"] if answer[1] is not None]
            assert answers == [answer for answer in case.answers if answer[1] is not None], case.name


async def test_malformed_answers_fail_only_the_waiting_caller() -> None:
    async with client_and_agent() as (agent, line):
        for outcome in ({"result": 1, "error": {}}, {}, {"error": "boom"}, {"error": {"code": "x"}}, {"result": 5}):
            listing = asyncio.ensure_future(agent.list_sessions())
            request = await line.expect("session/list")
            line.send({"jsonrpc": "2.0", "id": request["id"], **outcome})
            with pytest.raises(Exception, match=r"result|error|object|expected"):
                await listing
        await open_session(agent, line)


# Sizes


@pytest.mark.rule(14)
async def test_a_line_over_the_limit_is_refused_by_its_id_and_the_connection_lives() -> None:
    limits = Limits(message_bytes=100_000)
    async with agent_line("memory", limits) as line:
        long = json.dumps(line.request(9, "_scripted/echo", text="x" * 200_000)).encode() + b"\n"
        for start in range(0, len(long), 7_000):
            line.send(long[start : start + 7_000])
        assert _errors(await _answers(line)) == [(-32600, 9)]


@pytest.mark.rule(14)
async def test_a_response_over_the_limit_fails_its_waiter_and_the_connection_lives() -> None:
    async with client_and_agent(limits=Limits(message_bytes=100_000)) as (agent, line):
        listing = asyncio.ensure_future(agent.list_sessions())
        request = await line.expect("session/list")
        line.send(line.result(request["id"], {"sessions": [], "nextCursor": "x" * 200_000}))
        with pytest.raises(Exception, match="was dropped"):
            await listing
        await open_session(agent, line)


async def test_100_mb_of_noise_are_skipped_in_little_memory() -> None:
    async with agent_line("stdio") as line:
        transport = line.transport
        assert isinstance(transport, ProcessTransport)
        before = _peak_bytes(transport.pid)
        for _ in range(100):
            line.has_room.clear()
            transport.write(b"x" * MIB)
            if transport.unsent_bytes:
                await line.has_room.wait()
        transport.write(b"\n")
        assert _errors(await _answers(line)) == [(-32600, None)]
        assert _peak_bytes(transport.pid) - before < 60 * MIB


async def test_noise_is_not_answered_line_by_line() -> None:
    async with agent_line("memory") as line:
        line.send(b"noise\n" * 10_000)
        assert _errors(await _answers(line)) == [(-32700, None)]


@pytest.mark.parametrize("kind", ["memory", "stdio"])
async def test_numbers_of_5_000_digits_are_a_parse_error(kind: str) -> None:
    async with agent_line(kind) as line:
        line.send(b'{"jsonrpc":"2.0","id":5,"method":"_scripted/echo","params":{"n":' + b"9" * 5_000 + b"}}\n")
        assert _errors(await _answers(line)) == [(-32700, 5)]


@pytest.mark.rule(20, 25)
async def test_a_duplicate_id_is_refused_while_the_first_runs() -> None:
    async with agent_line("memory") as line:
        line.send(line.request("new", "session/new", cwd="/tmp", mcpServers=[]))
        session_id = (await line.next())["result"]["sessionId"]
        text = {"type": "text", "text": "slow"}
        line.send(
            line.request(7, "session/prompt", sessionId=session_id, prompt=[text]),
            line.request(7, "_scripted/echo"),
        )
        while (message := await line.next()).get("id") != 7:
            pass
        assert message["error"]["code"] == -32600
        line.send(line.note("session/cancel", sessionId=session_id))
        while (message := await line.next()).get("id") != 7:
            pass
        assert message["result"] == {"stopReason": "cancelled"}


@pytest.mark.rule(27)
async def test_the_ids_of_the_two_directions_are_independent() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        prompting = asyncio.ensure_future(session.prompt("go"))
        prompt = await line.expect("session/prompt")
        line.send(line.request(prompt["id"], "_no/such"))
        assert (await line.next())["error"]["code"] == -32601
        line.send(line.result(prompt["id"], {"stopReason": "end_turn"}))
        assert (await prompting).stop_reason == "end_turn"


@pytest.mark.rule(13)
async def test_a_client_takes_a_complete_last_line_and_only_that() -> None:
    for missing, heard in ((0, ["bye"]), (1, [])):
        async with client_and_agent() as (agent, line):
            session = await open_session(agent, line)
            chunk = json.dumps(line.chunk("s1", "bye")).encode()
            line.send(chunk[: len(chunk) - missing])
            line.transport.close()
            await agent.wait_closed()
            assert [message.text for message in session.state.messages] == heard


@pytest.mark.rule(13)
async def test_an_agent_on_stdio_answers_a_complete_last_line_and_only_that() -> None:
    request = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
    for missing, outcome in ((0, "result"), (1, "error")):
        process = await asyncio.create_subprocess_exec(*AGENT, stdin=-1, stdout=-1, stderr=-3)
        output, _ = await process.communicate(request[: len(request) - missing])
        assert [outcome in json.loads(line) for line in output.splitlines()] == [True]
        assert process.returncode == 0


@pytest.mark.rule(328)
async def test_meta_never_becomes_an_argument() -> None:
    async with agent_line("memory") as line:
        meta = {"session_id": "EVIL", "sessionId": "EVIL", "self": 1, "cwd": "/evil"}
        line.send(line.request(1, "session/new", cwd="/tmp", mcpServers=[], _meta=meta))
        session_id = (await line.next())["result"]["sessionId"]
        assert session_id != "EVIL"
        line.send(
            line.request(2, "session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "hi"}], _meta=meta)
        )
        while (message := await line.next()).get("id") != 2:
            assert message["params"]["sessionId"] == session_id
        assert message["result"] == {"stopReason": "end_turn"}


async def test_an_update_for_an_unknown_session_is_kept_apart() -> None:
    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        updates = session.updates()
        line.send(line.chunk("ghost", "boo"), line.chunk("s1", "hi"))
        update = (await anext(updates)).update
        assert isinstance(update, v1.AgentMessageChunk)
        assert session.state.messages[0].text == "hi"


def _peak_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")
