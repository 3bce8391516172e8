"""One run of a script over a transport.

Owns when a line of ours is sent: as soon as everything it followed in the recording has come, or will not come any
more. Nothing waits forever: requests that the script does not have are refused, and a line that does not come is given
up after a while. Does not decide which line stands for which; `matching.py` does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from dragoman.errors import INTERNAL_ERROR, METHOD_NOT_FOUND
from dragoman.trace.replay.script import NO_ANSWER, ParsedLine, Step
from dragoman.wire import Framer, write_error

if TYPE_CHECKING:
    from dragoman.errors import ConnectionClosed
    from dragoman.rpc import Transport
    from dragoman.trace.replay.difference import Difference
    from dragoman.trace.replay.ids import IdMap
    from dragoman.trace.replay.matching import Matcher

_IDLE_SECONDS: Final = 5.0  # at most, while no request of ours is open
_SETTLE_SECONDS: Final = 2.0  # for what is still to be sent when the other side has ended, at the pace of the replay
_TICK_SECONDS: Final = 0.001
_MARK_BYTES: Final = 1 << 16
_QUANTUM: Final = 32  # lines sent before the other side gets a turn


class _Strand:
    """A sequence of steps that are played one after another. One that was put aside waits forever for its first."""

    def __init__(self, steps: list[Step], *, is_aside: bool = False) -> None:
        self.steps = steps
        self.is_aside = is_aside
        self.position = 0
        self.furthest: dict[str, int] = {}
        """The number of the last line that has come, for each lane: earlier lines are not waited for any more."""
        self.t = steps[0].t
        self.at: float | None = None
        self.quiet_at: float | None = None
        """Since when nothing was sent or came; a line that did not come does not count."""
        self.quiet_t = self.t
        self.waits_for: asyncio.Future[None] | None = None
        """The future it waits for; if that is not the current one, it is about to go on."""


class Player:
    """One side of a recording, played: the steps of our side are sent, and what comes is compared with those of the
    other.
    """

    def __init__(
        self,
        steps: list[Step],
        transport: Transport,
        matcher: Matcher,
        names: IdMap,
        *,
        is_client: bool,
        pace: float,
        patience: float,
        answer_patience: float,
    ) -> None:
        self.has_ended_itself = False
        self._transport = transport
        self._matcher = matcher
        self._names = names
        self._is_client = is_client
        self._pace = pace
        self._patience = patience
        self._answer_patience = answer_patience
        self._framer = Framer()
        self._loop = asyncio.get_running_loop()
        self._active_at = self._loop.time()
        self._news: asyncio.Future[None] = self._loop.create_future()
        self._room = asyncio.Event()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._sent_in_a_row = 0
        self._open: set[Step] = set()
        """Requests that have come and are not answered."""
        self._strands: dict[Step, _Strand] = {}
        self._tasks: dict[asyncio.Task[None], _Strand] = {}
        self._settling: asyncio.Task[None] | None = None
        self._lanes = self._make_lanes(steps)

    def _make_lanes(self, steps: list[Step]) -> list[_Strand]:
        """Sort the steps into lanes: a fake client plays all in recorded order, a fake agent serves each session
        independently.
        """
        lanes: dict[str, list[Step]] = {}
        for step in steps:
            lanes.setdefault("" if self._is_client else step.lane, []).append(step)
        return [self._strand(lane) for lane in lanes.values()]

    def _strand(self, steps: list[Step], *, is_aside: bool = False) -> _Strand:
        strand = _Strand(steps, is_aside=is_aside)
        self._strands.update(dict.fromkeys(steps, strand))
        return strand

    async def run(self) -> list[Difference]:
        """Play until the connection or the script ends, then close the connection."""
        self._transport.start(self)
        for lane in self._lanes:
            self._begin(lane)
        if not self._lanes and self._is_client:
            self.stop()
        try:
            await self._over
        finally:
            tasks = [*self._tasks, *([] if self._settling is None else [self._settling])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._transport.close()
            await self._transport.wait_closed()
        return self._matcher.differences()

    # Receiver: what the transport calls

    def feed(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            self._take(ParsedLine(frame if isinstance(frame, bytes) else frame.head))

    def drained(self) -> None:
        self._room.set()

    def end(self, reason: ConnectionClosed) -> None:
        for frame in self._framer.end():
            self._take(ParsedLine(frame if isinstance(frame, bytes) else frame.head))
        self._settling = self._loop.create_task(self._settle())

    async def _settle(self) -> None:
        """Answer requests that came before the end of the connection, if possible: the other side may still read."""
        deadline = self._loop.time() + _SETTLE_SECONDS
        # This waits until nothing happens any more, for which there is no event.
        while self._is_busy and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_TICK_SECONDS)
        self.stop()

    @property
    def _is_busy(self) -> bool:
        return any(strand.waits_for is not self._news for strand in self._tasks.values())

    def _take(self, parsed: ParsedLine) -> None:
        step = self._matcher.take(parsed)
        if step is None:
            self._refuse(parsed)
        else:
            if parsed.kind == "request":
                self._open.add(step)
            furthest = self._strands[step].furthest
            furthest[step.lane] = max(furthest.get(step.lane, 0), step.number)
        self._active_at = self._loop.time()
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, self._loop.create_future()
        news.set_result(None)

    def _refuse(self, parsed: ParsedLine) -> None:
        """Answer a request that the script does not have, so that the other side does not wait."""
        if parsed.kind == "request":
            if self._matcher.has(parsed.method):
                why = f"the recording has no further {parsed.method}"
                self._transport.write(write_error(parsed.id, INTERNAL_ERROR, why))
            else:
                why = f"the recording has no {parsed.method}"
                self._transport.write(write_error(parsed.id, METHOD_NOT_FOUND, why, {"method": parsed.method}))
        elif parsed.malformed is not None and parsed.malformed.kind == "request" and parsed.malformed.id is not UNSET:
            self._transport.write(write_error(parsed.malformed.id, parsed.malformed.code, parsed.malformed.why))

    # The run

    def _begin(self, strand: _Strand) -> None:
        task = self._loop.create_task(self._play(strand))
        self._tasks[task] = strand
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            if not self._over.done():
                self._over.set_exception(error)
        elif self._is_client and all(strand.is_aside for strand in self._tasks.values()):
            self.stop()

    def stop(self) -> None:
        """End the run."""
        if not self._over.done():
            self._over.set_result(None)

    async def _play(self, strand: _Strand) -> None:
        strand.quiet_at = self._loop.time()
        while strand.position < len(strand.steps):
            step = strand.steps[strand.position]
            if not step.is_ours:
                await self._expect(strand, step)
            elif step.parsed.kind == "end":
                await self._pause(strand, step)
                await self._end()
                return
            else:
                await self._pause(strand, step)
                await self._send(step)
            strand.position += 1
            strand.t, strand.at = step.t, self._loop.time()
            if step.is_ours or step.came is not None:
                strand.quiet_t, strand.quiet_at = strand.t, strand.at
        self._stand_in([step for step in strand.steps if step in self._open])

    def _stand_in(self, steps: list[Step]) -> None:
        """Answer requests whose answers were not recorded, so that the other side does not wait."""
        for step in steps:
            self._open.discard(step)
            assert step.came is not None
            why = f"{NO_ANSWER} {step.method}"
            self._transport.write(write_error(step.came.id, INTERNAL_ERROR, why))
            self._active_at = self._loop.time()

    async def _end(self) -> None:
        """End as the recorded agent did: after the responses that it sent, and without those that it did not send."""
        deadline = self._loop.time() + self._patience
        while any(step.answer for step in self._open) and (left := deadline - self._loop.time()) > 0:
            await asyncio.wait({self._news}, timeout=left)
        self.has_ended_itself = True
        self.stop()

    async def _expect(self, strand: _Strand, step: Step) -> None:
        """Wait until a line of the other side has come, or will not come any more."""
        while step.came is None:
            seconds = self._patience_for(strand, step)
            if seconds is not None and seconds <= 0:
                if step.parsed.kind == "request":
                    self._put_aside(strand, step)
                return
            # The recorded side went on without that answer. This one may be waiting for it, so it is not kept for long.
            owed = [step for step in strand.steps if step in self._open and step.answer is None]
            idle = self._idle_for(strand) if owed else None
            strand.waits_for = self._news
            await asyncio.wait({self._news}, timeout=seconds if idle is None else min(idle, seconds or idle))
            strand.waits_for = None
            if owed and self._idle_for(strand) <= 0:
                self._stand_in([step for step in owed if step in self._open])

    def _idle_for(self, strand: _Strand) -> float:
        """Return how much longer a request without a recorded answer is left without one: less than anything is waited
        for.
        """
        patience = min(self._patience / 2, _IDLE_SECONDS)
        return max(strand.quiet_at or 0.0, self._active_at) + patience - self._loop.time()

    def _patience_for(self, strand: _Strand, step: Step) -> float | None:
        """Return how much longer to wait for `step`; None: as long as the connection lasts.

        The wait counts from the last line in either direction: if ten lines do not come, it is waited for the first.
        """
        is_passed = strand.furthest.get(step.lane, 0) > step.number
        if strand.is_aside and not strand.position:
            return None
        if step.parsed.kind == "response":
            if step.answers is not None and not step.answers.is_sent:
                return 0.0  # only a request of ours is answered
            if step.answers is None:
                patience = min(self._patience, _IDLE_SECONDS)
                return max(strand.quiet_at or 0.0, self._active_at) + patience - self._loop.time()
            patience = self._patience if is_passed and not self._is_client else self._answer_patience
        elif is_passed:
            return 0.0
        elif self._is_client:
            patience = self._patience if self._matcher.is_owed else min(self._patience, _IDLE_SECONDS)
        elif any(self._strands[step] is strand for step in self._open):
            patience = self._patience
        else:
            return None  # the other side is not waiting either
        recorded_seconds = max(0.0, step.t - strand.quiet_t) * self._pace
        return max(strand.quiet_at or 0.0, self._active_at) + recorded_seconds + patience - self._loop.time()

    def _put_aside(self, strand: _Strand, request: Step) -> None:
        """Put aside the steps of a request that did not come; they are played if it comes later."""
        end = request.answer.number if request.answer is not None else request.number
        rest = strand.steps[strand.position + 1 :]
        aside = [step for step in rest if step.number <= end and self._belongs_to(step, request)]
        if aside:
            taken = set(aside)
            del strand.steps[strand.position + 1 :]
            strand.steps += [step for step in rest if step not in taken]
        self._begin(self._strand([request, *aside], is_aside=True))

    def _belongs_to(self, step: Step, request: Step) -> bool:
        """Whether a step between a request and its response is part of that exchange.

        Everything that an agent sends during a prompt is part of it. A client that has to answer a request may send
        other things at the same time.
        """
        if self._is_client:
            return step.answers is request
        return step.answers is None or step.answers is request if step.is_ours else step.answers is not None

    async def _pause(self, strand: _Strand, step: Step) -> None:
        if self._pace and strand.at is not None:
            due = strand.at + (step.t - strand.t) * self._pace
            await asyncio.sleep(max(0.0, due - self._loop.time()))

    async def _send(self, step: Step) -> None:
        parsed, question = step.parsed, step.answers
        if parsed.kind == "raw":
            data = parsed.line + step.eol
        else:
            id = question.came.id if question is not None and question.came is not None else UNSET
            request_id = self._matcher.live_id(parsed.param("requestId")) if parsed.kind == "request" else UNSET
            data = self._names.rewrite(parsed.line, id, request_id) + (step.eol or b"\n")
        self._matcher.sent(step)
        self._transport.write(data)
        if question is not None:
            self._open.discard(question)
            self._wake()
        self._sent_in_a_row += 1
        while self._transport.unsent_bytes > _MARK_BYTES:
            self._room.clear()
            await self._room.wait()
        if self._sent_in_a_row >= _QUANTUM:
            self._sent_in_a_row = 0
            await asyncio.sleep(0)
