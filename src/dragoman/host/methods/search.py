"""Search in the conversations of a user: one session, or all of them, the last words first.

A log is kept in compressed pieces, and a message in many events, so that no index of a database finds a word in it.
What is read for one answer is bounded by events, bytes and time, and folded in a thread; the answer says where the next
one goes on. One connection searches one thing at a time.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman.errors import RequestError
from dragoman.host.clients.older_history import read_part
from dragoman.host.history.joined_text import TextChunk, read_text
from dragoman.host.methods.history import whole_number
from dragoman.host.methods.params import find_session, read_params, text_member
from dragoman.store.event_log import ListPlace
from dragoman.store.ledger_record import strings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.host.clients.older_history import HistoryPart
    from dragoman.host.connection import HostConnection
    from dragoman.host.history.replay import Replayed
    from dragoman.host.host import Host
    from dragoman.rpc import Call
    from dragoman.store.event_log import SessionRecord

_MOST_HITS: Final = 200
_HITS: Final = 50
_TEXT_CHARACTERS: Final = 200
_AROUND: Final = 60  # characters on both sides of what was found
_READ_EVENTS: Final = 100_000
_READ_BYTES: Final = 32 * 1024 * 1024
_READ_SECONDS: Final = 2.0
_RECORDS: Final = 20
_ROLES: Final = {"user_message_chunk": "user", "agent_message_chunk": "agent", "agent_thought_chunk": "thought"}
_SPACE: Final = re.compile(r"\s+")


class SearchPlace(NamedTuple):
    """Where a search goes on: behind a place in the list, in the session that stood there, before a number."""

    after: ListPlace | None
    session: str
    before: int


async def search(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the places where a text occurs, without regard to capitals, and where to go on."""
    params = read_params(call.params)
    text = text_member(params, "text")
    if not text.strip() or len(text) > _TEXT_CHARACTERS:
        raise RequestError.invalid_params(f"text must have 1 to {_TEXT_CHARACTERS} characters", path="$.text")
    limit = whole_number(params, "limit", _HITS)
    if not 1 <= limit <= _MOST_HITS:
        raise RequestError.invalid_params(f"limit must be 1 to {_MOST_HITS}", path="$.limit")
    order: asyncio.Lock = client.kept.setdefault("search", asyncio.Lock())
    async with order:
        found = TextSearch(host, re.compile(re.escape(text), re.IGNORECASE), limit)
        if params.get("sessionId") is not None:
            session = await find_session(host, client, params)
            before = whole_number(params, "before", session.head + 1)
            left: object = await found.search_session(session.id, min(before - 1, session.head))
            left = left + 1 if isinstance(left, int) else None
        else:
            left = await found.search_all(client, _read_place(params.get("before")))
    return {"hits": found.hits, **({} if left is None else {"before": left})}


class TextSearch:
    """One answer: what it found, and what it may still read."""

    def __init__(self, host: Host, wanted: re.Pattern[str], limit: int) -> None:
        self.hits: list[dict[str, Any]] = []
        self._host = host
        self._wanted = wanted
        self._limit = limit
        self._events = _READ_EVENTS
        self._bytes = _READ_BYTES
        self._until = monotonic() + _READ_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether it found or read enough."""
        is_spent = self._events <= 0 or self._bytes <= 0 or monotonic() >= self._until
        return is_spent or len(self.hits) >= self._limit

    async def search_session(self, session: str, last: int) -> int | None:
        """Search the events up to a number; return the last one that was not looked at, None if there is none."""
        carried: TextChunk | None = None
        while last > 0:
            part = await read_part(self._host, session, last)
            self._events -= len(part.events)
            self._bytes -= part.size_bytes
            hits, carried = await asyncio.to_thread(find_in, part, self._wanted, carried)
            for hit in hits:
                self.hits.append({"sessionId": session, **hit})
                if len(self.hits) >= self._limit:
                    # What else is in the same message is shown with it.
                    return hit.get("from", hit["seq"]) - 1 or None
            last = part.start
            if self.is_over:
                break
        return last or None

    async def search_all(self, client: HostConnection, place: SearchPlace | None) -> str | None:
        """Search the sessions of a user, the one that was used last first; return where to go on."""
        after = None if place is None else place.after
        principal = client.visitor.principal
        while True:
            page = await self._host.log.page(principal, agent=client.agent, before=after, limit=_RECORDS)
            for record in page.records:
                is_resumed = place is not None and place.session == record.id
                last = place.before if place is not None and is_resumed else record.head
                place = None
                if not is_resumed:
                    self._search_title(record)
                left = last if self.is_over else await self.search_session(record.id, last)
                if left:
                    return _write_place(SearchPlace(after, record.id, left))
                after = ListPlace(record.updated_at, record.id)
                if self.is_over:
                    return _write_place(SearchPlace(after, "", 0))
            if page.next is None:
                return None

    def _search_title(self, record: SessionRecord) -> None:
        facts = msgspec.json.decode(record.facts)
        title = facts.get("title") if isinstance(facts, dict) else None
        found = self._wanted.search(title) if isinstance(title, str) else None
        if found is not None and isinstance(title, str):
            place = {"seq": record.head, "at": int(record.updated_at * 1000)}
            self.hits.append({"sessionId": record.id, **place, "kind": "title", "around": around(title, found)})


def find_in(
    part: HistoryPart, wanted: re.Pattern[str], carried: TextChunk | None
) -> tuple[list[dict[str, Any]], TextChunk | None]:
    """Return where a text occurs in a part of a session, the last place first. Pure.

    Args:
        part: Of the session.
        wanted: The text.
        carried: The beginning of the part behind it: a word may stand in both.

    Returns:
        The places, and the beginning of this part.
    """
    hits = []
    for item in reversed(part.fold(with_facts=False).updates):
        chunk = None if item.child is not None else read_text(item.update)
        kind, found = "", None
        if chunk is not None:
            kind, text = _ROLES[chunk.rest["sessionUpdate"]], chunk.text
            if carried is not None and carried.rest == chunk.rest:
                text += carried.text
            found = wanted.search(text, 0, len(chunk.text) + _TEXT_CHARACTERS)
            if found is not None and found.start() >= len(chunk.text):
                found = None  # it stands in what follows
            carried = TextChunk(chunk.text[: _TEXT_CHARACTERS + _AROUND], chunk.rest)
        else:
            carried, text = None, "\n".join(_tool_texts(item))
            kind, found = "tool", wanted.search(text)
        if found is not None:
            place = {"seq": item.number, "at": int(item.at * 1000)}
            first = {} if item.first is None else {"from": item.first}
            hits.append({**first, **place, "kind": kind, "around": around(text, found)})
    return hits, carried


def around(text: str, found: re.Match[str]) -> str:
    """Return what was found with some words around it, on one line."""
    start, end = max(0, found.start() - _AROUND), min(len(text), found.end() + _AROUND)
    shown = _SPACE.sub(" ", text[start:end]).strip()
    return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"


def _tool_texts(item: Replayed) -> Iterator[str]:
    """Yield what a user sees of a tool call: title, paths, input, and texts of its content."""
    found: Any = msgspec.json.decode(item.update)
    if not isinstance(found, dict) or found.get("sessionUpdate") != "tool_call":
        return
    yield str(found.get("title") or "")
    yield from strings_of(found.get("rawInput"))
    for content in found.get("content") or ():
        if isinstance(content, dict):
            inner = content.get("content")
            shown = [content.get("path"), content.get("oldText"), content.get("newText")]
            shown.append(inner.get("text") if isinstance(inner, dict) else None)
            yield from (text for text in shown if isinstance(text, str))
    for location in found.get("locations") or ():
        if isinstance(location, dict) and isinstance(location.get("path"), str):
            yield location["path"]


def _write_place(place: SearchPlace) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _read_place(given: object) -> SearchPlace | None:
    if given is None:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(str(given).encode()), type=SearchPlace)
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        raise RequestError.invalid_params("before is not from an answer of this host", path="$.before") from None
