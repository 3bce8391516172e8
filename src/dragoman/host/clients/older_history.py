"""The part of a session's history that a client was not sent yet: a client that shows the end first asks for the rest.

A client names in `session/load` how many events it wants (`_meta.dragoman.tail`); `_dragoman/history` then sends what
is before them, page by page. What was sent is remembered per connection; another `session/load` begins again. With
`before` it names the place itself, and nothing is remembered (`methods/history.py`).

A part begins before a turn, or before a tool call of which every later update is in it: otherwise a call would be shown
twice, once without its end and once without its beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from dragoman.host.history.frames import stored_update, variant_of
from dragoman.host.history.replay import HistoryReplay
from dragoman.host.methods.params import find_session, read_params
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
_LEAST_STEP: Final = 50


class OlderHistory:
    """What is left of the sessions of one client: the logs, and up to which number."""

    def __init__(self, host: Host, client: HostConnection) -> None:
        self._host = host
        self._client = client
        self._left: dict[str, list[tuple[str, int]]] = {}
        self._turns: dict[str, HistoryReplay] = {}

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
        params = read_params(call.params)
        session = await find_session(self._host, self._client, params)
        if "before" in params:
            from dragoman.host.methods.history import answer_before

            return await answer_before(self._host, self._client, session, params)
        left = self._left.get(session.id)
        if not left:
            return {"updates": [], "hasMore": False}
        log, before = left.pop()
        page = await read_history(self._host, log, before, with_facts=True)
        if page.start:
            left.append((log, page.start))
        found = [await shown_update(self._client, session, item) for item in page.updates]
        return {"updates": [update for update in found if update is not None], "hasMore": bool(left), **page.turns}

    def note_turns(self, session: HostedSession, replay: HistoryReplay) -> None:
        """Keep how turns ended in the history of a session that a client was sent."""
        self._turns[session.id] = replay

    async def answer_turns(self, call: Call) -> object:
        """Answer how the turns of the history that was sent last ended, and which prompt's turn runs.

        A turn that ended behind that history is among them: its end may have been sent before the client could ask.
        """
        session = await find_session(self._host, self._client, read_params(call.params))
        place = session.prompts.place
        replay = self._turns.pop(session.id, None)
        turns: dict[str, Any] = {"ended": [], "begun": None}
        if replay is not None:
            turns = replay.turns_until_now(session.prompts.outcomes)
        begun = session.prompts.begun
        since = {} if begun is None else {"seconds": round(max(0.0, self._host.now() - begun.at), 3)}
        return {**turns, "running": None if place is None else place["promptId"], **since}


async def shown_update(client: HostConnection, session: HostedSession, item: Replayed) -> msgspec.Raw | None:
    """Return an update of the history as a client is sent it; None if it is not."""
    update = None if item.child is not None else client.kind.convert(item.update, variant_of(item.update))
    if update is not None and REFERENCE in update and not client.kind.attachments:
        update = await session.uploads.fill_update(update, session.record.principal)
    return None if update is None else msgspec.Raw(update)


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
    return clean_start(await log.read(session, head - events, events), head - events, max(1, events // 2))


def clean_start(events: Sequence[LogEvent], start: int, among: int) -> int:
    """Return the number of the last event before a clean beginning; `start` if there is none.

    Args:
        events: A part of the history.
        start: The number in front of the first one.
        among: The beginning is one of so many of the first events.
    """
    announced: dict[str, int] = {}
    found: list[int] = []
    for place, event in enumerate(events):
        if event.kind == "start":
            if place < among:
                found.append(event.number - 1)
        elif event.kind == "update" and b'"tool_call' in event.body:
            update, _, child, variant = stored_update(event.body)
            if child is not None or variant not in ("tool_call", "tool_call_update"):
                continue
            id = msgspec.json.decode(update, type=_CallId).toolCallId
            if variant == "tool_call" and id not in announced:
                announced[id] = event.number
                if place < among:
                    found.append(event.number - 1)
            else:
                begun = announced.get(id, 0)
                while found and found[-1] >= begun:  # it would begin in the middle of this call
                    found.pop()
    return found[0] if found else start


class HistoryPage(NamedTuple):
    """A part of a session's history."""

    start: int
    """The number behind which it begins; 0 at the beginning of the log."""
    updates: list[Replayed]
    """What the client is sent."""
    turns: dict[str, Any]
    """How the turns ended whose end is in it."""


class HistoryPart(NamedTuple):
    """The events of a part of a session's history."""

    start: int
    """The number behind which it begins; 0 at the beginning of the log."""
    events: list[LogEvent]
    prompts: list[LogEvent]
    """Of turns that begin in it, and were accepted before it."""
    size_bytes: int

    def fold(self, *, with_facts: bool) -> HistoryPage:
        """Return what a client is sent of it. Pure, so that it may run in a thread."""
        replay = HistoryReplay(with_facts=with_facts)
        for prompt in self.prompts:
            replay.take(prompt)
        return HistoryPage(self.start, [*replay.feed(self.events), *replay.end_part()], replay.turns())


async def read_history(
    log: ReadsEvents, session: str, before: int, *, with_facts: bool, limit: int | None = None
) -> HistoryPage:
    """Read the part that ends with the event `before`, as a client is sent it."""
    return (await read_part(log, session, before, limit=limit)).fold(with_facts=with_facts)


async def read_part(log: ReadsEvents, session: str, before: int, *, limit: int | None = None) -> HistoryPart:
    """Read the events of the part that ends with the event `before`.

    It has about `limit` events, and more if no clean beginning is among them, up to the size of a page.
    """
    events: list[LogEvent] = []
    size, start, clean = 0, before, -1
    limit = PAGE_EVENTS if limit is None else min(limit, PAGE_EVENTS)
    step = min(_STEP, max(limit, _LEAST_STEP))
    while start > 0 and clean < 0:
        if len(events) >= PAGE_EVENTS or size >= _PAGE_BYTES:
            clean = start  # a call whose beginning is too far away is shown in two parts
            break
        start = max(0, start - step)
        first = events[0].number if events else before + 1
        read = [event for event in await log.read(session, start, step) if event.number < first]
        events[:0] = read
        size += sum(len(event.body) for event in read)
        if start and (len(events) >= limit or size >= _PAGE_BYTES):
            clean = clean_start(events, -1, max(len(events) // 2, len(events) - limit // 2))
    start = max(start, clean)
    events = [event for event in events if event.number > start]
    prompts: list[LogEvent] = []
    for event in events:
        if event.kind == "start":
            number = _prompt_number(event)
            if number is not None and number <= start:
                prompts += await log.read(session, number - 1, 1)
    return HistoryPart(start, events, prompts, size)


def _prompt_number(event: LogEvent) -> int | None:
    found: Any = msgspec.json.decode(event.body)
    number = found.get("prompt") if isinstance(found, dict) else None
    return number if isinstance(number, int) else None
