"""Which version of the protocol a client and an agent agree on, and what it says when there is none."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dragoman.client import connect, spawn
from dragoman.errors import ConnectionClosed, ProtocolError, RemoteProtocolError, RequestError
from tests.client.fixtures import AgentLine
from tests.transports.ends import memory_ends

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.client import RemoteAgent

SECONDS = 60.0
TRAFFIC = Path(__file__).parents[2].parent / "shared" / "v2-traffic"
V2_ANSWER = {"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {"session": {}}}


@asynccontextmanager
async def connecting(protocol: Any) -> AsyncIterator[tuple[asyncio.Task[RemoteAgent], AgentLine]]:
    """A client that is connecting, and the line of the agent, which has not answered yet."""
    async with asyncio.timeout(SECONDS), memory_ends() as (ours, opened):
        context = connect(ours, protocol=protocol)
        entering = asyncio.ensure_future(context.__aenter__())
        theirs = await opened
        try:
            yield entering, AgentLine(theirs)
        finally:
            if entering.done() and entering.exception() is None:
                await context.__aexit__(None, None, None)
            elif not entering.done():
                entering.cancel()
                await asyncio.wait([entering])
            theirs.close()
            await theirs.wait_closed()


def refusal(request: dict[str, Any], code: int, **data: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no", "data": data}}


async def test_auto_offers_version_2_with_the_members_of_both() -> None:
    async with connecting("auto") as (entering, line):
        request = await line.answer("initialize", V2_ANSWER)
        agent = await entering
        params = request["params"]
        assert (params["protocolVersion"], agent.protocol_version) == (2, 2)
        assert params["info"]["name"] == params["clientInfo"]["name"] == "dragoman"
        assert {"capabilities", "clientCapabilities"} <= params.keys()


async def test_version_2_alone_is_offered_without_the_members_of_version_1() -> None:
    async with connecting(2) as (entering, line):
        request = await line.answer("initialize", V2_ANSWER)
        await entering
        assert "clientCapabilities" not in request["params"]


@pytest.mark.parametrize("code", [None, -32602, -32600, -32022])
async def test_auto_asks_an_agent_of_version_1_again_on_the_same_connection(code: int | None) -> None:
    async with connecting("auto") as (entering, line):
        first = await line.expect("initialize")
        if code is None:
            line.send(line.result(first["id"], {"protocolVersion": 1}))
        else:
            line.send(refusal(first, code, supported=[1]))
        second = await line.expect("initialize")
        assert second["params"]["protocolVersion"] == 1
        assert "info" not in second["params"]
        line.send(line.result(second["id"], {"protocolVersion": 1}))
        assert (await entering).protocol_version == 1


async def test_a_second_refusal_is_final() -> None:
    async with connecting("auto") as (entering, line):
        await line.refuse("initialize", -32602)
        await line.refuse("initialize", -32602)
        with pytest.raises(RequestError):
            await entering


@pytest.mark.parametrize("protocol", [2, "auto"])
async def test_a_request_for_a_login_is_passed_on(protocol: Any) -> None:
    async with connecting(protocol) as (entering, line):
        await line.refuse("initialize", -32000, "log in first")
        with pytest.raises(RequestError, match="log in first"):
            await entering


@pytest.mark.parametrize(
    ("protocol", "code", "supported", "words"),
    [
        (1, -32022, [2], "speaks only version 2 of the protocol; connect with protocol 2 or auto"),
        (1, -32022, [3, 4], "it speaks version 3 and 4"),
        (2, -32602, None, "refused version 2 of the protocol"),
        (2, -32022, [1], "connect with protocol 1 or auto"),
    ],
)
async def test_no_common_version_is_reported_in_words(protocol: Any, code: int, supported: Any, words: str) -> None:
    async with connecting(protocol) as (entering, line):
        request = await line.expect("initialize")
        line.send(refusal(request, code, supported=supported))
        with pytest.raises(RemoteProtocolError, match=words):
            await entering


@pytest.mark.parametrize(("protocol", "version"), [(1, 2), (2, 1), (2, 3), ("auto", 3), ("auto", "2")])
async def test_an_answer_in_another_version_is_refused(protocol: Any, version: Any) -> None:
    async with connecting(protocol) as (entering, line):
        await line.answer("initialize", {**V2_ANSWER, "protocolVersion": version})
        with pytest.raises(ProtocolError):
            await entering


def recorded_answers() -> list[tuple[str, str, dict[str, Any]]]:
    """For each agent and each recorded first message, what the agent answered."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for file in sorted(TRAFFIC.glob("negotiate-*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            message = record["msg"]
            if record["dir"] == "a2c" and isinstance(message, dict) and ("result" in message or "error" in message):
                found.setdefault((file.stem, record["case"]), message)
    return [(file, case, answer) for (file, case), answer in found.items()]


@pytest.mark.skipif(not TRAFFIC.is_dir(), reason="the recorded traffic of version 2 is not there")
async def test_every_recorded_answer_leads_to_a_version_or_to_an_error() -> None:
    answers = recorded_answers()
    assert len({case for _, case, _ in answers}) >= 20
    outcomes: dict[str, int] = {}
    for file, case, answer in answers:
        where = f"{file} {case}"
        error, result = answer.get("error", {}), answer.get("result", {})
        supported = (error.get("data") or {}).get("supported", []) if isinstance(error.get("data"), dict) else []
        async with connecting("auto") as (entering, line):
            first = await line.expect("initialize")
            line.send({**answer, "id": first["id"]})
            if result.get("protocolVersion") == 2:
                assert (await entering).protocol_version == 2, where
                kind = "2"
            elif result.get("protocolVersion") == 1 or error.get("code") in (-32602, -32600) or 1 in supported:
                await line.answer("initialize", {"protocolVersion": 1})
                assert (await entering).protocol_version == 1, where
                kind = "1"
            else:
                with pytest.raises(ProtocolError):
                    await entering
                kind = "none"
        outcomes[kind] = outcomes.get(kind, 0) + 1
    assert outcomes.keys() >= {"1", "2", "none"}


ENDS_AT_VERSION_2 = """
import json, sys
request = json.loads(sys.stdin.readline())
if request["params"]["protocolVersion"] != 1:
    sys.exit(3)
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"protocolVersion": 1}}), flush=True)
sys.stdin.read()
"""


async def test_a_program_that_ends_at_the_offer_is_started_again_with_version_1() -> None:
    command = (sys.executable, "-c", ENDS_AT_VERSION_2)
    async with asyncio.timeout(SECONDS):
        async with spawn(*command, protocol="auto") as agent:
            assert agent.protocol_version == 1
        with pytest.raises(ConnectionClosed):
            async with spawn(*command, protocol=2):
                raise AssertionError("it was accepted")
