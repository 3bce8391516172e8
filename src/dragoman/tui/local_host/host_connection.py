"""The connection of a conversation to the local host, which is started if none runs.

Owns what this client announces, and which handler of the conversation gets a request or a message of the host.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from dragoman.client.connect import connect
from dragoman.host.environment import METHOD, NOT_PASSED_ON, block_for
from dragoman.host.local.build import PROTOCOL, hello
from dragoman.host.local.place import find_places
from dragoman.host.local.start import NoHost, reach_host
from dragoman.host.local.thin import HostLost, begin, begun

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.client import RemoteAgent, Session
    from dragoman.schema import v1
    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.questions.open_questions import OpenQuestions

_TRIES: Final = 4


class HostLink:
    """The connection of one conversation to the local host, started if there is none."""

    def __init__(self, conversation: HostedConversation) -> None:
        self._conversation = conversation
        self._entered: Any = None

    async def __aenter__(self) -> RemoteAgent:
        conversation = self._conversation
        loop = asyncio.get_running_loop()

        # The user interface belongs to the loop: a note of the thread must not draw in the middle of a paint.
        def note(text: str) -> None:
            loop.call_soon_threadsafe(conversation.note, text)

        # A task: a question runs in one, and its end must not be noted before it was shown or withdrawn.
        async def answered(params: dict[str, Any]) -> None:
            conversation.asking.answered(params)

        path = await asyncio.to_thread(_reach, note)
        self._entered = connect(
            f"unix:{path}",
            name="dragoman",
            title="dragoman",
            permission=conversation.asking.permission,
            elicitation=_Forms(conversation.asking),
            terminal_login=True,
            # Plain functions: the start and the end of a turn are noted in order with its updates.
            extensions={
                "_dragoman/turn_started": conversation.turn_started,
                "_dragoman/turn_ended": conversation.turn_ended,
                "_dragoman/answered": answered,
                "_dragoman/sessions/changed": conversation.list_changed,
                "_dragoman/notice": lambda params: conversation.note(str(params.get("text", ""))),
            },
            on_updates=conversation.updated,
            # The output of terminals comes in pieces, with exit codes; subagents with their sessions.
            meta={"dragoman": {**hello(), "activity": True, "unstable": True}, "terminal_output": True},
            unstable=True,
        )
        remote: RemoteAgent = await self._entered.__aenter__()
        meta = remote.capabilities.meta
        block = block_for(meta.get("dragoman") if isinstance(meta, dict) else None)
        if block:
            await remote.notify(METHOD, {"block": block})
        return remote

    async def __aexit__(self, *error: Any) -> None:
        await self._entered.__aexit__(*error)


class _Forms:
    """Forms and pages of agents."""

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
    """Connect to the local host, which is started if none runs, and replaced after an update. Raises: NoHost."""
    for tries_left in reversed(range(_TRIES)):
        client = reach_host(find_places(), note=note)
        try:
            hello = begun(client, begin(client))
            if hello.get("isOutdated") or hello.get("protocol") != PROTOCOL:
                from dragoman.host.local.succession import left_in, retire

                client, work = retire(client, note)
                if work:
                    note(f"dragoman was updated; new prompts wait for {left_in(work)}")
                if "machine" not in client.hello:
                    raise NoHost(NOT_PASSED_ON)
            return client.place.socket
        except HostLost as error:  # it ended just now
            if tries_left == 0:
                raise NoHost(str(error)) from None
        finally:
            client.close()
    raise AssertionError
