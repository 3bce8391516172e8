"""The outgoing side of a connection: one order, few writes, bounded memory.

Owns the buffer between the senders and the transport. Urgent frames (requests, answers) leave at once together with
everything before them; streamed ones are collected for one turn of the loop. Does not know what a frame contains.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.rpc.limits import Limits
    from dragoman.rpc.observer import Observers
    from dragoman.rpc.transport import Transport


# What each of many senders may send in its turn: fewer would cost more for the turn than for the messages. A hundred
# senders delay the reader by a millisecond with this.
_LEAST_SHARE: Final = 8


class _DueFlushes:
    """The outboxes of one loop that are flushed in its next turn: one step of the loop for all of them.

    A host writes to hundreds of connections in a turn, and a step of its own for each costs as much as the flush.
    """

    __slots__ = ("_outboxes",)

    def __init__(self) -> None:
        self._outboxes: list[Outbox] = []

    def add(self, outbox: Outbox, loop: asyncio.AbstractEventLoop) -> None:
        if not self._outboxes:
            loop.call_soon(self._flush)
        self._outboxes.append(outbox)

    def _flush(self) -> None:
        # Emptied first: what is sent while these are flushed is due in a turn of its own.
        outboxes, self._outboxes = self._outboxes, []
        for outbox in outboxes:
            try:
                outbox.flush_due()
            except Exception as error:  # of one transport: the others have frames to send as well
                context = {"message": "an outbox was not flushed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)


# None of them refers to its loop, which would live forever then.
_due_flushes: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _DueFlushes]] = WeakKeyDictionary()


class Outbox:
    """The buffer that every outgoing frame of a connection passes through."""

    def __init__(
        self, transport: Transport, limits: Limits, observers: Observers, give_up: Callable[[str], None]
    ) -> None:
        self._transport = transport
        self._limits = limits
        self._observers = observers
        self._is_observed = bool(observers)
        self._give_up = give_up
        self._loop = asyncio.get_running_loop()
        self._due = _due_flushes.setdefault(self._loop, _DueFlushes())
        self._frames: list[bytes] = []
        self._held_bytes = 0
        self._mark_bytes = limits.out_mark_bytes
        self._batch_bytes = limits.out_batch_bytes
        self._is_corked = False
        self._is_flush_due = False
        self._is_closed = False
        self._rooms: list[asyncio.Future[None]] = []
        self._breathing = 0
        self._budget = limits.quantum
        self._deadline = 0.0
        self._written_bytes = 0
        self._stall_timer: asyncio.TimerHandle | None = None
        self._stall_seen_bytes = 0

    def reroute(self, transport: Transport) -> None:
        """Write to another transport from here on; what was sent before goes to the earlier one."""
        self.flush()
        self._transport = transport

    @property
    def is_full(self) -> bool:
        """Whether a sender should wait before it adds more; what is collected for this turn does not count."""
        return self._transport.unsent_bytes > self._mark_bytes

    def post(self, frame: bytes) -> bool:
        """Add a streamed frame; it leaves within this turn of the loop. True: call `breathe` before the next one."""
        self._frames.append(frame)
        self._held_bytes += len(frame)
        self._budget -= 1
        if self._is_observed:
            self._observers.sent(frame[:-1])
        if self._held_bytes > self._batch_bytes:
            self.flush()
        elif not self._is_flush_due:
            self._is_flush_due = True
            self._due.add(self, self._loop)
        return self._budget <= 0 or self._transport.unsent_bytes > 0 or monotonic() > self._deadline

    def send(self, frame: bytes) -> None:
        """Add an urgent frame and write everything up to it, unless a batch of input is being handled."""
        self._frames.append(frame)
        self._held_bytes += len(frame)
        if self._is_observed:
            self._observers.sent(frame[:-1])
        if not self._is_corked:
            self.flush()

    def cork(self) -> None:
        """Collect what is sent until `uncork`: answers to one batch of input leave in one write."""
        self._is_corked = True

    def loosen(self) -> None:
        """Let the last answer to the batch leave as soon as it is there, with what was collected."""
        self._is_corked = False

    def uncork(self) -> None:
        self._is_corked = False
        if self._frames:
            self.flush()

    async def breathe(self) -> None:
        """Give the reader and the other senders a turn, and wait while the peer does not read."""
        if self._transport.unsent_bytes:
            while self.is_full and not self._is_closed:
                await self.room()
        self._breathing += 1
        try:
            await asyncio.sleep(0)
            # Senders that breathe in the same turn share one quantum, so that many of them delay the reader not much
            # longer than one does, and none gets ahead of the others.
            self._budget = max(self._limits.quantum // self._breathing, _LEAST_SHARE)
        finally:
            self._breathing -= 1
        self._deadline = monotonic() + self._limits.slice_seconds

    async def room(self) -> None:
        """Wait until the peer has read enough for the next sender."""
        self.flush()
        if self.is_full and not self._is_closed:
            room = self._loop.create_future()
            self._rooms.append(room)
            try:
                await room
            finally:
                # `drained` takes the whole list, so only a sender that was cancelled is still in it.
                if room in self._rooms:
                    self._rooms.remove(room)

    def flush(self) -> None:
        """Write everything that is held to the transport."""
        frames = self._frames
        if not frames:
            return
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        frames.clear()
        self._held_bytes = 0
        self._written_bytes += len(data)
        self._transport.write(data)
        unsent = self._transport.unsent_bytes
        if unsent and self._stall_timer is None:
            self._watch_for_stall()
        if unsent > self._limits.out_limit_bytes:
            # At every further write too, until the end comes in a later turn; the first reason counts.
            self._give_up(f"the peer does not read: {unsent} bytes of output are waiting")

    def flush_due(self) -> None:
        """Write what was collected for a turn of the loop."""
        self._is_flush_due = False
        if self._frames:
            self.flush()

    def drained(self) -> None:
        """Take note that the transport has room again."""
        rooms, self._rooms = self._rooms, []
        for room in rooms:
            if not room.done():
                room.set_result(None)

    def close(self) -> None:
        """Flush, and wake every sender that waits for room."""
        if not self._is_closed:
            self._is_closed = True
            self.flush()
            if self._stall_timer is not None:
                self._stall_timer.cancel()
            self.drained()

    def _watch_for_stall(self) -> None:
        self._stall_seen_bytes = self._written_bytes - self._transport.unsent_bytes
        self._stall_timer = self._loop.call_later(self._limits.out_stall_seconds, self._judge_stall)

    def _judge_stall(self) -> None:
        self._stall_timer = None
        # By what the peer has taken, not by what waits: a sender that goes on writing must not hide a peer that stands.
        unsent = self._transport.unsent_bytes
        if self._is_closed or not unsent:
            return
        if self._written_bytes - unsent == self._stall_seen_bytes:
            self._give_up(f"the peer read nothing for {self._limits.out_stall_seconds:g} seconds")
        else:
            self._watch_for_stall()
