"""Which sessions go when their user may have no more: archived ones first, then those that were used longest ago.

Loaded when a user is at the limit, so that no other request waits for it. A session that works, asks, has prompts that
wait or a client on it is never removed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from dragoman.host.history.facts import ARCHIVED

if TYPE_CHECKING:
    from dragoman.host.host import Host, Visitor
    from dragoman.store.event_log import SessionRecord

_log = logging.getLogger("dragoman.host")


async def make_room(host: Host, visitor: Visitor, most: int) -> bool:
    """Remove sessions of a user that are not in use until there is room for one more; False if there is none."""
    records = (await host.log.page(visitor.principal, limit=1_000_000)).records
    left = len(records)
    for record in sorted(records, key=_rank):
        if left < most:
            break
        if await _remove(host, visitor, record):
            left -= 1
    return left < most


def _rank(record: SessionRecord) -> tuple[bool, float, str]:
    return not msgspec.json.decode(record.facts).get(ARCHIVED), record.updated_at, record.id


async def _remove(host: Host, visitor: Visitor, record: SessionRecord) -> bool:
    """Remove a session, unless it is in use."""
    live = host.live(record.id)
    if live is not None and live.is_in_use:
        return False
    session = await host.find(record.id, visitor)
    if session is None or session.is_in_use:  # a client came while it was read
        return False
    _log.warning("the session %s of %s was removed: its user has too many", record.id, visitor.principal)
    await host.delete(session)
    return True
