"""The connection of a conversation to the local host, which is started if none runs.

Owns what this client announces, and which handler of the conversation gets a request or a message of the host.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.client.connect import connect
from dragoman.host.local.build import hello
from dragoman.host.local.place import find_places
from dragoman.host.local.start import reach_host
from dragoman.rpc import Observer
from dragoman.schema import decode, v1

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.client import RemoteAgent, Session
    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.questions.open_questions import OpenQuestions


class HostLink:
    """The connection of one conversation to the local host, started if there is none."""

    def __init__(self, conversation: HostedConversation) -> None:
        self._conversation = conversation
        self._entered: Any = None

    async def __aenter__(self) -> RemoteAgent:
        talk = self._conversation
        loop = asyncio.get_running_loop()

        # The user interface belongs to the loop: a note of the thread must not draw in the middle of a paint.
        def note(text: str) -> None:
            loop.call_soon_threadsafe(talk.note, text)

        path = await asyncio.to_thread(_reach, note)
        self._entered = connect(
            f"unix:{path}",
            name="dragoman",
            title="dragoman",
            permission=talk.asking.permission,
            elicitation=_Forms(talk.asking),
            terminal_login=True,
            extensions={
                "_dragoman/turn_started": lambda params: None,  # see _TurnEvents
                "_dragoman/turn_ended": lambda params: None,
                "_dragoman/answered": talk.asking.answered,
                "_dragoman/notice": lambda params: talk.note(str(params.get("text", ""))),
            },
            # The output of terminals comes in pieces, with exit codes; subagents with their sessions.
            meta={"dragoman": {**hello(), "activity": True, "unstable": True}, "terminal_output": True},
            unstable=True,
            observers=(_TurnEvents(talk), _ChildSessions(talk)),
        )
        remote: RemoteAgent = await self._entered.__aenter__()
        return remote

    async def __aexit__(self, *error: Any) -> None:
        await self._entered.__aexit__(*error)


class _TurnEvents(Observer):
    """Notes starts and ends of turns in the order of the wire: a handler would run behind updates that came later."""

    def __init__(self, conversation: HostedConversation) -> None:
        self._conversation = conversation

    def received(self, line: bytes) -> None:
        head = line[:100]
        if b'"_dragoman/turn_started"' in head:
            self._conversation.turn_started(_params(line))
        elif b'"_dragoman/turn_ended"' in head:
            self._conversation.turn_ended(_params(line))


def _params(line: bytes) -> dict[str, Any]:
    found = msgspec.json.decode(line).get("params")
    return found if isinstance(found, dict) else {}


class _UpdateOf(msgspec.Struct):
    sessionId: str  # noqa: N815 - the protocol's name
    update: msgspec.Raw


class _UpdateFrame(msgspec.Struct):
    params: _UpdateOf


class _ChildSessions(Observer):
    """Takes the updates of subagents' sessions, which are not open here: they are shown inside of their parent."""

    def __init__(self, conversation: HostedConversation) -> None:
        self._conversation = conversation

    def received(self, line: bytes) -> None:
        talk = self._conversation
        # While a session is loaded its children are not known yet.
        is_loading, known = talk.phase == "opening", talk.state.subagents
        if not (is_loading or known) or b'"session/update"' not in line[:60]:
            return
        with suppress(msgspec.DecodeError):
            found = msgspec.json.decode(line, type=_UpdateFrame).params
            if found.sessionId != talk.session_id and (is_loading or found.sessionId in known):
                talk.note_child(found.sessionId, decode(v1.SessionUpdate, found.update))


class _Forms:
    """Shows forms and pages of agents."""

    def __init__(self, asking: OpenQuestions) -> None:
        self._asking = asking

    async def form(
        self, request: v1.ElicitationFormMode, session: Session | None
    ) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation:
        return await self._asking.ask_form(request)

    async def url(
        self, request: v1.ElicitationUrlMode, session: Session | None
    ) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation:
        return await self._asking.ask_form(request)

    async def complete(self, elicitation_id: str) -> None:
        self._asking.page_done(elicitation_id)


def _reach(note: Callable[[str], None]) -> str:
    """The socket of the local host, which is started if none runs. Raises: NoHost."""
    places = find_places()
    client = reach_host(places, note=note)
    try:
        return client.place.socket
    finally:
        client.close()
