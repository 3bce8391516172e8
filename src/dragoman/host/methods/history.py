"""A part of a session's history by its place: what is before a number, for clients that page upward.

A copy of a session has the events of its parent before its own first one. They are counted downward from there: the
last event of the parent that it has is number 0, the one before it -1, so that one number names a place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.errors import RequestError
from dragoman.host.clients.older_history import read_history, shown_update
from dragoman.host.history.frames import event_place

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession


async def answer_before(
    host: Host, client: HostConnection, session: HostedSession, params: dict[str, Any]
) -> dict[str, Any]:
    """Answer with the part of the history before the number `before`."""
    before = whole_number(params, "before")
    limit = whole_number(params, "limit") if "limit" in params else None
    if limit is not None and limit < 1:
        raise RequestError.invalid_params("limit must be at least 1", path="$.limit")
    place = min(before - 1, session.head)  # of the last event of the part
    offset = 0
    logs = await host.ancestry(session)
    while logs:
        id, end = logs.pop()
        if end is not None:
            offset -= end
        if place - offset >= 1:
            break
    else:
        return {"updates": [], "start": before, "hasMore": False, "ended": [], "begun": None}
    page = await read_history(host, id, place - offset, with_facts=True, limit=limit)
    updates = []
    for item in page.updates:
        update = await shown_update(client, session, item)
        if update is not None:
            first = None if item.first is None else item.first + offset
            updates.append({**event_place(item.number + offset, item.at, first), "update": update})
    return {
        "updates": updates,
        "start": page.start + 1 + offset,
        "hasMore": page.start > 0 or any(end for _, end in logs),
        **page.turns,
    }


def whole_number(params: dict[str, Any], name: str, default: int | None = None) -> int:
    """Return a member that must be a whole number. Raises: RequestError."""
    found = params.get(name, default)
    if not isinstance(found, int) or isinstance(found, bool):
        raise RequestError.invalid_params(f"{name} must be a whole number", path=f"$.{name}")
    return found
