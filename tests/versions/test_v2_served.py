"""An agent of the library in front of clients of version 2: what is negotiated, and what the edge adds."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman.agent import Agent, Turn
from dragoman.errors import LocalProtocolError
from dragoman.testing.agent import scripted_agent
from dragoman.testing.script import KEYWORDS
from dragoman.transports.memory import memory_pair
from tests.agent.fixtures import ClientLine, Link, by_http, by_pipes, by_websocket, in_memory
from tests.versions.v2_line import INFO, V2Line

V1_KEYS: dict[str, Any] = {"clientInfo": INFO, "clientCapabilities": {}}
V2_KEYS: dict[str, Any] = {"info": INFO, "capabilities": {}}


@asynccontextmanager
async def client(agent: Agent | None = None, link: Link = in_memory) -> AsyncIterator[V2Line]:
    async with link(agent or scripted_agent()) as transport:
        yield V2Line(transport)


# Which version


@pytest.mark.parametrize(
    ("version", "keys", "answer"),
    [
        (1, V1_KEYS, 1),
        (1, {**V1_KEYS, **V2_KEYS}, 1),
        (2, V2_KEYS, 2),
        (2, {**V1_KEYS, **V2_KEYS}, 2),
        (3, V2_KEYS, 2),
        (65535, V2_KEYS, 2),
        (2, V1_KEYS, 1),  # only the number is of version 2
        (2, {}, 1),
        (65535, V1_KEYS, 1),
        (0, V1_KEYS, 1),
    ],
)
async def test_the_first_initialize_decides_the_version(version: int, keys: dict[str, Any], answer: int) -> None:
    async with in_memory(scripted_agent()) as transport:
        line = ClientLine(transport)
        result = await line.result("initialize", protocolVersion=version, **keys)
        assert result["protocolVersion"] == answer
        assert ("info" in result, "agentInfo" in result) == (answer == 2, answer == 1)


@pytest.mark.parametrize("wrong", ["2", "2025.1", -1, 65536, None, 2.5])
async def test_an_initialize_without_a_version_fails_and_the_next_one_decides(wrong: object) -> None:
    async with in_memory(scripted_agent()) as transport:
        line = ClientLine(transport)
        assert (await line.error("initialize", protocolVersion=wrong, **V2_KEYS))["code"] == -32602
        assert (await line.error("session/list"))["code"] == -32600
        assert (await line.result("initialize", protocolVersion=2, **V2_KEYS))["protocolVersion"] == 2


async def test_what_comes_before_initialize_is_refused_and_decides_nothing() -> None:
    async with in_memory(scripted_agent()) as transport:
        line = ClientLine(transport)
        line.send(b"not json\n", b'{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":2,"info":{}}}\n')
        assert (await line.next())["error"]["code"] == -32700
        assert (await line.error("session/new", cwd="/tmp"))["code"] == -32600
        assert (await line.result("initialize", protocolVersion=2, **V2_KEYS))["protocolVersion"] == 2


async def test_a_connection_of_version_1_stays_one() -> None:
    async with in_memory(scripted_agent()) as transport:
        line = ClientLine(transport)
        first = await line.result("initialize", protocolVersion=1, **V1_KEYS)
        assert await line.result("initialize", protocolVersion=2, **V2_KEYS) == first


async def test_a_connection_of_version_2_stays_one() -> None:
    async with client() as line:
        first = await line.greet()
        assert await line.greet() == first
        assert await line.refused("initialize", protocolVersion=1, **V1_KEYS) == -32600
        await line.session()
        assert await line.refused("initialize", protocolVersion=2, **V2_KEYS) == -32600


@pytest.mark.parametrize("method", ["authenticate", "logout", "session/load", "session/set_mode"])
async def test_methods_that_only_version_1_has_are_unknown(method: str) -> None:
    async with client() as line:
        await line.greet()
        assert await line.refused(method, sessionId="x", cwd="/tmp", modeId="ask", methodId="x") == -32601


async def test_messages_split_anywhere_and_sent_in_one_piece_are_the_same() -> None:
    async with client() as line:
        hello = line.request(1, "initialize", protocolVersion=2, **V2_KEYS)
        for byte in json.dumps(hello).encode() + b"\n":
            line.transport.write(bytes([byte]))
        assert (await line.answer(1))["result"]["protocolVersion"] == 2
    async with client() as line:
        line.send(hello, line.request(2, "session/new", cwd="/tmp"), line.note("session/cancel", sessionId="none"))
        assert (await line.answer(1))["result"]["protocolVersion"] == 2
        assert (await line.answer(2))["result"]["configOptions"]


async def test_the_last_line_before_the_end_needs_no_newline() -> None:
    for version in (1, 2):
        async with in_memory(scripted_agent()) as transport:
            line = ClientLine(transport)
            hello = line.request(1, "initialize", protocolVersion=version, **V1_KEYS, **V2_KEYS)
            line.send(json.dumps(hello).encode())
            transport.close()  # what was written is read to its end; that must not fail


async def test_an_agent_may_be_one_of_version_1_only() -> None:
    agent = Agent("old", versions=(1,))

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say("hi")

    async with in_memory(agent) as transport:
        line = ClientLine(transport)
        assert (await line.result("initialize", protocolVersion=2, **V2_KEYS))["protocolVersion"] == 1
    for wrong in ((2,), (1, 3), ()):
        with pytest.raises(LocalProtocolError):
            Agent("none", versions=wrong)


def test_a_client_of_version_1_loads_nothing_of_version_2() -> None:
    code = """
import asyncio, sys
from dragoman.testing.agent import scripted_agent
from dragoman.testing.script import KEYWORDS
from dragoman.transports.memory import memory_pair

class Line:
    def __init__(self): self.data = b""
    def feed(self, data): self.data += data
    def end(self, reason): pass
    def drained(self): pass

async def main(version):
    ours, theirs = memory_pair()
    serving = asyncio.ensure_future(scripted_agent().serve(theirs))
    line = Line()
    ours.start(line)
    hello = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%d,"info":{}}}\\n' % version
    ours.write(hello.encode())
    while b"\\n" not in line.data: await asyncio.sleep(0)
    ours.close()
    await serving
    print(any(name.startswith("dragoman.versions") for name in sys.modules), "dragoman.schema.v2" in sys.modules)

asyncio.run(main(1))
asyncio.run(main(2))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split("\n")[:2] == ["False False", "True False"]


# What the edge adds


@pytest.mark.parametrize("link", [by_pipes, by_websocket, by_http])
async def test_a_turn_over_every_transport(link: Link) -> None:
    async with client(link=link) as line:
        await line.greet()
        session = await line.session()
        line.prompt(session, "say hello")
        idle = await line.until_idle()
        assert idle["stopReason"] == "end_turn"
        assert line.states() == ["running", "idle"]
        [shown] = [update for update in line.updates if update["sessionUpdate"] == "user_message"]
        assert shown["content"] == [{"type": "text", "text": "say hello"}]


async def test_a_prompt_waits_for_the_one_that_runs_and_is_accepted_when_it_begins() -> None:
    async with client() as line:
        await line.greet()
        session = await line.session()
        slow = line.prompt(session, "slow")
        accepted = (await line.answer(slow))["result"]["messageId"]
        await line.until_update("agent_message_chunk")
        held = line.prompt(session, "say second")
        withdrawn = line.prompt(session, "say third")
        line.notify("$/cancel_request", requestId=withdrawn)
        assert (await line.answer(withdrawn))["error"]["code"] == -32800
        line.notify("$/cancel_request", requestId=slow)  # it was answered: nothing to cancel
        line.notify("session/cancel", sessionId=session)
        assert (await line.answer(held))["error"]["code"] == -32800
        assert (await line.until_idle())["stopReason"] == "cancelled"
        first, second = line.prompt(session, "say one"), line.prompt(session, "say two")
        ids = [accepted]
        for request in (first, second):
            ids.append((await line.answer(request))["result"]["messageId"])
            await line.until_idle()
        assert len(set(ids)) == 3


async def test_only_so_many_prompts_wait() -> None:
    async with client() as line:
        await line.greet()
        session = await line.session()
        line.prompt(session, "slow")
        await line.until_update("agent_message_chunk")
        last = [line.prompt(session, f"say {number}") for number in range(257)][-1]
        answer = await line.answer(last)
        assert answer["error"]["data"] == {"reason": "queue_full"}


async def test_the_ids_of_messages_differ_from_those_of_another_connection() -> None:
    agent = Agent("plain")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say("no id")

    seen: list[str] = []
    for _ in range(2):
        async with client(agent) as line:
            await line.greet()
            line.prompt(await line.session(), "go")
            await line.until_idle()
            seen += {update["messageId"] for update in line.updates if "messageId" in update}
    assert len(seen) == len(set(seen)) == 4


async def test_a_session_is_resumed_with_and_without_its_history() -> None:
    async with client() as line:
        await line.greet()
        session = await line.session()
        line.prompt(session, "say remember this")
        await line.until_idle()
        line.updates.clear()
        await line.call("session/resume", sessionId=session, cwd="/tmp")
        assert line.states() == ["idle"]
        assert [update["sessionUpdate"] for update in line.updates] == ["state_update"]
        line.updates.clear()
        result = await line.call("session/resume", sessionId=session, cwd="/tmp", replayFrom={"type": "start"})
        kinds = [update["sessionUpdate"] for update in line.updates]
        assert kinds[0] == "user_message_chunk"
        assert "agent_message_chunk" in kinds
        assert kinds[-1] == "state_update"
        assert [option["configId"] for option in result["configOptions"]] == ["mode", "voice", "verbose"]
        assert await line.refused("session/resume", sessionId=session, cwd="/tmp", replayFrom={"type": "odd"}) == -32602


async def test_a_question_sets_the_state_and_is_answered_by_an_option_that_was_offered() -> None:
    async with client() as line:
        await line.greet()
        session = await line.session()
        for option, said in (("allow", "allowed"), ("made-up", "not allowed (None)")):
            line.prompt(session, "permission")
            asked = await line.expect_request("session/request_permission")
            assert line.states()[-1] == "requires_action"
            assert asked["params"]["subject"]["type"] == "tool_call"
            line.choose(asked, option)
            await line.until_idle()
            text = "".join(
                update["content"]["text"] for update in line.updates if update["sessionUpdate"] == "agent_message_chunk"
            )
            assert said in text
            line.updates.clear()


async def test_a_failed_turn_is_reported_with_its_error() -> None:
    agent = Agent("broken")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        raise RuntimeError("not for the wire")

    async with client(agent) as line:
        await line.greet()
        line.prompt(await line.session(), "go")
        idle = await line.until_idle()
        assert idle["stopReason"] == "error"
        assert idle["error"]["code"] == -32603


async def test_modes_and_options_are_set_as_options() -> None:
    async with client() as line:
        await line.greet()
        session = await line.session()
        asked = {"sessionId": session, "configId": "mode", "type": "id", "value": "code"}
        result = await line.call("session/set_config_option", **asked)
        assert {option["configId"]: option["currentValue"] for option in result["configOptions"]}["mode"] == "code"


@pytest.mark.parametrize("unstable", [False, True])
async def test_every_word_of_the_script_gives_valid_messages(unstable: bool) -> None:
    """The judge of the line checks each of them."""
    arguments = {"slow": "slow 0.01", "flood": "flood 50", "big": "big 1000"}
    async with client(scripted_agent(unstable=unstable)) as line:
        await line.greet(elicitation={"form": {}, "url": {}})
        session = await line.session()
        for word in sorted(KEYWORDS.keys() - {"crash"}):
            line.prompt(session, arguments.get(word, word))
            line.updates.clear()
            while line.states()[-1:] != ["idle"]:
                asked = await line.next()
                if asked.get("method") == "session/request_permission":
                    line.choose(asked, asked["params"]["options"][0]["optionId"])
                elif "method" in asked and "id" in asked:
                    line.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "cancel"}})
        assert line.judge.checked > 200
        assert await line.call("session/close", sessionId=session) == {}
        assert await line.refused("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}]) == -32002


async def test_a_client_logs_in_and_out() -> None:
    async with client(scripted_agent(requires_login=True)) as line:
        ready = await line.greet()
        assert [method["methodId"] for method in ready["authMethods"]] == ["scripted-login"]
        assert await line.refused("session/new", cwd="/tmp") == -32000
        assert await line.refused("auth/login", methodId="none") == -32602
        assert await line.call("auth/login", methodId="scripted-login") == {}
        await line.session()
        assert await line.call("auth/logout") == {}
        assert await line.refused("session/new", cwd="/tmp") == -32000


async def test_a_client_that_asks_and_does_not_read_is_not_read_either() -> None:
    """The edge answers some requests itself; what it answers is bounded like everything else."""
    ours, theirs = memory_pair()
    serving = asyncio.create_task(scripted_agent().serve(theirs))
    line = V2Line(ours)
    await line.greet()
    ours.pause_reading()
    asked = json.dumps(line.request("x" * 1000, "session/load")).encode() + b"\n"
    written = 0
    while not ours.unsent_bytes:
        ours.write(asked * 200)
        written += 200
        assert written * len(asked) < 1 << 27, "it reads on"
        for _ in range(3):
            await asyncio.sleep(0)
    ours.resume_reading()
    for _ in range(written):
        async with asyncio.timeout(60):
            assert (await line.lines.get())["error"]["code"] == -32601
    ours.close()
    async with asyncio.timeout(60):
        await serving


async def test_garbage_does_not_end_the_connection() -> None:
    async with client() as line:
        await line.greet()
        session = await line.session()
        odd = [
            b"garbage\n",
            b"[]\n",
            b'{"jsonrpc":"2.0","id":[1],"method":"session/prompt","params":{}}\n',
            b'{"jsonrpc":"2.0","id":77,"method":"session/prompt","params":[1]}\n',
            b'{"jsonrpc":"2.0","id":78,"method":"session/prompt","params":{"sessionId":1,"prompt":"x"}}\n',
            b'{"jsonrpc":"2.0","method":"session/cancel","params":7}\n',
            b'{"jsonrpc":"2.0","id":"dragoman-translate-1","result":{"stopReason":"end_turn"}}\n',
        ]
        line.transport.write(b"".join(odd))
        line.prompt(session, "say alive")
        async with asyncio.timeout(60):
            while line.states()[-1:] != ["idle"]:
                message = await line.lines.get()
                if message.get("method") == "session/update":
                    line.updates.append(message["params"]["update"])
