"""One prompt, its updates and its result, as the calling program uses them.

Owns when a prompt is sent, where its updates are queued and what leaving early means. Does not know how frames travel.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.errors import LocalProtocolError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from dragoman.client.session_link import SessionLink
    from dragoman.rpc import Inbox

# A cancelled agent is given this long to answer before the caller goes on without it. Real agents need up to a
# second; one that ignores cancel would otherwise hold its client for as long as the turn lasts.
CANCEL_GRACE_SECONDS = 10.0


class RunningTurn:
    """The part of a turn that lives until its response, even if the program has dropped its `PromptTurn`."""

    __slots__ = ("_waiters", "error", "inbox", "is_cancelling", "is_done", "response")

    def __init__(self) -> None:
        self.inbox: Inbox[v1.SessionUpdate] | None = None
        self.is_cancelling = False
        self.response: v1.PromptResponse | None = None
        self.error: Exception | None = None
        self.is_done = False
        # One future per waiter: a shared one behind a shield would cost another iteration of the event loop.
        self._waiters: list[asyncio.Future[None]] = []

    def settle(self, response: v1.PromptResponse | None, error: Exception | None) -> None:
        """Set the response or the error. Every update before it has been delivered."""
        self.response = response
        self.error = error
        if self.inbox is not None:
            self.inbox.end(error)
        self.is_done = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, loop: asyncio.AbstractEventLoop) -> None:
        """Return when the response has arrived; cancelling the wait does not change the turn."""
        if not self.is_done:
            waiter = loop.create_future()  # (asking for the running loop is a system call on 3.11)
            self._waiters.append(waiter)
            await waiter


class PromptTurn:
    """A prompt: iterate it for its updates, await it for its result, or use it as a context manager.

    It is sent at the first of these, once a cancelled turn before it is over. The iteration ends exactly after the
    turn's last update and raises what the prompt failed with. Leaving the context manager, or being cancelled while
    awaiting, before the turn has ended cancels it and waits, for a limited time, for the agent's response. A turn whose
    last reference is dropped goes on and only changes `session.state`.
    """

    def __init__(
        self, link: SessionLink, prompt: Sequence[v1.ContentBlock], meta: Mapping[str, Any] | None = None
    ) -> None:
        self._link = link
        self._prompt = prompt
        self._meta = meta
        self._running: RunningTurn | None = None

    @property
    def result(self) -> v1.PromptResponse:
        """The agent's response, once the turn is over.

        Raises: LocalProtocolError before that; what the prompt failed with, if it did.
        """
        running = self._running
        if running is None or not running.is_done:
            raise LocalProtocolError("the turn is not over yet; await it, or iterate it to its end")
        if running.error is not None:
            raise running.error
        assert running.response is not None
        return running.response

    @property
    def unread(self) -> int:
        """How many updates have arrived that the iteration has not taken yet."""
        inbox = None if self._running is None else self._running.inbox
        return 0 if inbox is None else len(inbox)

    async def cancel(self) -> None:
        """Ask the agent to stop; the turn then ends with the stop reason `cancelled`.

        A prompt that was not sent yet is never sent; one whose response has already arrived keeps it.
        """
        if self._running is None:
            self._running = RunningTurn()
            self._running.settle(v1.PromptResponse("cancelled"), None)
        elif not self._running.is_done:
            await self._link.cancel_turn(self._running)

    def __await__(self) -> Generator[object, None, v1.PromptResponse]:
        return self._finish().__await__()

    def __aiter__(self) -> PromptTurn:
        return self

    def __anext__(self) -> Coroutine[Any, Any, v1.SessionUpdate]:
        running = self._running
        if running is None:
            if self._link.turn is not None or self._link.connection.changes is not None:
                return self._first()
            running = self._start()
        inbox = running.inbox
        if inbox is None:
            # It was awaited first and is iterated now: from here on it has a reader, or nothing is left to read.
            inbox = running.inbox = self._link.new_inbox()
            if running.is_done:
                inbox.end()
        return inbox.__anext__()

    async def __aenter__(self) -> PromptTurn:
        await self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    def __del__(self) -> None:
        running = self._running
        if running is not None and running.inbox is not None:
            running.inbox.drop()
            running.inbox = None

    def _start(self, *, has_reader: bool = True) -> RunningTurn:
        self._running = running = self._link.start_turn(self._prompt, has_reader=has_reader, meta=self._meta)
        return running

    async def _begin(self, *, has_reader: bool = True) -> RunningTurn:
        if self._running is None and self._link.turn is not None:
            await self._link.wait_settled()
        changes = self._link.connection.changes
        if changes is not None and self._running is None and self._link.turn is None:
            await changes.begin_turn(self._link.session)
        return self._running or self._start(has_reader=has_reader)

    async def _first(self) -> v1.SessionUpdate:
        await self._begin()
        return await self.__anext__()

    async def _finish(self) -> v1.PromptResponse:
        running = await self._begin(has_reader=False)
        try:
            await running.wait(self._link.loop)
        except asyncio.CancelledError:
            await self._leave()
            raise
        return self.result

    async def _leave(self) -> None:
        running = self._running
        if running is None or running.is_done:
            return
        if running.inbox is not None:
            running.inbox.drop()
            running.inbox = None
        await self._link.cancel_turn(running)
        try:
            async with asyncio.timeout(CANCEL_GRACE_SECONDS):
                await running.wait(self._link.loop)
        except TimeoutError:
            pass
