"""Prompts that are passed to the turn that runs, as text that its agent reads before the turn ends.

Theory of operation
-------------------
Such a prompt is in the queue like any other, in front of those that wait, and the agent gets its text besides. An agent
that takes the text shows it as a message of the user inside of the turn; with that message the prompt leaves the queue.
`accepted` in the agent's answer is not enough: a turn that is cancelled, or an agent that dies, drops what it accepted.
So whatever becomes of the turn, a text that was not taken is the next prompt, and it is in the log from its beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.errors import DragomanError
from dragoman.schema import v1

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.host.working.prompts import HostedPrompt


class PassedPrompts:
    """The prompts that the agent of one session has got for its turn, and has not shown yet."""

    def __init__(self, session: HostedSession, host: Host) -> None:
        self._session = session
        self._host = host
        self._items: list[HostedPrompt] = []
        self._message = ("", "")  # the id of the user's message that comes, and its text so far
        self.is_showing = False
        """The message that came last may be a part of one of them."""

    async def pass_on(self, item: HostedPrompt) -> None:
        """Send a prompt that waits to the agent, if that takes text in a turn, and the turn goes on."""
        session = self._session
        turn, run = session.prompts.running, session.agent.run
        method = steering_method(session, self._host)
        is_on_time = turn is not None and not turn.is_cancelled and session.prompts.is_waiting(item)
        if run is None or not run.is_open or method is None or not item.text or not is_on_time:
            return
        self._items.append(item)  # before the answer: the message of the user may come before it
        problem = ""
        try:
            answer = await run.agent.request(method, {"sessionId": session.agent_session, "text": item.text})
            is_accepted = isinstance(answer, dict) and answer.get("accepted") is True
        except DragomanError as error:
            is_accepted, problem = False, f": {error}"
        if not is_accepted and item in self._items:
            self._items.remove(item)
            session.notice(f"The agent did not take the text for its turn{problem}. It waits for the end of the turn.")

    def find_taken(self, update: v1.UserMessageChunk) -> HostedPrompt | None:
        """Return the prompt that a message of the user shows as taken; None for any other message."""
        self.is_showing = False
        if not self._items or not isinstance(update.content, v1.TextContent):
            return None
        id = update.message_id if isinstance(update.message_id, str) else ""
        before = self._message[1] if id and id == self._message[0] else ""
        self._message = (id, before + update.content.text)
        # Agents trim what they show, so that only the words are compared.
        words = self._message[1].split()
        taken = next((item for item in self._items if item.text.split() == words), None)
        self.is_showing = any(item.text.startswith(self._message[1]) for item in self._items)
        if taken is not None:
            self._items.remove(taken)
            self._message = ("", "")
        return taken

    def end_turn(self) -> None:
        """Forget what was not taken when the turn ended: it is a prompt like any other."""
        self._items.clear()
        self._message = ("", "")


def steering_method(session: HostedSession, host: Host) -> str | None:
    """Return the method that the agent of a session announced for text that reaches a running turn."""
    run = session.agent.run
    if run is not None:
        meta: Any = run.agent.capabilities.meta
    else:
        described = host.description_of(session.record.agent)
        meta = None if described is None else described.capabilities.get("_meta")
    own = meta.get("dragoman") if isinstance(meta, dict) else None
    method = own.get("steer") if isinstance(own, dict) else None
    return method if isinstance(method, str) and method.startswith("_") else None
