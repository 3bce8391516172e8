"""How many agents run at once: of each user, and of the host.

Theory of operation
-------------------
A place is taken before the process is started, in the step that finds it free, and given back when the process has
ended, whatever became of it. Who needs one and finds none ends the agent that was idle for longest first: it is started
again by the next prompt of its session. Of a user who has all places that the user may have, another start is refused.
If the places of the host are used up, a turn waits for as long as it takes, until it is cancelled, and a new session
for half a minute. Those who wait are served in the order in which they came.

A process that is about to end keeps its place until it is gone. So places can be more than the agents of sessions, and
never fewer.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final

from dragoman.errors import RequestError
from dragoman.host.working.prompts import WAITED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.host.host import Host
    from dragoman.host.quotas import Quotas
    from dragoman.host.session import HostedSession

_NEW_SECONDS: Final = 30.0
_ENDING_SECONDS: Final = 30.0
# An agent may forget a session that had no prompt yet, so it is not ended while its first prompt may be on the way.
_EMPTY_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 1.0


class _Ticket:
    """One that waits for a place."""

    def __init__(self, user: str, session: HostedSession | None) -> None:
        self.user = user
        self.session = session
        self.is_given_up = False
        self.changed = asyncio.Event()


class AgentPlaces:
    """The places for agents of a host."""

    def __init__(self, host: Host, quotas: Quotas, most: int | None) -> None:
        self.most = most
        """How many there are; None for no limit."""
        self._host = host
        self._quotas = quotas
        self._held: dict[object, str] = {}
        """The user of each place, by what runs there."""
        self._ending: set[object] = set()
        self._queue: list[_Ticket] = []

    @property
    def running(self) -> int:
        """How many agents run, or are being started or ended."""
        return len(self._held)

    @property
    def waiting(self) -> int:
        """How many starts wait for a place."""
        return len(self._queue)

    def count(self, user: str) -> int:
        """Return how many agents of a user run."""
        return sum(owner == user for owner in self._held.values())

    @asynccontextmanager
    async def short(self, user: str) -> AsyncIterator[None]:
        """Hold a place for an agent without a session; the user is empty for one that the host itself needs.

        Raises:
            RequestError: there is none.
        """
        key = object()
        await self.take(key, user, None)
        try:
            yield
        finally:
            self.release(key)

    async def take(self, key: object, user: str, session: HostedSession | None) -> None:
        """Take a place for an agent that is about to be started.

        Args:
            key: What gives it back.
            user: Whose agent it is.
            session: Which it is for, if it is for one.

        Raises:
            RequestError: the user has too many agents, or there was no place in time, or what waited was cancelled.
        """
        ticket = _Ticket(user, session)
        self._queue.append(ticket)
        prompt = None if session is None else session.prompts.running
        until = monotonic() + _NEW_SECONDS if prompt is None else None
        is_noted = False
        try:
            while not self._take_now(ticket, key, user):
                # The cancel may have come before there was a ticket.
                if ticket.is_given_up or (prompt is not None and prompt.is_cancelled):
                    raise RequestError(-32603, "it was cancelled while it waited for an agent", {"reason": WAITED})
                if self._has_most(user):
                    await self._make_own_room(ticket, user)
                    continue
                if await self._end_idle(None, session):
                    continue
                if until is not None and monotonic() >= until:
                    raise self._full()
                if prompt is not None and session is not None and not is_noted:
                    is_noted = True
                    session.notice(f"This turn waits for an agent: {self.running} of {self.most} run.", "waits")
                await self._wait(ticket, until)
        finally:
            self._queue.remove(ticket)
            self.look()

    def _take_now(self, ticket: _Ticket, key: object, user: str) -> bool:
        if ticket.is_given_up or self._has_most(user):
            return False
        if self.most is not None:
            # Those in front who cannot start anyway, because their user has too many agents, hold up no other.
            before = self._queue[: self._queue.index(ticket)]
            if sum(not self._has_most(other.user) for other in before) >= self.most - len(self._held):
                return False
        self._held[key] = user
        return True

    def _has_most(self, user: str) -> bool:
        most = self._quotas.of(user).agents if user else None
        return most is not None and self.count(user) >= most

    async def _make_own_room(self, ticket: _Ticket, user: str) -> None:
        """End an idle agent of the user, or wait for one that is ending. Raises: RequestError if there is none."""
        if await self._end_idle(user, ticket.session):
            return
        if any(owner == user and key in self._ending for key, owner in self._held.items()):
            await self._wait(ticket, monotonic() + _ENDING_SECONDS)
            return
        from dragoman.host.quotas import refusal

        raise refusal(user, "agents", self._quotas.of(user).agents or 0, self.count(user))

    async def _end_idle(self, user: str | None, besides: HostedSession | None) -> bool:
        """End the agent that was idle for longest, of a user or of any; False if there is none."""
        now = monotonic()
        found = [
            session
            for session in self._host.live_sessions()
            if session is not besides
            and session.agent.is_running
            and not session.is_busy
            and not session.is_ending
            and user in (None, session.record.principal)
            and self._host.can_be_ended(session)
            and (session.prompts.turn_number or now - session.last_used > _EMPTY_SECONDS)
        ]
        if not found:
            return False
        chosen = min(found, key=lambda session: (bool(session.attachments), session.last_used))
        # Shielded: who waits for the place may go away, and a process must not be left in the middle of its end.
        await asyncio.shield(self._host.run(chosen.agent.end()))
        return True

    async def _wait(self, ticket: _Ticket, until: float | None) -> None:
        """Wait for a change. Not every agent that becomes idle is reported, so it is looked once in a while too."""
        ticket.changed.clear()
        seconds = _LOOK_SECONDS if until is None else min(_LOOK_SECONDS, max(0.0, until - monotonic()))
        try:
            async with asyncio.timeout(seconds):
                await ticket.changed.wait()
        except TimeoutError:
            return

    def _full(self) -> RequestError:
        text = f"all {self.most} agents that this host runs at once are at work; try again later"
        return RequestError(-32603, text, {"reason": WAITED, "value": self.most, "used": self.running})

    def give_up(self, session: HostedSession) -> None:
        """Let the turn of a session wait no more: it was cancelled."""
        for ticket in self._queue:
            if ticket.session is session:
                ticket.is_given_up = True
                ticket.changed.set()

    def note_ending(self, key: object) -> None:
        """Note that an agent is about to end."""
        if key in self._held:
            self._ending.add(key)

    def release(self, key: object) -> None:
        """Give a place back, once the process is gone."""
        self._ending.discard(key)
        if self._held.pop(key, None) is not None:
            self.look()

    def look(self) -> None:
        """Let those who wait look again: a place is free, or an agent is idle."""
        for ticket in self._queue:
            ticket.changed.set()
