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


class HostLink:
    """The connection of one conversation to the local host, started if there is none."""

    def __init__(self, conversation: HostedConversation) -> None:
        self._conversation = conversation
        self._entered: Any = None

    async def __aenter__(self) -> RemoteAgent:
        talk = self._conversation
        path = await asyncio.to_thread(_reach, talk.note)
        self._entered = connect(
            f"unix:{path}",
            name="dragoman",
            title="dragoman",
            permission=talk.permission,
            elicitation=_Forms(talk),
            extensions={
                "_dragoman/turn_started": lambda params: None,  # see _StartedTurns
                "_dragoman/turn_ended": talk.turn_ended,
                "_dragoman/answered": talk.answered,
                "_dragoman/notice": lambda params: talk.note(str(params.get("text", ""))),
            },
            # The output of terminals comes in pieces, with exit codes; subagents with their sessions.
            meta={"dragoman": {**hello(), "unstable": True}, "terminal_output": True},
            unstable=True,
            observers=(_StartedTurns(talk), _ChildSessions(talk)),
        )
        remote: RemoteAgent = await self._entered.__aenter__()
        return remote

    async def __aexit__(self, *error: Any) -> None:
        await self._entered.__aexit__(*error)


class _StartedTurns(Observer):
    """Marks the start of our turns in the order of the wire: a handler would run behind updates that came with it."""

    def __init__(self, conversation: HostedConversation) -> None:
        self._conversation = conversation

    def received(self, line: bytes) -> None:
        if b'"_dragoman/turn_started"' in line[:100]:
            self._conversation.turn_started(msgspec.json.decode(line).get("params") or {})


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
        if not self._conversation.may_have_children or b'"session/update"' not in line[:60]:
            return
        with suppress(msgspec.DecodeError):
            found = msgspec.json.decode(line, type=_UpdateFrame).params
            if self._conversation.is_child(found.sessionId):
                self._conversation.note_child(found.sessionId, decode(v1.SessionUpdate, found.update))


class _Forms:
    """Shows forms of agents."""

    def __init__(self, conversation: HostedConversation) -> None:
        self._conversation = conversation

    async def form(
        self, request: v1.ElicitationFormMode, session: Session | None
    ) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation:
        values = await self._conversation.ask_form(request)
        return v1.DeclineElicitation() if values is None else v1.AcceptElicitation(content=values)


def _reach(note: Callable[[str], None]) -> str:
    """The socket of the local host, which is started if none runs. Raises: NoHost."""
    places = find_places()
    client = reach_host(places, note=note)
    try:
        return client.place.socket
    finally:
        client.close()
