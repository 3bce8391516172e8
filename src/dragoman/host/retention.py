"""Which sessions go when their user may have no more: archived ones first, then those that were used longest ago.

Loaded when a user is at the limit, so that no other request waits for it. A session that works, asks, has prompts that
wait or a client on it is never removed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.host.history.facts import ARCHIVED
from dragoman.host.host import Visitor

if TYPE_CHECKING:
    from collections.abc import Collection

    from dragoman.host.host import Host
    from dragoman.store.event_log import SessionRecord

_log = logging.getLogger("dragoman.host")
_MOST: Final = 1_000_000


async def remove_one(host: Host, user: str, opening: Collection[str]) -> bool:
    """Remove a session of a user that is not in use, nor being opened; False if there is none."""
    visitor = Visitor(principal=user)
    records = (await host.log.page(user, limit=_MOST)).records
    for record in sorted(records, key=_rank):
        if record.id not in opening and await _remove(host, visitor, record):
            return True
    return False


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
