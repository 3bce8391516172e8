"""The chunks of a running turn: folded into a message, stored, then shown.

Owns that order. What was shown survives a crash of this program; a source that keeps its own sessions has no store, and
its chunks are only folded and shown. A stream that rests for a moment shows that the calls it announced are running.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from dragoman.adapters.shown import projector_for, show_updates
from dragoman.errors import StoreError
from dragoman.uistream import chunks as c
from dragoman.uistream.fold import Reducer
from dragoman.uistream.join import joined
from dragoman.uistream.messages import UIMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.agent import Turn
    from dragoman.store.sessions import Store
    from dragoman.uistream.messages import ToolPart

_WAITING: Final = 256  # chunks that may wait to be stored before the source has to wait
# How long a stream rests before the calls that it announced are taken to run. A question about a call follows its
# arguments within a millisecond in all recordings.
REST_SECONDS: Final = 0.15


class ChunkLog:
    """The chunks of one turn."""

    def __init__(self, turn: Turn, message_id: str, store: Store | None) -> None:
        self.message = UIMessage(message_id, "assistant", [])
        self.projector = projector_for(turn.session.client)
        self.unknown_types: set[str] = set()
        """Types of chunks that this version does not know."""
        self._turn = turn
        self._store = store
        self._reducer = Reducer(self.message, is_tolerant=True)
        self._stored = 0
        self._waiting: list[c.Chunk] = []
        self._is_closed = False
        self._wake = asyncio.Event()
        self._done = asyncio.Event()
        self._failure: Exception | None = None

    @property
    def open_questions(self) -> tuple[c.ToolApprovalRequest, ...]:
        """Permission questions without an answer. Complete after `settle`."""
        return self.projector.open_questions

    @property
    def open_tools(self) -> tuple[ToolPart, ...]:
        """Tool calls without an outcome."""
        return self._reducer.open_tools

    async def emit(self, chunk: c.Chunk) -> None:
        """Add a chunk; waits while the store or the client does not keep up. Raises: StoreError, ConnectionClosed."""
        if self._is_closed:
            return  # from a source that ignored its cancellation; the turn is over
        if isinstance(chunk, c.OtherChunk):
            self.unknown_types.add(chunk.type)
        self._reducer.feed(chunk)
        self._waiting.append(chunk)
        self._wake.set()
        await self._wait_until_fewer_than(_WAITING)

    async def settle(self) -> None:
        """Return when everything emitted so far was stored and shown. Raises: StoreError, ConnectionClosed."""
        await self._wait_until_fewer_than(1)

    def close(self, why: str | None) -> None:
        """Accept no more chunks.

        Args:
            why: ends what is still open, and aborts the turn with this reason; None if the turn ended by itself.
        """
        if self._is_closed:
            return
        if why is not None:
            self._waiting += self._reducer.close(why)
            self._waiting.append(c.Abort(why))
        else:
            self._waiting += self._reducer.close("the source ended without the outcome of this call")
        self._wake.set()
        assert self._reducer.message is self.message  # reading it completes its text
        self._is_closed = True

    async def write(self) -> None:
        """Store and show chunks until cancelled."""
        while True:
            await self._next()
            self._wake.clear()
            count = len(self._waiting)
            batch = joined(self._waiting)
            try:
                await self._store_chunks(batch)
            except StoreError as error:
                self._failure = error
                self._done.set()
                return
            try:
                await self._show(batch)
            except Exception as error:  # the connection is gone; what was stored stays
                self._failure = error
                self._done.set()
                return
            del self._waiting[:count]
            if self._waiting:
                self._wake.set()
            self._done.set()

    async def _next(self) -> None:
        """Wait for chunks. If none come for a moment, show that the announced calls run."""
        if not self._wake.is_set():
            try:
                async with asyncio.timeout(REST_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                await self._show_settled()
        await self._wake.wait()

    async def _show_settled(self) -> None:
        try:
            await show_updates(self._turn.session, self.projector.settle(), self._turn)
        except Exception as error:
            self._failure = error

    async def _store_chunks(self, batch: Sequence[c.Chunk]) -> None:
        if self._store is None:
            return
        await self._store.append_log(self.message.id, self._stored, [c.encode_chunk(chunk) for chunk in batch])
        self._stored += len(batch)

    async def _show(self, batch: Sequence[c.Chunk]) -> None:
        for chunk in batch:
            await show_updates(self._turn.session, self.projector.project(chunk), self._turn)

    async def _wait_until_fewer_than(self, count: int) -> None:
        while len(self._waiting) >= count and self._failure is None:
            self._done.clear()
            await self._done.wait()
        if self._failure is not None:
            raise self._failure
