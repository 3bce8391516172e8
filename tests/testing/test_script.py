"""Every word of the script, in memory and as a program, and the claim that together they show the whole protocol."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from dragoman.client import spawn
from dragoman.errors import AgentExited, ConnectionClosed, RequestError
from dragoman.rpc import Observer
from dragoman.schema import AGENT_METHODS, CLIENT_METHODS, UNSTABLE_TYPES, v1
from dragoman.testing import KEYWORDS, ScriptedClient, linked, scripted_agent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from dragoman.client import RemoteAgent

PROGRAM = (sys.executable, "-m", "dragoman.testing.scripted_agent")
# These end the process or speak when the turn is over; they have tests of their own.
ALONE = {"crash", "slow", "late"}
ANSWERED_WITH_AN_ERROR = {"error", "exception"}


class Ear(Observer):
    """Hears which methods and updates the agent sends."""

    def __init__(self) -> None:
        self.methods: set[str] = set()
        self.updates: set[str] = set()

    def received(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        if message.get("method") == "session/update":
            self.updates.add(message["params"]["update"]["sessionUpdate"])
        elif "method" in message:
            self.methods.add(message["method"])


@asynccontextmanager
async def scripted(kind: str, ear: Ear, **options: Any) -> AsyncIterator[RemoteAgent]:
    client = ScriptedClient(form={"name": "Ada"})
    given: Any = {**client.options(), "observers": [ear], **options}
    try:
        if kind == "memory":
            async with linked(scripted_agent(), **given) as agent:
                yield agent
        else:
            async with spawn(*PROGRAM, **given) as agent:
                yield agent
    finally:
        await client.close()


@pytest.mark.parametrize("word", sorted(set(KEYWORDS) - ALONE))
async def test_each_word_shows_what_it_says_it_shows(word: str, tmp_path: Path) -> None:
    ear = Ear()
    async with scripted("memory", ear) as agent:
        session = await agent.new_session(tmp_path)
        ear.updates.clear()
        try:
            async for _ in session.prompt(word):
                pass
        except RequestError:
            assert word in ANSWERED_WITH_AN_ERROR
        else:
            assert word not in ANSWERED_WITH_AN_ERROR
        await asyncio.sleep(0)
        assert KEYWORDS[word].updates <= ear.updates
        assert KEYWORDS[word].methods <= ear.methods


async def test_every_word_works_over_stdio_as_well(tmp_path: Path) -> None:
    ear = Ear()
    async with scripted("program", ear) as agent:
        session = await agent.new_session(tmp_path)
        for word in sorted(set(KEYWORDS) - ALONE - ANSWERED_WITH_AN_ERROR):
            await session.prompt(word)
            assert KEYWORDS[word].updates <= ear.updates, word
            assert KEYWORDS[word].methods <= ear.methods, word


def test_the_script_shows_every_stable_method_and_update_of_an_agent() -> None:
    shown = set[str]().union(*[keyword.methods for keyword in KEYWORDS.values()])
    expected = {name for name, method in CLIENT_METHODS.items() if method.is_stable} - {"session/update"}
    assert expected <= shown
    variants: dict[Any, Any] = {}
    for name in v1.__all__:
        kind: Any = getattr(v1, name)
        config = getattr(kind, "__struct_config__", None)
        if config is not None and config.tag_field == "sessionUpdate":
            variants[config.tag] = kind
    stable = {tag for tag, kind in variants.items() if kind not in UNSTABLE_TYPES}
    assert len(stable) == 14
    assert stable <= set[str]().union(*[keyword.updates for keyword in KEYWORDS.values()])


def test_the_scripted_agent_serves_every_stable_method_of_an_agent() -> None:
    agent = scripted_agent()
    for name, method in AGENT_METHODS.items():
        if method.is_stable and method.kind == "request" and name != "initialize":
            assert name in agent.registered.requests, name


@pytest.mark.parametrize("kind", ["memory", "program"])
async def test_anything_else_is_echoed(kind: str, tmp_path: Path) -> None:
    async with scripted(kind, Ear()) as agent:
        session = await agent.new_session(tmp_path)
        await session.prompt("Well, hello there")
        assert session.state.text == "Well, hello there"
        assert agent.info is not None
        assert "no model" in str(agent.info.title)


@pytest.mark.parametrize("kind", ["memory", "program"])
async def test_a_slow_turn_ends_when_it_is_cancelled(kind: str, tmp_path: Path) -> None:
    async with scripted(kind, Ear()) as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("slow") as turn:
            async for update in turn:
                if isinstance(update, v1.ToolCall):
                    await turn.cancel()
        assert turn.result.stop_reason == "cancelled"


@pytest.mark.parametrize("kind", ["memory", "program"])
async def test_text_sent_after_the_turn_reaches_the_session(kind: str, tmp_path: Path) -> None:
    async with scripted(kind, Ear()) as agent:
        session = await agent.new_session(tmp_path)
        updates = session.updates()
        await session.prompt("late")
        async for received in updates:
            if isinstance(received.update, v1.AgentMessageChunk):
                break
        assert session.state.messages[-1].text == "one more thing"


@pytest.mark.rule(6)
async def test_a_crash_in_the_middle_of_a_turn_reports_exit_code_and_stderr(tmp_path: Path) -> None:
    async with scripted("program", Ear()) as agent:
        session = await agent.new_session(tmp_path)
        with pytest.raises(AgentExited) as caught:
            await session.prompt("crash 7")
    assert caught.value.returncode == 7
    assert "crashing on request" in caught.value.stderr_tail
    assert isinstance(caught.value, ConnectionClosed)


async def test_prints_and_children_do_not_reach_the_stream(tmp_path: Path) -> None:
    ear = Ear()
    async with scripted("program", ear) as agent:
        session = await agent.new_session(tmp_path)
        await session.prompt("print")
        await session.prompt("still fine")
        assert session.state.text == "still fine"


@pytest.mark.rule(106, 107, 112, 125, 137, 138, 220)
@pytest.mark.parametrize("kind", ["memory", "program"])
async def test_sessions_can_be_listed_loaded_resumed_closed_and_deleted(kind: str, tmp_path: Path) -> None:
    async with scripted(kind, Ear()) as agent:
        sessions = [await agent.new_session(tmp_path) for _ in range(4)]
        await sessions[0].prompt("think hard")
        await sessions[0].prompt("notice me")
        await sessions[0].prompt("title Named")
        listed = [info async for info in agent.sessions(cwd=tmp_path)]
        assert {info.session_id for info in listed} == {session.id for session in sessions}
        assert listed[0].title == "Named"
        assert [info async for info in agent.sessions(cwd="/elsewhere")] == []
        await sessions[0].close()
        again = await agent.load_session(sessions[0].id, tmp_path)
        assert [message.role for message in again.state.messages][:3] == ["user", "thought", "agent"]
        assert not again.state.notices
        await again.close()
        resumed = await agent.resume_session(sessions[0].id, tmp_path)
        assert not resumed.state.messages
        await agent.delete_session(sessions[0].id)
        await agent.delete_session(sessions[0].id)
        assert len([info async for info in agent.sessions()]) == 3


@pytest.mark.rule(77, 78, 80)
async def test_a_login_may_be_required() -> None:
    async with linked(scripted_agent(requires_login=True)) as agent:
        with pytest.raises(RequestError) as caught:
            await agent.new_session("/tmp")
        assert caught.value.code == -32000
        await agent.authenticate("scripted-login")
        await agent.new_session("/tmp")
        await agent.logout()
        with pytest.raises(RequestError):
            await agent.new_session("/tmp")


@pytest.mark.rule(167, 175)
async def test_modes_and_options_stay_in_step() -> None:
    async with linked(scripted_agent()) as agent:
        session = await agent.new_session("/tmp")
        await session.set_mode("code")
        await session.set_config_option("voice", "loud")
        values = {option.id: option.current_value for option in session.state.config_options}  # type: ignore[union-attr]
        assert values == {"mode": "code", "voice": "loud", "verbose": False}
        await session.set_config_option("mode", "ask")
        assert session.state.mode == "ask"
