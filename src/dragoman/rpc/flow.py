"""Flow control for input: what has arrived and is not consumed yet stays within bounds.

Owns the inboxes and the decision when reading pauses. Does not know what an update is, nor how bytes are read.

Theory of operation
-------------------
One connection carries many sessions, and everything that arrives passes through one stream in one order. A consumer
that is slow (a program that does not iterate its updates) must not make memory grow, so reading has to stop at some
point. But while reading is stopped, nothing arrives: no update for another session, no answer to a request, and not the
cancellation that would end the slow turn. So pausing at the wrong time is a deadlock, and never pausing is a leak.

*Inbox.* Each consumer (an iterator over a session's updates) has one `Inbox`. The role above the peer puts whole runs
of updates into it, synchronously, in arrival order. An inbox is *over* from the moment it holds more than
`in_mark_bytes` until its consumer has taken it down to `in_resume_bytes`. It is *waiting* while its consumer is
suspended in `__anext__`.

*Lane.* Each request that a local task waits for is counted under a lane. The lane of `session/prompt` and
`session/load` is the session, which is also the `key` of that session's inboxes; every other request has the lane None.
The answer to a prompt comes after its updates, so a task that does not take the updates and only waits for that answer
gains nothing from reading on.

*The decision* (`Flow.decide`). Reading pauses if and only if
  1. at least one inbox is over,
  2. every waiting inbox is itself over (no other consumer is suspended until something arrives), and
  3. every awaited answer belongs to the lane of an inbox that is over.
In all other cases reading goes on, because a task depends on it. An inbox that then passes `in_limit_bytes`, next to
one message of any permitted size, is dropped: its consumer gets `SlowConsumer` at its next step, while the session's
state, which is folded before an update is put into an inbox, stays complete.

*Turns.* A consumer whose inbox is not empty does not have to wait, so it could take hundreds of updates before anything
else runs: the task that wants to cancel the turn, for example. So it takes a few at a time, and in between gives the
loop a turn if anything other than the reader waits for one (`loop_queue.py`).

*Who calls.* `Inbox.put`, `drop` and `_take_part` report sizes (`note_over`, `note_consumed`); `_wait` reports a
suspended consumer (`note_waiting`); the peer reports requests (`note_asked`, `note_answered`). Each report can change
the decision in one direction only, so it calls `decide` only where that can matter. `decide` calls the transport's
`pause_reading` or `resume_reading`, and only on a change.

*Races.* All of it runs on the event loop and no method awaits between reading and changing a counter, so there are
none inside. What can happen in between is handled where it shows: a transport may deliver bytes that it read before the
pause, so `put` works while paused; a consumer may be cancelled in `_wait`, which removes it in its `finally`; an answer
may be abandoned before it arrives, and then the peer reports it as answered, once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from dragoman.errors import SlowConsumer
from dragoman.rpc.loop_queue import others_wait
from dragoman.rpc.transport import SizesBuffers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.rpc.limits import Limits
    from dragoman.rpc.transport import Transport

T = TypeVar("T")

# Items that a consumer takes before others get a turn. Looking for others costs a fraction of one item.
TURN_ITEMS: Final = 16


class Inbox(Generic[T]):
    """What one consumer has not taken yet, in order. Iterate it; after `end` it stops when its last item was taken.

    Items come in runs, are taken from them a few at a time, and are accounted for by these parts: taking the next item
    of a part is a pop and nothing else.
    """

    __slots__ = (
        "_at",
        "_error",
        "_flow",
        "_is_ended",
        "_runs",
        "_taken",
        "_taken_bytes",
        "_waiter",
        "key",
        "size_bytes",
    )

    def __init__(self, flow: Flow, key: object) -> None:
        self.key = key
        # Everything held, the part that is being taken included until its last item is out.
        self.size_bytes = 0
        self._flow = flow
        self._runs: deque[tuple[Sequence[T], int]] = deque()  # with the share of each item
        self._at = 0  # where the next part of the first run begins
        self._taken: list[T] = []  # the part that is being taken, last item first
        self._taken_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._is_ended = False
        self._error: BaseException | None = None

    def put(self, items: Sequence[T], share_bytes: int) -> None:
        """Take items that arrived, `share_bytes` each, without blocking. An inbox that ended takes nothing more."""
        if self._is_ended:
            return
        self._runs.append((items, share_bytes))
        self.size_bytes = held = self.size_bytes + len(items) * share_bytes
        if self._waiter is not None:
            self._wake()
        if held > self._flow.mark_bytes:
            self._flow.note_over(self)

    def end(self, error: BaseException | None = None) -> None:
        """End the inbox: no item follows. The consumer takes what is left, then stops, or gets `error` once."""
        if not self._is_ended:
            self._is_ended = True
            self._error = error
            self._wake()

    def drop(self, error: BaseException | None = None) -> None:
        """Discard everything and accept nothing more: the consumer is gone, or gets `error` instead."""
        self._runs.clear()
        self._taken.clear()
        self.size_bytes = self._taken_bytes = self._at = 0
        self._is_ended = True
        self._error = error
        self._wake()
        self._flow.note_consumed(self)

    def __len__(self) -> int:
        """Return how many items the consumer has not taken yet."""
        return len(self._taken) + sum(len(items) for items, _ in self._runs) - self._at

    def __aiter__(self) -> Inbox[T]:
        return self

    async def __anext__(self) -> T:
        if not self._taken:
            await self._take_part()
        return self._taken.pop()

    async def _take_part(self) -> None:
        self.size_bytes -= self._taken_bytes
        self._taken_bytes = 0
        if self._flow.over and self.size_bytes <= self._flow.resume_bytes:
            self._flow.note_consumed(self)
        if self._runs and self._flow.others_wait():
            await asyncio.sleep(0)
        while not self._runs:
            if self._is_ended:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                raise StopAsyncIteration
            await self._wait()
        items, share_bytes = self._runs[0]
        start, end = self._at, self._at + TURN_ITEMS
        if end < len(items):
            self._at = end
        else:
            self._at = 0
            self._runs.popleft()
        self._taken = list(items[start:end])
        self._taken.reverse()
        self._taken_bytes = len(self._taken) * share_bytes

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("two tasks iterate one stream of updates; give each its own `session.updates()`")
        self._waiter = self._flow.loop.create_future()
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
    """The decision, for one connection, whether to go on reading."""

    def __init__(self, limits: Limits, transport: Transport) -> None:
        self.mark_bytes = limits.in_mark_bytes
        self.resume_bytes = limits.in_resume_bytes
        self.over: set[Inbox[object]] = set()
        self.waiting: set[Inbox[object]] = set()
        self.is_paused = False
        self._limit_bytes = limits.message_bytes + limits.in_limit_bytes
        self._transport = transport
        self.loop = asyncio.get_running_loop()
        self._others_wait = others_wait(self.loop)
        self._sized = transport if isinstance(transport, SizesBuffers) else None
        self._streams = 0  # lanes of sessions, below
        # How many answers local tasks wait for, per lane.
        self._awaited: dict[object, int] = {}

    def inbox(self, key: object) -> Inbox[T]:
        """Return a new inbox that belongs to `key`."""
        return Inbox(self, key)

    def others_wait(self) -> bool:
        """Whether anything on the loop waits for its turn, the reader of this connection aside."""
        return self._others_wait(self._transport)

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
        """Take note that a local task begins to wait for an answer."""
        waiting = self._awaited.get(lane, 0)
        self._awaited[lane] = waiting + 1
        if not waiting and lane is not None:
            self._count_stream(1)
        if self.is_paused:
            self.decide()

    def note_answered(self, lane: object) -> None:
        left = self._awaited.pop(lane) - 1
        if left:
            self._awaited[lane] = left
            return
        if lane is not None:
            self._count_stream(-1)
        if self.over:
            self.decide()

    def _count_stream(self, step: int) -> None:
        self._streams += step
        if self._sized is not None:
            self._sized.note_streams(self._streams)

    def decide(self) -> None:
        """Pause or resume, as the module's docstring says."""
        should_pause = bool(self.over) and self._is_useless_to_read()
        if should_pause != self.is_paused:
            self.is_paused = should_pause
            if should_pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _is_useless_to_read(self) -> bool:
        """Judge conditions 2 and 3: no local task depends on anything that has still to arrive."""
        if not self.waiting <= self.over:
            return False
        stuck = {inbox.key for inbox in self.over}
        return all(lane in stuck for lane in self._awaited)
