"""The sessions that this client knows: from the list of the host, with what the attached conversations know better."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dragoman.errors import ConnectionClosed
from dragoman.tui.values import ListedSession

if TYPE_CHECKING:
    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.screen.sessions.attached import AttachedSessions

_MOST_SHOWN: Final = 40
_HIDDEN: Final = ("closed", "readOnly")


class KnownSessions:
    """Sessions in an order that stays, so that the column does not jump and the next one is the next one."""

    def __init__(self, attached: AttachedSessions) -> None:
        self._attached = attached
        self._listed: dict[str, ListedSession] = {}

    async def read_before_start(self) -> list[ListedSession]:
        """Return the list of the host, before a conversation is connected."""
        from dragoman.tui.local_host.session_rows import rows_before_start

        return self._keep(await asyncio.to_thread(rows_before_start))

    async def read(self, talk: HostedConversation) -> list[ListedSession]:
        """Return the list of the host as it is by now, the last used first. Raises: RequestError."""
        if talk.phase == "failed":  # it has no connection, and the host has sessions all the same
            return await self.read_before_start()
        try:
            return self._keep(await talk.sessions())
        except ConnectionClosed:  # it comes back, or the screen says so
            return list(self._listed.values())

    def _keep(self, rows: list[ListedSession]) -> list[ListedSession]:
        fresh = {row.session_id: row for row in rows}
        kept = {id: fresh[id] for id in self._listed if id in fresh}
        self._listed = {**kept, **fresh}
        return rows

    def rows(self, shown: HostedConversation) -> list[ListedSession]:
        """Return the sessions to show, in an order that stays."""
        found = []
        live = {
            session.talk.session_id: session.talk for session in self._attached if session.talk.session_id is not None
        }
        for id, row in self._listed.items():
            talk = live.pop(id, None)
            row = row if talk is None else _current(row, talk)
            if talk is shown or (row.state not in _HIDDEN and (talk is not None or not row.is_unused)):
                found.append(row)
        for id, talk in live.items():
            made = ListedSession(session_id=str(id), name=None, agent=talk.agent, folder=talk.folder, state="idle")
            found.append(_current(made, talk))
        return found[:_MOST_SHOWN]

    def waiting(self, shown: HostedConversation) -> int:
        """Return how many other sessions need the user."""
        return sum(row.state == "waiting" and row.session_id != shown.session_id for row in self.rows(shown))


def _current(row: ListedSession, talk: HostedConversation) -> ListedSession:
    """Return a row with the state that an attached conversation has."""
    if talk.phase != "ready":
        return row
    state = "waiting" if talk.questions else "running" if talk.is_running else row.state
    if state == row.state and state in ("waiting", "running") and not talk.questions and not talk.is_running:
        state = "idle"
    return replace(row, state=state, title=talk.state.title or row.title)
