"""Updates that arrive before the answer which names their session.

Real agents do this: available commands and usage come before the answer to `session/new`, a fork replays its whole
history first (rule 103). Owns that buffer and its bound.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.rpc import Limits
    from dragoman.schema import v1

_log = logging.getLogger("dragoman.client")


class EarlyUpdates:
    """Keeps early updates by session id; the oldest session makes room for the newest."""

    def __init__(self, limits: Limits) -> None:
        self._max_sessions = limits.unknown_sessions
        self._max_bytes = limits.unknown_bytes
        self._held_bytes = 0
        self._by_session: dict[str, list[tuple[list[v1.SessionUpdate], int]]] = {}

    def keep(self, session_id: str, updates: list[v1.SessionUpdate], share_bytes: int) -> None:
        """Keeps updates of `share_bytes` each until their session is opened, or until there are too many."""
        self._by_session.setdefault(session_id, []).append((updates, share_bytes))
        self._held_bytes += len(updates) * share_bytes
        while len(self._by_session) > self._max_sessions or (self._held_bytes > self._max_bytes and self._by_session):
            oldest = next(iter(self._by_session))
            lost = sum(len(updates) for updates, _ in self.take(oldest))
            _log.warning("dropped %d updates of session %r, which nobody opened", lost, oldest)

    def take(self, session_id: str) -> list[tuple[list[v1.SessionUpdate], int]]:
        """What came for this session, in order."""
        kept = self._by_session.pop(session_id, [])
        self._held_bytes -= sum(len(updates) * share_bytes for updates, share_bytes in kept)
        return kept
