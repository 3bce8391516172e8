"""Which sessions go by themselves: at the limit of their user, and those in which nothing happened for some days.

At the limit archived ones go first, then those that were used longest ago. A session that works, asks, has prompts that
wait or a client on it never goes. One that another session continues is the beginning of that one's history: it goes
last at the limit, and by its age not before the other.

Loaded when a user is at the limit or ages are set, so that no other request waits for it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.errors import DragomanError
from dragoman.host.history.facts import ARCHIVED
from dragoman.host.host import Visitor
from dragoman.store.event_log import ListPlace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from dragoman.host.host import Host
    from dragoman.store.event_log import SessionRecord

_log = logging.getLogger("dragoman.host")
_MOST: Final = 1_000_000
_PAGE: Final = 100
_DAY_SECONDS: Final = 86400.0
LOOK_SECONDS: Final = 3600.0


async def remove_one(host: Host, user: str, opening: Collection[str]) -> bool:
    """Remove a session of a user that is not in use, nor being opened; False if there is none."""
    records = (await host.log.page(user, limit=_MOST)).records
    continued = _continued_by(records, records)
    for record in sorted(records, key=lambda record: (record.id in continued, *_rank(record))):
        if record.id not in opening and await _remove(host, record, "its user has too many"):
            return True
    return False


class OldSessions:
    """The sessions of a host in which nothing has happened for so many days: looked for every hour, and removed."""

    def __init__(self, host: Host, days: float) -> None:
        """Prepare it; `look` does the work.

        Args:
            host: Whose sessions.
            days: How long a session stays after its last prompt, question, answer, end of a turn or new title.
        """
        self._host = host
        self._days = days
        self._looked_at: float | None = None
        self._is_running = False
        self._is_over = False

    def look(self) -> None:
        """Begin to remove what is too old, if it is time for that; called often."""
        now = self._host.now()
        is_due = self._looked_at is None or abs(now - self._looked_at) >= LOOK_SECONDS
        if is_due and not self._is_running and not self._is_over:
            self._looked_at = now
            self._is_running = True
            _ = self._host.run(self._remove_all(now - self._days * _DAY_SECONDS))

    def close(self) -> None:
        """Remove no further one."""
        self._is_over = True

    async def _remove_all(self, before: float) -> None:
        try:
            for user in await self._users(before):
                await self._remove_of(user, before)
        except DragomanError as error:
            _log.warning("old sessions could not be removed now: %s", error)
        finally:
            self._is_running = False

    async def _users(self, before: float) -> list[str]:
        """Return who has old sessions; no other ones are read."""
        found: dict[str, None] = {}
        place: ListPlace | None = ListPlace(before, "")
        while place is not None and not self._is_over:
            page = await self._host.log.page(None, before=place, limit=_PAGE)
            found.update(dict.fromkeys(record.principal for record in page.records))
            place = page.next
        return list(found)

    async def _remove_of(self, user: str, before: float) -> None:
        host = self._host
        records = (await host.log.page(user, limit=_MOST)).records
        staying = [record for record in records if record.updated_at >= before or _is_in_use(host, record.id)]
        kept = {record.id for record in staying} | _continued_by(staying, records)
        why = f"nothing has happened in it for {self._days:g} days"
        for record in reversed(records):
            if self._is_over:
                return
            if record.id in kept:
                continue
            try:
                await _remove(host, record, why, before=before)
            except DragomanError as error:  # of this session: the others go all the same
                _log.warning("the session %s could not be removed: %s", record.id, error)


def _rank(record: SessionRecord) -> tuple[bool, float, str]:
    return not msgspec.json.decode(record.facts).get(ARCHIVED), record.updated_at, record.id


def _continued_by(records: Iterable[SessionRecord], known: Iterable[SessionRecord]) -> set[str]:
    """Return the sessions whose history is the beginning of these, as far as they are known."""
    parents: dict[str, str | None] = {}
    for record in known:
        parent = msgspec.json.decode(record.facts).get("parent")
        parents[record.id] = parent.get("id") if isinstance(parent, dict) else None
    found: set[str] = set()
    for record in records:
        above = parents.get(record.id)
        while above is not None and above not in found:
            found.add(above)
            above = parents.get(above)
    return found


def _is_in_use(host: Host, id: str) -> bool:
    live = host.live(id)
    return live is not None and live.is_in_use


async def _remove(host: Host, record: SessionRecord, why: str, *, before: float | None = None) -> bool:
    """Remove a session, unless it is in use, or something has happened in it after `before`."""
    if _is_in_use(host, record.id):
        return False
    session = await host.find(record.id, Visitor(principal=record.principal))
    if session is None or session.is_in_use:  # a client came while it was read
        return False
    if before is not None and session.now_listed.updated_at >= before:
        return False
    _log.warning("the session %s of %s was removed: %s", record.id, record.principal, why)
    await host.delete(session)
    return True
