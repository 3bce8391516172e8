"""Keeps what has arrived but is not consumed yet within bounds.

Owns the inboxes and the decision when reading pauses; does not know what an update is, nor how bytes are read.

Reading pauses only when it can help nobody: an inbox is over its mark, no other consumer waits for something, and
every answer a local task waits for is the very prompt whose updates are not being consumed. In all other cases
reading goes on, and the inbox of the stuck consumer is dropped once it holds too much.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from dragoman.errors import SlowConsumer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.rpc.limits import Limits

T = TypeVar("T")


class Inbox(Generic[T]):
    """What one consumer has not taken yet, in order. Iterate it; it ends when told to, after its last item.

    Items come in runs and are accounted for by the run: taking the next item of a run is a pop and nothing else.
    """

    __slots__ = ("_error", "_flow", "_is_ended", "_runs", "_taken", "_taken_bytes", "_waiter", "key", "size_bytes")

    def __init__(self, flow: Flow, key: object) -> None:
        self.key = key
        # Everything held, the run that is being taken included until its last item is out.
        self.size_bytes = 0
        self._flow = flow
        self._runs: deque[tuple[Sequence[T], int]] = deque()
        self._taken: list[T] = []  # the run that is being taken, last item first
        self._taken_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._is_ended = False
        self._error: BaseException | None = None

    def put(self, items: Sequence[T], share_bytes: int) -> None:
        """Takes items that arrived, `share_bytes` each; never blocks. An inbox that ended takes nothing more."""
        if self._is_ended:
            return
        size_bytes = len(items) * share_bytes
        self._runs.append((items, size_bytes))
        self.size_bytes = held = self.size_bytes + size_bytes
        if self._waiter is not None:
            self._wake()
        if held > self._flow.mark_bytes:
            self._flow.note_over(self)

    def end(self, error: BaseException | None = None) -> None:
        """No item follows. The consumer takes what is left, then stops, or gets `error` once."""
        if not self._is_ended:
            self._is_ended = True
            self._error = error
            self._wake()

    def drop(self, error: BaseException | None = None) -> None:
        """Forget everything and take nothing more: the consumer is gone, or gets `error` instead."""
        self._runs.clear()
        self._taken.clear()
        self.size_bytes = self._taken_bytes = 0
        self._is_ended = True
        self._error = error
        self._wake()
        self._flow.note_consumed(self)

    def __aiter__(self) -> Inbox[T]:
        return self

    async def __anext__(self) -> T:
        if not self._taken:
            await self._take_run()
        return self._taken.pop()

    async def _take_run(self) -> None:
        self.size_bytes -= self._taken_bytes
        self._taken_bytes = 0
        if self._flow.over and self.size_bytes <= self._flow.resume_bytes:
            self._flow.note_consumed(self)
        while not self._runs:
            if self._is_ended:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                raise StopAsyncIteration
            await self._wait()
        items, self._taken_bytes = self._runs.popleft()
        self._taken = list(reversed(items))

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("two tasks iterate one stream of updates; give each its own `session.updates()`")
        self._waiter = asyncio.get_running_loop().create_future()
        self._flow.note_waiting(self)
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._flow.waiting.discard(self)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Flow:
    """Decides, for one connection, whether to go on reading."""

    def __init__(self, limits: Limits, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self.mark_bytes = limits.in_mark_bytes
        self.resume_bytes = limits.in_resume_bytes
        self.over: set[Inbox[object]] = set()
        self.waiting: set[Inbox[object]] = set()
        self.is_paused = False
        self._limit_bytes = limits.in_limit_bytes
        self._pause = pause
        self._resume = resume
        # Answers that local tasks wait for: how many per lane. The lane of a prompt is its session, which is the
        # `key` of that session's inboxes; every other request has the lane None.
        self._awaited: dict[object, int] = {}

    def inbox(self, key: object) -> Inbox[T]:
        """A new inbox that belongs to `key`."""
        return Inbox(self, key)

    def note_over(self, inbox: Inbox[T]) -> None:
        if inbox.size_bytes > self._limit_bytes:
            inbox.drop(
                SlowConsumer(
                    f"{inbox.size_bytes} bytes of updates were not consumed while others had to be served; the queue "
                    "was dropped. Do slow work outside the loop over updates"
                )
            )
        else:
            self.over.add(inbox)  # type: ignore[arg-type]  # an inbox is only compared here, never filled
            self.decide()

    def note_consumed(self, inbox: Inbox[T]) -> None:
        if inbox in self.over:
            self.over.discard(inbox)
            self.decide()

    def note_waiting(self, inbox: Inbox[T]) -> None:
        self.waiting.add(inbox)  # type: ignore[arg-type]
        if self.is_paused:
            self.decide()

    def note_asked(self, lane: object) -> None:
        """A local task begins to wait for an answer."""
        self._awaited[lane] = self._awaited.get(lane, 0) + 1
        if self.is_paused:
            self.decide()

    def note_answered(self, lane: object) -> None:
        left = self._awaited.pop(lane) - 1
        if left:
            self._awaited[lane] = left
        elif self.over:
            self.decide()

    def decide(self) -> None:
        """Pause or resume as the rule in the module's docstring says."""
        should_pause = bool(self.over) and self._helps_nobody()
        if should_pause != self.is_paused:
            self.is_paused = should_pause
            (self._pause if should_pause else self._resume)()

    def _helps_nobody(self) -> bool:
        if not self.waiting <= self.over:
            return False
        stuck = {inbox.key for inbox in self.over}
        return all(lane in stuck for lane in self._awaited)
