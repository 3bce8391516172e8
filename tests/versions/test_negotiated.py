"""An agent of unknown version: what it is offered, and what its answer decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from dragoman.versions import translator
from tests.versions.conversation import Conversation
from tests.versions.line_client import AGENTS, DRAGOMAN, one_turn, program

INFO = {"name": "c", "version": "1"}
FIRST: dict[str, dict[str, Any]] = {
    "1": {"protocolVersion": 1, "clientInfo": INFO},
    "2": {"protocolVersion": 2, "info": INFO, "capabilities": {}},
}
V2_ANSWER = {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {}}}


def begun(client: Literal["1", "2"]) -> Conversation:
    talk = Conversation(translator(client, "auto"))
    talk.ask("client", 0, "initialize", **FIRST[client])
    return talk


@pytest.mark.parametrize("client", ["1", "2"])
def test_an_agent_of_the_clients_version_gets_frames_unchanged(client: Literal["1", "2"]) -> None:
    talk = begun(client)
    answer = {"protocolVersion": 1} if client == "1" else V2_ANSWER
    talk.answer("agent", 0, answer)
    assert talk.take("client")[0]["result"] == answer
    talk.take("agent")
    talk.notify("agent", "session/update", anything=1)
    talk.ask("client", 1, "no/such", x=2)
    assert talk.take("client")[0]["params"] == {"anything": 1}
    assert talk.take("agent")[0]["params"] == {"x": 2}


def test_a_client_of_version_2_is_offered_with_the_members_of_both() -> None:
    offered = begun("2").take("agent")[0]["params"]
    assert offered["protocolVersion"] == 2
    assert offered["info"] == offered["clientInfo"] == INFO
    assert offered["clientCapabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"protocolVersion": 1}},
        {"error": {"code": -32602, "message": "no"}},
        {"error": {"code": -32600, "message": "no"}},
        {"error": {"code": -32022, "message": "no", "data": {"requested": 2, "supported": [1]}}},
    ],
)
def test_an_agent_of_version_1_gets_a_second_initialize_and_then_translated_frames(answer: Any) -> None:
    talk = begun("2")
    talk.ask("client", 1, "session/new", cwd="/w")  # sent without waiting: it is held
    talk.take("agent")
    talk.feed("agent", {"id": 0, **answer})
    again, new = talk.take("agent")
    assert (again["method"], again["params"]["protocolVersion"], again["id"]) == ("initialize", 1, 0)
    assert new["params"] == {"cwd": "/w", "mcpServers": []}
    assert talk.take("client") == []
    talk.answer("agent", 0, {"protocolVersion": 1})
    assert talk.take("client")[0]["result"]["protocolVersion"] == 2


def test_a_second_refusal_is_passed_on() -> None:
    talk = begun("2")
    talk.fail("agent", 0, -32602)
    talk.fail("agent", 0, -32602)
    assert talk.take("client")[0]["error"]["code"] == -32602
    assert len(talk.take("agent")) == 2


def test_an_agent_of_version_2_alone_gets_the_translated_request() -> None:
    talk = begun("1")
    talk.take("agent")
    refusal = {"code": -32022, "message": "no", "data": {"requested": 1, "supported": [2]}}
    talk.feed("agent", {"id": 0, "error": refusal})
    assert talk.take("agent")[0]["params"]["protocolVersion"] == 2
    talk.answer("agent", 0, V2_ANSWER)
    assert talk.take("client")[0]["result"]["protocolVersion"] == 1


@pytest.mark.parametrize("client", ["1", "2"])
@pytest.mark.parametrize("code", [-32000, -32603])
def test_another_refusal_is_passed_on_and_the_client_may_try_again(client: Literal["1", "2"], code: int) -> None:
    talk = begun(client)
    talk.take("agent")
    talk.fail("agent", 0, code)
    assert talk.take("client")[0]["error"]["code"] == code
    assert talk.take("agent") == []
    talk.ask("client", 5, "initialize", **FIRST[client])
    assert talk.take("agent")[0]["id"] == 5


def test_an_agent_that_is_lost_before_it_answers_fails_the_request() -> None:
    talk = begun("2")
    talk.close("agent")
    assert talk.take("client")[0]["error"]["code"] == -32603


@pytest.mark.parametrize(("client", "agent"), [("1", "1"), ("1", "2"), ("2", "1"), ("2", "2"), ("2025.1", "2")])
async def test_auto_finds_the_version_of_a_program(client: str, agent: str, tmp_path: Path) -> None:
    words = ["translate", "--client", client, "--agent", "auto", "--", *AGENTS[agent]]
    async with program(*DRAGOMAN, *words, cwd=tmp_path) as talk:
        assert "Hello" in await one_turn(talk, client, tmp_path, "say Hello")
        code, _ = await talk.finish()
    assert code == 0
