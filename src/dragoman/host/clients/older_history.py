"""The part of a session's history that a client was not sent yet: a client that shows the end first asks for the rest.

A client names in `session/load` how many events it wants (`_meta.dragoman.tail`); `_dragoman/history` then sends what
is before them, page by page. What was sent is remembered per connection; another `session/load` begins again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import RequestError
from dragoman.host.history.frames import variant_of
from dragoman.host.history.pages import read_history, tail_start

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Call


class OlderHistory:
    """What is left of the sessions of one client: the logs, and up to which number."""

    def __init__(self, host: Host, client: HostConnection) -> None:
        self._host = host
        self._client = client
        self._left: dict[str, list[tuple[str, int]]] = {}
        self._turns: dict[str, dict[str, Any]] = {}

    async def begin(self, session: HostedSession, meta: dict[str, Any]) -> int:
        """A client loads a session. Returns the number behind which it is sent everything; 0 for all of it."""
        self._left.pop(session.id, None)
        tail = meta.get("tail")
        if not isinstance(tail, int) or isinstance(tail, bool) or tail < 1 or not self._client.kind.knows_us:
            return 0
        start = await tail_start(self._host, session.id, session.head, tail)
        if start:
            logs = await self._host.ancestry(session)
            self._left[session.id] = [(id, start if end is None else end) for id, end in logs]
        return start

    async def answer(self, call: Call) -> object:
        """The page before what was sent last."""
        session = await self._named(call)
        left = self._left.get(session.id)
        if not left:
            return {"updates": [], "hasMore": False}
        log, before = left.pop()
        page = await read_history(self._host, log, before, with_facts=True)
        if page.start:
            left.append((log, page.start))
        kind = self._client.kind
        converted = (kind.convert(item.update, variant_of(item.update)) for item in page.updates if item.child is None)
        updates = [msgspec.Raw(update) for update in converted if update is not None]
        return {"updates": updates, "hasMore": bool(left), **page.turns}

    def note_turns(self, session: HostedSession, turns: dict[str, Any]) -> None:
        """A client was sent the history of a session, in which turns ended."""
        self._turns[session.id] = turns

    async def answer_turns(self, call: Call) -> object:
        """How the turns of the history that was sent last ended, and the prompt whose turn runs."""
        session = await self._named(call)
        running = session.prompts.running
        turns = self._turns.pop(session.id, {"ended": [], "begun": None})
        return {**turns, "running": None if running is None else running.id}

    async def _named(self, call: Call) -> HostedSession:
        request: Any = msgspec.json.decode(call.params or b"{}")
        id = str(request.get("sessionId") if isinstance(request, dict) else "")
        session = await self._host.find(id, self._client.visitor)
        if session is None:
            raise RequestError.not_found("there is no such session")
        return session
