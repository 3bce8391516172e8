"""Sessions that only an agent knows: listed while the agent runs anyway, and hosted once a client opens one.

Their ids are made from the agent's name and its own id, so that they stay the same.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.errors import DragomanError, RequestError
from dragoman.host.clients.admission import admit_folder
from dragoman.store.event_log import SessionRecord

if TYPE_CHECKING:
    from dragoman.host.host import Host, Visitor
    from dragoman.schema import v1
    from dragoman.store.event_log import ListPlace, OwnedSession

_log = logging.getLogger("dragoman.host")
_MOST: Final = 500


class ForeignSessions:
    """The sessions of agents that a host has not hosted."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._known: dict[str, SessionRecord] = {}

    async def list(self, agent: str, visitor: Visitor) -> list[SessionRecord]:
        """Return what a running agent lists and the host does not have; empty if it does not run or cannot list."""
        running = self._host.running_agent(agent, visitor)
        if running is None or not running.can("sessionCapabilities.list") or not running.can_come_back:
            return []
        hosted = await self._hosted(agent)
        found: list[SessionRecord] = []
        try:
            async for info in running.agent.sessions():
                if info.session_id not in hosted and _may_use(info.cwd, visitor):
                    found.append(_record(agent, info, visitor))
                if len(found) >= _MOST:
                    break
        except DragomanError as error:
            _log.warning("%s could not list its sessions: %s", agent, error)
        self._known.update((session.id, session) for session in found)
        return found

    async def _hosted(self, agent: str) -> set[str | None]:
        """Return the agent's ids of the sessions that the host has, of all principals."""
        found: set[str | None] = set()
        place: ListPlace | None = None
        while True:
            page = await self._host.log.page(None, agent=agent, before=place, limit=_MOST)
            found |= {record.agent_session for record in page.records}
            place = page.next
            if place is None:
                return found

    async def adopt(self, id: str, visitor: Visitor) -> OwnedSession | None:
        """Enter a session that was listed in the log of the host. Raises: StoreError."""
        record = self._known.get(id)
        if record is None or record.principal != visitor.principal:
            return None
        owned = await self._host.log.create(record)
        del self._known[id]
        return owned


def _record(agent: str, info: v1.SessionInfo, visitor: Visitor) -> SessionRecord:
    digest = hashlib.sha256(msgspec.json.encode([agent, info.session_id])).digest()[:16]
    id = base64.b32encode(digest).decode().rstrip("=").lower()
    at = 0.0
    if isinstance(info.updated_at, str):
        try:
            at = datetime.fromisoformat(info.updated_at).timestamp()
        except ValueError:
            at = 0.0
    facts = {"isForeign": True, "title": info.title if isinstance(info.title, str) else None}
    return SessionRecord(
        id, visitor.principal, agent, info.session_id, info.cwd, msgspec.json.encode(facts), at, at, 0, 1
    )


def _may_use(cwd: str, visitor: Visitor) -> bool:
    try:
        admit_folder(cwd, visitor)
    except RequestError:
        return False
    return True
