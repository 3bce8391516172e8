"""Updates and requests that arrive before the response that names their session.

Real agents do this: available commands and usage arrive before the response to `session/new`, and a fork replays its
whole history first (rule 103). Owns the buffer of such updates, the waiting of such requests, and the limits of both.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.rpc import Limits
    from dragoman.schema import v1

_log = logging.getLogger("dragoman.client")

# An agent that answers session/new only after its own request was answered would wait forever, and so would we.
EARLY_REQUEST_SECONDS: Final = 10.0


class EarlyUpdates:
    """Early updates by session id, and early requests that wait. Beyond the limits the oldest session is dropped."""

    def __init__(self, limits: Limits) -> None:
        self._max_sessions = limits.unknown_sessions
        self._max_bytes = limits.unknown_bytes
        self._held_bytes = 0
        self._by_session: dict[str, list[tuple[list[v1.SessionUpdate], int]]] = {}
        self._openings = 0
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}

    def keep(self, session_id: str, updates: list[v1.SessionUpdate], share_bytes: int) -> None:
        """Keep updates of `share_bytes` each until their session is opened, or until there are too many."""
        self._by_session.setdefault(session_id, []).append((updates, share_bytes))
        self._held_bytes += len(updates) * share_bytes
        while len(self._by_session) > self._max_sessions or (self._held_bytes > self._max_bytes and self._by_session):
            oldest = next(iter(self._by_session))
            lost = sum(len(updates) for updates, _ in self.take(oldest))
            _log.warning("dropped %d updates of session %r, which was not opened", lost, oldest)

    def take(self, session_id: str) -> list[tuple[list[v1.SessionUpdate], int]]:
        """Remove and return the updates of this session, in order."""
        kept = self._by_session.pop(session_id, [])
        self._held_bytes -= sum(len(updates) * share_bytes for updates, share_bytes in kept)
        return kept

    @property
    def is_opening(self) -> bool:
        """Whether a session is being opened whose id is not known yet."""
        return self._openings > 0

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Mark, for the `with` block, that the agent is asked for a session that its response will name."""
        self._openings += 1
        try:
            yield
        finally:
            self._openings -= 1
            if not self._openings:
                for session_id in list(self._waiters):
                    self.release(session_id)

    async def wait_until_named(self, session_id: str) -> None:
        """Return when this session has been named, or when no session is being opened any more."""
        named = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(session_id, []).append(named)
        try:
            async with asyncio.timeout(EARLY_REQUEST_SECONDS):
                await named
        except TimeoutError:
            _log.warning("a request for session %r was given up: no answer named that session", session_id)

    def release(self, session_id: str) -> None:
        """Let the requests for this session continue: it is open now, or never will be."""
        for named in self._waiters.pop(session_id, ()):
            if not named.done():
                named.set_result(None)
