"""Starts and ends of turns are noted in the order of the wire, whatever the tasks that wait for them do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from dragoman.errors import RequestError
from dragoman.schema import v1
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.local_host.host_connection import _TurnEvents


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

    def new(self, agent: str | None) -> dict[str, Any]:
        raise NotImplementedError


def started(prompt_id: str) -> bytes:
    return b'{"jsonrpc":"2.0","method":"_dragoman/turn_started","params":{"promptId":"%s"}}' % prompt_id.encode()


def ended(prompt_id: str, reason: str) -> bytes:
    result = b'{"promptId":"%s","result":{"stopReason":"%s"}}' % (prompt_id.encode(), reason.encode())
    return b'{"jsonrpc":"2.0","method":"_dragoman/turn_ended","params":%s}' % result


async def conversation() -> tuple[HostedConversation, Remembering, Wire]:
    interface, wire = Remembering(), Wire()
    talk = HostedConversation(Place(), interface)
    talk.phase = "ready"
    talk._remote, talk._session = wire, SimpleNamespace(id="s")  # type: ignore[assignment]
    for text in ("first", "second"):
        talk.send(text)
    await asyncio.sleep(0)
    assert len(wire.waiting) == 2
    return talk, interface, wire


async def test_the_end_of_a_turn_is_noted_before_the_next_one_starts() -> None:
    talk, interface, wire = await conversation()
    events = _TurnEvents(talk)
    first, second = talk.prompts
    events.received(
        b'{"jsonrpc":"2.0","method":"_dragoman/turn_started","params":{"promptId":"%s"}}' % first.id.encode()
    )
    wire.waiting[0][0](v1.PromptResponse("cancelled"))
    assert interface.ends == [("cancelled", "")], "no task had to go on for it"
    events.received(started(second.id))
    assert second.has_started
    assert talk.prompts == [second]
    wire.waiting[1][1](RequestError(-32603, "boom"))
    assert interface.ends[1][0] is None
    assert "boom" in interface.ends[1][1]
    await talk_over(talk)


async def test_a_turn_of_another_client_starts_and_ends_in_order() -> None:
    talk, interface, _ = await conversation()
    events = _TurnEvents(talk)
    events.received(started("other"))
    assert talk.is_running
    events.received(ended("one that waited", "cancelled"))
    assert talk.is_running, "that was not the turn"
    events.received(ended("other", "end_turn"))
    assert interface.ends == [("end_turn", "")]
    await talk_over(talk)


async def talk_over(talk: HostedConversation) -> None:
    talk._remote = None
    await talk.leave()
