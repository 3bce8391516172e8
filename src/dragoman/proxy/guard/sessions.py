"""The sessions that pass through the guard, by id: open ones, and those that are being opened.

An agent may use a session before the response that names it has arrived; `wait_for` waits for that. Does not know what
the sessions do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from dragoman.errors import RequestError
from dragoman.proxy.guard.session import GuardedSession

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_SESSIONS: Final = 10_000  # of one connection; an agent that names more is not listened to


class GuardedSessions:
    """The sessions of one guard."""

    def __init__(self) -> None:
        self._open: dict[str, GuardedSession] = {}
        self._opening: dict[str, GuardedSession] = {}  # by the id that a request named
        self._unnamed = 0  # requests that open a session whose id only the response names
        self._named = asyncio.Event()

    def __iter__(self) -> Iterator[GuardedSession]:
        return iter(list(self._open.values()))

    def find(self, session_id: str) -> GuardedSession | None:
        """Return a session, or one that is being opened."""
        return self._open.get(session_id) or self._opening.get(session_id)

    def is_opening(self, session_id: str) -> bool:
        """Whether a request that opens this session is not answered yet: what the agent reports is its history."""
        return session_id in self._opening

    def find_open(self, session_id: str) -> GuardedSession | None:
        """Return a session whose opening was answered."""
        return self._open.get(session_id)

    async def wait_for(self, session_id: str) -> GuardedSession:
        """Return a session; one that may be named by the response to an open request is waited for.

        Raises: RequestError if there is none.
        """
        while (found := self.find(session_id)) is None and self._unnamed:
            await self._named.wait()
        if found is None:
            raise no_session(session_id)
        return found

    def begin(self, session: GuardedSession) -> None:
        """Note that the editor opens a session; its id is empty if only the response names it."""
        if session.id:
            self._opening.setdefault(session.id, session)
        else:
            self._unnamed += 1

    def end_opening(self, session: GuardedSession) -> None:
        """Note that the request that opens a session was answered, or failed."""
        if session.id:
            self._opening.pop(session.id, None)
        else:
            self._unnamed -= 1
        self._wake()

    def add(self, session: GuardedSession) -> GuardedSession | None:
        """Add an open session; return the same object as before if it was open already, None if there are too many."""
        known = self._open.get(session.id)
        if known is not None and known.folders == session.folders:
            return known
        if len(self._open) >= _MOST_SESSIONS:
            return None
        self._open[session.id] = session
        self._wake()
        return session

    def remove(self, session_id: str) -> GuardedSession | None:
        """Remove a session that was closed."""
        return self._open.pop(session_id, None)

    def close(self) -> None:
        """End all sessions: the connection ends."""
        for session in (*self._open.values(), *self._opening.values()):
            session.end()
        self._unnamed = 0
        self._wake()

    def _wake(self) -> None:
        """Let the requests look again that wait for a session."""
        self._named.set()
        self._named = asyncio.Event()


def no_session(session_id: str) -> RequestError:
    """Return the error about a session that is not known here."""
    return RequestError.not_found("No such session on this connection", {"sessionId": session_id[:200]})
