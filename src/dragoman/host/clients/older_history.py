"""The part of a session's history that a client was not sent yet: a client that shows the end first asks for the rest.

A client names in `session/load` how many events it wants (`_meta.dragoman.tail`); `_dragoman/history` then sends what
is before them, page by page. What was sent is remembered per connection; another `session/load` begins again.

A part begins before a turn, or before a tool call of which every later update is in it: otherwise a call would be shown
twice, once without its end and once without its beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from dragoman.errors import RequestError
from dragoman.host.history.frames import stored_update, variant_of
from dragoman.host.history.replay import HistoryReplay
from dragoman.host.working.uploads import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.host.connection import HostConnection
    from dragoman.host.history.replay import Replayed
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Call
    from dragoman.store.event_log import LogEvent

PAGE_EVENTS: Final = 2_000
_PAGE_BYTES: Final = 4 * 1024 * 1024
_STEP: Final = 500


class OlderHistory:
    """What is left of the sessions of one client: the logs, and up to which number."""

    def __init__(self, host: Host, client: HostConnection) -> None:
        self._host = host
        self._client = client
        self._left: dict[str, list[tuple[str, int]]] = {}
        self._turns: dict[str, dict[str, Any]] = {}

    async def begin(self, session: HostedSession, meta: dict[str, Any]) -> int:
        """Note that a client loads a session; return the number behind which it is sent everything, 0 for all of it."""
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
        """Answer with the page before what was sent last."""
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
        updates = [msgspec.Raw(await self._shown(update, session)) for update in converted if update is not None]
        return {"updates": updates, "hasMore": bool(left), **page.turns}

    async def _shown(self, update: bytes, session: HostedSession) -> bytes:
        if REFERENCE not in update or self._client.kind.attachments:
            return update
        return await session.uploads.fill_update(update, session.record.principal)

    def note_turns(self, session: HostedSession, turns: dict[str, Any]) -> None:
        """Keep how turns ended in the history of a session that a client was sent."""
        self._turns[session.id] = turns

    async def answer_turns(self, call: Call) -> object:
        """Answer how the turns of the history that was sent last ended, and which prompt's turn runs."""
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


class ReadsEvents(Protocol):
    """What reads the events of sessions."""

    async def read(self, session: str, after: int, limit: int) -> list[LogEvent]:
        """Return the events behind a number."""


class _CallId(msgspec.Struct):
    toolCallId: str = ""  # noqa: N815 - the protocol's name


async def tail_start(log: ReadsEvents, session: str, head: int, events: int) -> int:
    """Return the number behind which the last events of a session begin; 0 if they are all of them."""
    if head <= events:
        return 0
    return clean_start(await log.read(session, head - events, max(1, events // 2)), head - events)


def clean_start(events: Sequence[LogEvent], start: int) -> int:
    """Return the number of the last event before a clean beginning within these events; else `start`."""
    announced: dict[str, int] = {}
    found: int | None = None
    for event in events:
        if event.kind == "start":
            found = event.number - 1 if found is None else found
        elif event.kind == "update":
            update, _, child, variant = stored_update(event.body)
            if child is not None or variant not in ("tool_call", "tool_call_update"):
                continue
            id = msgspec.json.decode(update, type=_CallId).toolCallId
            if variant == "tool_call":
                announced[id] = event.number
                found = event.number - 1 if found is None else found
            elif found is not None and announced.get(id, 0) <= found:
                found = None  # of a call that began before: what follows is clean, if anything
    return start if found is None else found


class HistoryPage(NamedTuple):
    """A part of a session's history."""

    start: int
    """The number behind which it begins; 0 at the beginning of the log."""
    updates: list[Replayed]
    """What the client is sent."""
    turns: dict[str, Any]
    """How the turns ended whose end is in it."""


async def read_history(log: ReadsEvents, session: str, before: int, *, with_facts: bool) -> HistoryPage:
    """Read the part that ends with the event `before`."""
    events: list[LogEvent] = []
    size = 0
    start = before
    while start > 0 and len(events) < PAGE_EVENTS and size < _PAGE_BYTES:
        start = max(0, start - _STEP)
        first = events[0].number if events else before + 1
        read = [event for event in await log.read(session, start, _STEP) if event.number < first]
        events[:0] = read
        size += sum(len(event.body) for event in read)
    if start:
        start = clean_start(events[: len(events) // 2], start)
        events = [event for event in events if event.number > start]
    replay = HistoryReplay(with_facts=with_facts)
    for event in events:
        if event.kind == "start":
            number = _prompt_number(event)
            if number is not None and number <= start:
                for prompt in await log.read(session, number - 1, 1):
                    replay.take(prompt)
    return HistoryPage(start, [*replay.feed(events), *replay.end_part()], replay.turns())


def _prompt_number(event: LogEvent) -> int | None:
    found: Any = msgspec.json.decode(event.body)
    number = found.get("prompt") if isinstance(found, dict) else None
    return number if isinstance(number, int) else None
