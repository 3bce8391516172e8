"""One session's end of the event log.

Theory of operation
-------------------
*Writing.* `append`, `accept` and `describe` pass on what happens in the order of the calls; the log collects what one
turn of the loop appends, commits it in a thread, and calls `_committed` here. That keeps the events as the tail, moves
the head, and then publishes them: no client is shown what a kill could still undo. `describe` is called often in one
turn: the record is made once, at its end, and never stands in the log before the events that it speaks of.

*Reading.* A client that keeps up is served from the tail, without waiting: `tail` and `shared_run` are plain calls. One
that is behind the tail reads pages with `read`, in a task of its own, and asks `tail` again after each page. The answer
and its next step are one step of the loop, so that no commit can come in between: it joins without a gap and without a
repetition. The tail is cut as a whole when it is too long; a client in its middle is behind from then on.

*States.* A session that is being opened has no owner yet: what is appended waits, and goes first once `own` was called.
An owner that is lost (`OwnedSession.lost`) calls back no more, so that nothing is published after it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from dragoman.host.history.frames import SharedRun, UpdateFrames
from dragoman.host.history.joined_text import TEXT_STARTS, TextJoiner
from dragoman.store.event_log import Already, Hole, LogEvent, lost_events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.host.quotas import Meter
    from dragoman.store.event_log import Accepted, EventLog, NewEvent, OwnedSession, SessionRecord

_log = logging.getLogger("dragoman.host")
_PAGE: Final = 256
# What a client whose socket was full for a moment needs again; more is read from the log.
_TAIL: Final = 1024
_TAIL_BYTES: Final = 1024 * 1024


class SessionLog:
    """The events and the record of one session."""

    def __init__(
        self,
        log: EventLog,
        record: SessionRecord,
        published: Callable[[list[LogEvent]], None],
        described: Callable[[SessionRecord], SessionRecord],
    ) -> None:
        """Begin without an owner.

        Args:
            log: Where events are kept.
            record: Of the session, as it is in the log or will be entered there.
            published: Called with events that are committed.
            described: Puts into the record what the session wants to keep.
        """
        self.record = record
        self.head = record.head
        self.oldest = record.oldest
        self.published_bytes = 0
        """How much was committed since this session was loaded into memory; clients measure by it how far they are."""
        self.meter: Meter | None = None
        """What counts the bytes of the session's user."""
        self.filled: Callable[[], None] = lambda: None
        """Called when these have come to their limit."""
        self._log = log
        self._published = published
        self._described = described
        # One object for all writes, so that those of one batch are found to have the same callback by a look at it.
        self._report = self._committed
        self._owned: OwnedSession | None = None
        self._early: list[NewEvent] = []
        self._is_description_due = False
        self._id = msgspec.json.encode(record.id)
        self._frame = UpdateFrames(self._id).frame
        self._tail: list[LogEvent] = []
        self._tail_bytes = 0
        self._fresh = 0
        self._runs: dict[tuple[int, bool, bool], SharedRun] = {}
        self.is_joined = False
        """Whether a client takes text joined: then it is noted where the text at the end of the log begins."""
        self._text_after = record.head

    # Writing

    def own(self, owned: OwnedSession) -> None:
        """Write from here on, beginning with what was appended while the session was opened."""
        self._owned = owned
        self.record, self.head = owned.record, owned.head
        early, self._early = self._early, []
        if early:
            owned.append(early, self._report)

    def append(self, event: NewEvent) -> None:
        """Log an event; it is published when it is committed."""
        if self._owned is None:
            self._early.append(event)
        else:
            self._owned.append((event,), self._report)

    def accept(
        self, prompt_id: str, event: NewEvent, accepted: Callable[[int], None], already: Callable[[int], None]
    ) -> None:
        """Log a prompt, once in the life of the session.

        Args:
            prompt_id: What makes it the same prompt.
            event: Of the prompt.
            accepted: Called with its number, after it was published.
            already: Called with the number of the prompt that had this id before.
        """

        def done(found: Accepted | Already) -> None:
            if isinstance(found, Already):
                already(found.number)
            else:
                self._committed(found.events)
                accepted(found.events[-1].number)

        assert self._owned is not None, "a prompt comes after the session was opened"
        self._owned.accept(prompt_id, [event], done)

    def describe(self) -> None:
        """Keep what the session wants to keep, at the end of this turn of the loop."""
        if not self._is_description_due and self._owned is not None:
            self._is_description_due = True
            asyncio.get_running_loop().call_soon(self._describe)

    def _describe(self) -> None:
        if self._is_description_due and self._owned is not None:
            self._is_description_due = False
            self.record = self._described(self.record)
            self._owned.describe(self.record)

    async def settle(self) -> None:
        """Return when everything is in the log."""
        self._describe()
        if self._owned is not None:
            await self._owned.settle()

    async def replace(self, through: int, events: list[LogEvent]) -> None:
        """Put joined events in the place of old ones."""
        if self._owned is not None:
            await self._owned.replace(through, events)
            self.oldest = through + 1

    async def release(self) -> None:
        """Give the session up, after what waits."""
        await self.settle()
        owned, self._owned = self._owned, None
        if owned is not None:
            await owned.release()

    def _committed(self, events: list[LogEvent]) -> None:
        size = sum([len(event.body) for event in events])
        first = events[0].number
        self.published_bytes += size
        self._tail_bytes += size
        # A gap: the session was written by another owner while this one was away.
        if first != self.head + 1 or len(self._tail) > _TAIL or self._tail_bytes > _TAIL_BYTES:
            self._tail, self._tail_bytes = [], size
        self._tail += events
        self.head = events[-1].number
        self._fresh = first - 1
        if self._runs:
            self._runs.clear()
        self._text_after = max(self._text_after, _before_text(events)) if self.is_joined else self.head
        self._published(events)
        if self.meter is not None:
            self.meter.stored_bytes += size
            if self.meter.stored_bytes > self.meter.most_stored:
                self.filled()

    # Reading

    @property
    def tail_events(self) -> Sequence[LogEvent]:
        """The last events, as far as they are in memory."""
        return self._tail

    def tail(self, after: int) -> list[LogEvent] | None:
        """Return the events behind a number, from memory; None if they have to be read."""
        tail = self._tail
        if tail and tail[0].number <= after + 1:
            return tail[after + 1 - tail[0].number :]
        return [] if after >= self.head else None

    async def read(self, after: int, limit: int = _PAGE) -> list[LogEvent]:
        """Read a page of events behind a number; in the place of events that are lost there is a notice.

        Raises:
            StoreError: the log cannot be read.
        """
        return await read_page(self._log, self.record.id, after, limit, head=self.head)

    def shared_run(self, cursor: int, *, with_number: bool, is_joined: bool = False) -> SharedRun | None:
        """Return the updates behind a number that every client gets as they are, as one piece of bytes for all.

        None if the next event is not such an update, or was not in the last commit: what clients that take text joined
        have waited for may be older, and they have waited together.
        """
        if cursor < self._fresh and not is_joined:
            return None
        run = self._runs.get((cursor, with_number, is_joined))
        if run is None:
            frames: list[bytes] = []
            last = cursor
            joiner = TextJoiner(self._id) if is_joined else None
            for event in self.tail(cursor) or ():
                if joiner is None or not joiner.take(event, frames):
                    frame = self.shared_frame(event, with_number=with_number)
                    if frame is None:
                        break
                    frames.append(frame)
                last = event.number
            if joiner is not None:
                joiner.flush(frames)
            if frames:
                run = self._runs[cursor, with_number, is_joined] = SharedRun(last, b"".join(frames))
        return run

    def ends_in_text(self, cursor: int) -> bool:
        """Whether only text follows a number, to which the next commit may add."""
        return self._text_after <= cursor < self.head

    def is_in_tail(self, cursor: int) -> bool:
        """Whether what follows a number is in memory."""
        return cursor >= self.head or (bool(self._tail) and self._tail[0].number <= cursor + 1)

    def shared_frame(self, event: LogEvent, *, with_number: bool) -> bytes | None:
        """Return the message for an update that every client gets as it is; None for another event."""
        return self._frame(event, with_number=with_number) if event.kind == "update" else None

    def begins_run(self, event: LogEvent) -> bool:
        """Whether a shared run can begin with this event."""
        return event.number > self._fresh and self.shared_frame(event, with_number=False) is not None


class TextPace:
    """When the clients of a session that take text joined are sent it: those with the same interval at once.

    Text waits here for more of it. Anything else that is committed sends what waits in front of it, in the same step.
    """

    def __init__(self, log: SessionLog, ms: int) -> None:
        self._log = log
        # One more, because the loop's clock is not that of the client: 16 ms stay below 63 messages in any second.
        self._seconds = (ms + 1) / 1000
        self._waiting: dict[PacedReader, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False

    def holds(self, reader: PacedReader) -> bool:
        """Whether what follows the place of a client waits for more."""
        log, cursor = self._log, reader.cursor
        if self._is_due or not log.ends_in_text(cursor) or not (reader in self._waiting or log.is_in_tail(cursor)):
            self.leave(reader)
            return False
        self._waiting[reader] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._send)
        return True

    def leave(self, reader: PacedReader) -> None:
        """Let a client wait no more."""
        _ = self._waiting.pop(reader, None)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self) -> None:
        waiting, self._waiting, self._timer = self._waiting, {}, None
        self._is_due = True
        try:
            for reader in waiting:
                reader.pump()
        finally:
            self._is_due = False


class PacedReader(Protocol):
    """A client that is sent what follows its place in the log."""

    cursor: int

    def pump(self) -> None:
        """Send it."""


def _before_text(events: list[LogEvent]) -> int:
    """Return the number of the last event of a commit that is not text of a message; 0 if all of them are."""
    for event in reversed(events):
        if event.kind != "update" or not event.body.startswith(TEXT_STARTS):
            return event.number
    return 0


async def read_page(log: EventLog, session: str, after: int, limit: int, *, head: int = 0) -> list[LogEvent]:
    """Read a page of any session of the log; in the place of events that are lost there is a notice.

    Raises:
        StoreError: the log cannot be read.
    """
    try:
        return await log.read(session, after, limit, head=head)
    except Hole as hole:
        _log.error("session %s: %s", session, hole)
        return [lost_events(hole.first, hole.last)]
