"""Sessions that are being opened: each once, and no more than their user may have.

A client that repeats the request sends the same key (`_meta.dragoman.key`). The key is a fact of the session, so that
it is found after a restart of the host too; one that is just being opened is waited for.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from dragoman.errors import RequestError
from dragoman.host.history.facts import session_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.host.host import Host, Visitor
    from dragoman.host.session import HostedSession

FACT: Final = "key"
_LONGEST: Final = 128


class OpeningKeys:
    """The requests of a host that open a session just now, by principal and key."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.room = OpeningRoom(host)
        self._opening: dict[tuple[str, str], asyncio.Event] = {}

    @asynccontextmanager
    async def opening(self, visitor: Visitor, key: str | None) -> AsyncIterator[HostedSession | None]:
        """Yield the session that an earlier request with this key opened; None: the caller opens one in the block."""
        if key is None:
            yield None
            return
        place = (visitor.principal, key)
        while (running := self._opening.get(place)) is not None:
            await running.wait()
        over = self._opening[place] = asyncio.Event()
        try:
            yield await self._find(visitor, key)
        finally:
            del self._opening[place]
            over.set()

    async def _find(self, visitor: Visitor, key: str) -> HostedSession | None:
        for record in await self._host.log.find_keyed(visitor.principal, session_key(FACT, key)):
            return await self._host.find(record.id, visitor)
        return None


class OpeningRoom:
    """The sessions of a host that are being opened: they count among those of their user before they are in the log."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._opening: dict[str, set[str]] = {}
        """Their ids, by user."""
        self._over = 0

    @asynccontextmanager
    async def held(self, user: str, id: str) -> AsyncIterator[None]:
        """Let a session of a user be opened in this block, if there is room for one more. Raises: RequestError."""
        await self._find(user)
        opening = self._opening.setdefault(user, set())
        opening.add(id)  # in the step in which there was room
        try:
            yield
        finally:
            self._over += 1
            opening.discard(id)
            if not opening:
                self._opening.pop(user, None)

    async def _find(self, user: str) -> None:
        """Return if a user may have one more session. Raises: RequestError."""
        host = self._host
        if host.quotas is not None:
            host.quotas.require_spending(user)
        while True:
            most = host.settings.sessions_per_principal if host.quotas is None else host.quotas.of(user).sessions
            if most is None:
                return
            before = self._over
            kept = {record.id for record in (await host.log.page(user, limit=max(1, most))).records}
            # One that was opened while the log was read may be neither there nor among those that are being opened.
            if self._over != before:
                continue
            used = len(kept | self._opening.get(user, set()))
            if used < most:
                return
            from dragoman.host.quotas import refusal
            from dragoman.host.retention import remove_one

            if most <= 0 or not await remove_one(host, user, self._opening.get(user, set())):
                raise refusal(user, "sessions", most, used)


def read_key(found: object) -> str | None:
    """Read the key of a request. Raises: RequestError."""
    if found is None:
        return None
    if not isinstance(found, str) or not 0 < len(found) <= _LONGEST:
        raise RequestError.invalid_params(
            f"a key is a text of up to {_LONGEST} characters", path="$._meta.dragoman.key"
        )
    return found
