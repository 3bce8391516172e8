"""Starts and ends of turns are noted in the order of the wire, whatever the tasks that wait for them do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.errors import RequestError
from dragoman.schema import v1
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.local_host import host_connection


class Remembering:
    """A user interface that only remembers."""

    def __init__(self) -> None:
        self.ends: list[tuple[str | None, str]] = []
        self.back: list[tuple[str, str]] = []
        self.notes: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *values: None

    def ended(self, prompt: Any, stop_reason: str | None, error: str) -> None:
        self.ends.append((stop_reason, error))

    def returned(self, text: str, why: str) -> None:
        self.back.append((text, why))

    def note(self, text: str) -> None:
        self.notes.append(text)


class Wire:
    """A connection whose answers a test gives, before any task goes on."""

    is_open = True

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[Any], None], Callable[[Exception], None]]] = []
        self.sent: list[Any] = []
        self._more = asyncio.Event()

    async def call(self, method: str, params: object, *, on_result: Any, on_error: Any) -> None:
        self.waiting.append((on_result, on_error))
        self.sent.append(params)
        self._more.set()
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.is_open = False

    async def sends(self, count: int) -> None:
        """Waits until so many requests were sent."""
        async with asyncio.timeout(10):
            while len(self.sent) < count:
                self._more.clear()
                await self._more.wait()


class Place:
    cwd = "/"
    worktree = ""
    is_temporary = False
    mode = ""

    def choose(self, agent: str, model: str) -> None:
        raise NotImplementedError

    def new(self, agent: str | None) -> dict[str, Any]:
        raise NotImplementedError


def started(prompt_id: str) -> dict[str, Any]:
    return {"promptId": prompt_id}


def ended(prompt_id: str, reason: str) -> dict[str, Any]:
    return {"promptId": prompt_id, "result": {"stopReason": reason}}


async def connected() -> tuple[HostedConversation, Remembering, Wire]:
    interface, wire = Remembering(), Wire()
    conversation = HostedConversation(Place(), interface)
    conversation.phase = "ready"
    conversation._remote, conversation._session = wire, SimpleNamespace(id="s")  # type: ignore[assignment]
    for text in ("first", "second"):
        conversation.send(text)
    await asyncio.sleep(0)
    assert len(wire.waiting) == 2
    return conversation, interface, wire


async def test_the_end_of_a_turn_is_noted_before_the_next_one_starts() -> None:
    conversation, interface, wire = await connected()
    first, second = conversation.prompts
    conversation.turn_started(started(first.id))
    wire.waiting[0][0](v1.PromptResponse("cancelled"))
    assert interface.ends == [("cancelled", "")], "no task had to go on for it"
    conversation.turn_started(started(second.id))
    assert second.has_started
    assert conversation.prompts == [second]
    wire.waiting[1][1](RequestError(-32603, "boom"))
    assert interface.ends[1][0] is None
    assert "boom" in interface.ends[1][1]
    await talk_over(conversation)


async def test_a_turn_of_another_client_starts_and_ends_in_order() -> None:
    conversation, interface, _ = await connected()
    conversation.turn_started(started("other"))
    assert conversation.is_running
    conversation.turn_ended(ended("one that waited", "cancelled"))
    assert conversation.is_running, "that was not the turn"
    conversation.turn_ended(ended("other", "end_turn"))
    assert interface.ends == [("end_turn", "")]
    await talk_over(conversation)


async def talk_over(conversation: HostedConversation) -> None:
    conversation._remote = None
    await conversation.leave()


async def test_what_a_host_sends_at_once_is_noted_in_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A subagent is announced, works, and its parent's turn ends: one piece of bytes has all of it."""
    socket = str(tmp_path_factory.mktemp("s") / "host")
    seen: list[str] = []
    over = asyncio.Event()

    class Noting(Remembering):
        def changed(self) -> None:
            texts = [item.text for child in conversation.watched.children.values() for item in child.timeline]  # type: ignore[union-attr]  # messages
            seen.append(f"{conversation.is_foreign_turn} {texts}")

        def ended(self, prompt: Any, stop_reason: str | None, error: str) -> None:
            seen.append(f"ended {stop_reason}")
            over.set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def send(**message: Any) -> None:
            writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

        def update(session: str, **members: Any) -> None:
            send(method="session/update", params={"sessionId": session, "update": members})

        capabilities = {"loadSession": True, "sessionCapabilities": {"list": {}}}
        answers: dict[str, Any] = {
            "initialize": {"protocolVersion": 1, "agentCapabilities": capabilities},
            "session/load": {},
            "_dragoman/turns": {},
            "session/list": {"sessions": []},
        }
        while line := await reader.readline():
            request = json.loads(line)
            if "id" in request and request["method"] != "_dragoman/input":
                send(id=request["id"], result=answers.get(request["method"], {}))
            elif "id" in request:  # the last thing that is asked for
                send(method="_dragoman/turn_started", params={"promptId": "other"})
                update("s", sessionUpdate="subagent_update", sessionId="child", name="helper", status="running")
                child = {"type": "text", "text": "found it"}
                update("child", sessionUpdate="agent_message_chunk", content=child)
                send(method="_dragoman/turn_ended", params={"promptId": "other", "result": {"stopReason": "end_turn"}})
                send(id=request["id"], result={})
        writer.close()

    server = await asyncio.start_unix_server(serve, socket)
    monkeypatch.setattr(host_connection, "_reach", lambda note: socket)
    conversation = HostedConversation(Place(), Noting(), session_id="s")
    running = asyncio.ensure_future(conversation.run())
    try:
        async with asyncio.timeout(20):
            await over.wait()
        at = seen.index("ended end_turn")
        assert seen[at - 2 : at] == ["True []", "True ['found it']"]
    finally:
        await conversation.leave()
        await running
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("is_in_history", [True, False])
async def test_a_turn_that_ends_while_a_session_is_opened_is_over_and_has_its_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, is_in_history: bool
) -> None:
    """Its end comes before the host is asked about turns, or in one piece behind the answer that it still runs."""
    socket = str(tmp_path_factory.mktemp("s") / "host")
    ready = asyncio.Event()
    interface = Remembering()
    conversation = HostedConversation(Place(), interface, session_id="s")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def message(**members: Any) -> bytes:
            return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"

        def update(kind: str, text: str, **members: Any) -> bytes:
            shown = {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **members}
            return message(method="session/update", params={"sessionId": "s", "update": shown})

        outcome = {"promptId": "other", "result": {"stopReason": "end_turn"}}
        end = message(method="_dragoman/turn_ended", params={"sessionId": "s", **outcome})
        turns: dict[str, Any] = {"ended": [], "begun": "m", "running": "other", "seconds": 5.0}
        if is_in_history:
            turns = {"ended": [{**outcome, "messageId": "m", "seconds": 5.0}], "begun": None, "running": None}
        while line := await reader.readline():
            request = json.loads(line)
            answer = message(id=request.get("id"), result={})
            match request.get("method"):
                case "initialize":
                    capabilities = {"loadSession": True, "sessionCapabilities": {"list": {}}}
                    hello = {"protocolVersion": 1, "agentCapabilities": capabilities}
                    answer = message(id=request["id"], result=hello)
                case "session/load":
                    history = update("user_message_chunk", "work", messageId="m") + update("agent_message_chunk", "a")
                    answer = history + answer + (end if is_in_history else b"")
                case "_dragoman/turns":
                    answer = message(id=request["id"], result=turns) + (b"" if is_in_history else end)
                case "session/list":
                    answer = message(id=request["id"], result={"sessions": []})
                case "_dragoman/input":
                    ready.set()
            writer.write(answer if "id" in request else b"")
        writer.close()

    server = await asyncio.start_unix_server(serve, socket)
    monkeypatch.setattr(host_connection, "_reach", lambda note: socket)
    running = asyncio.ensure_future(conversation.run())
    async with asyncio.timeout(60):
        await ready.wait()
    assert conversation.phase == "ready"
    assert not conversation.is_running
    [turn] = conversation.state.turns
    assert turn.stop_reason == "end_turn"
    seconds = conversation.watched.turn_seconds(turn.index)
    assert seconds is not None
    assert seconds >= 5
    assert len(interface.ends) == (0 if is_in_history else 1)
    await conversation.leave()
    await running
    server.close()
    await server.wait_closed()
