"""One session while it is open: its history, its turns one after the other, and everybody who watches.

Owns the order of things: a chunk is folded, then committed, then shown, so nothing a client saw can be lost. Also the
queue of prompts, cancelling with a bounded clean-up, and putting in order what a crash left. Does not know ACP: who
watches gets chunks, who is asked gets options.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from dragoman.builtin.loop import Loop, ModelCall, Spent, TurnWork
from dragoman.errors import DragomanError, StoreError
from dragoman.store.ids import new_id
from dragoman.store.messages import message_from_row, message_to_row
from dragoman.store.sessions import UsageRow
from dragoman.uistream import chunks as c
from dragoman.uistream.chunks import decode_chunk, encode_chunk
from dragoman.uistream.fold import INTERRUPTED, Reducer
from dragoman.uistream.messages import Message, Part

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dragoman.store.sessions import SessionRow, Store

_log = logging.getLogger("dragoman.builtin")

State: TypeAlias = Literal["idle", "busy", "retrying", "error"]
CANCELLED = "cancelled"
# Chunks on their way to the disk before the loop has to wait for it; a commit takes about a millisecond.
_UNWRITTEN = 512

Deliver: TypeAlias = "Callable[[Sequence[c.Chunk]], Awaitable[None]]"


class TurnEnd(Struct, frozen=True):
    """How a turn ended. `error` is what the prompt is to be answered with."""

    message_id: str
    was_cancelled: bool = False
    error: Exception | None = None


class Turn:
    """A turn that runs: its chunks so far, and the one way for more of them."""

    def __init__(self, host: Host, message_id: str) -> None:
        self.message = Message(message_id, "assistant", [])
        self.log: list[c.Chunk] = []
        """What was committed, from the first chunk on. Who comes late starts at its beginning."""
        self._host = host
        self._reducer = Reducer(self.message)
        self._unwritten: list[c.Chunk] = []
        self._is_closed = False
        self._wake = asyncio.Event()
        self._written = asyncio.Event()
        self._failure: StoreError | None = None

    async def emit(self, chunk: c.Chunk) -> None:
        """Takes a chunk. It waits when the disk does not keep up; after the turn's end nothing is taken any more."""
        if self._is_closed:
            return  # a tool that ignored its cancellation: nobody wants to hear it now
        self._add(chunk)
        while len(self._unwritten) >= _UNWRITTEN and self._failure is None:
            self._written.clear()
            await self._written.wait()
        if self._failure is not None:
            raise self._failure

    async def settle(self) -> None:
        """Returns when everything emitted so far was committed and shown. Raises: StoreError."""
        while self._unwritten and self._failure is None:
            self._written.clear()
            await self._written.wait()
        if self._failure is not None:
            raise self._failure

    def close(self, why: str | None) -> None:
        """Nothing is taken any more. `why` ends what is still open and the turn with it; None: it ended by itself."""
        if self._is_closed:
            return
        if why is not None:
            self._unwritten += self._reducer.close(why)
            self._unwritten.append(c.Abort(why))
            self._wake.set()
        self._is_closed = True

    def _add(self, chunk: c.Chunk) -> None:
        self._reducer.feed(chunk)
        self._unwritten.append(chunk)
        self._wake.set()

    async def write(self, store: Store) -> None:
        """Commits and shows chunks until it is cancelled. What comes while a commit runs goes into the next."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch = list(self._unwritten)
            if not batch:
                continue
            try:
                await store.append_log(self.message.id, len(self.log), [encode_chunk(chunk) for chunk in batch])
            except StoreError as error:
                self._failure = error
                self._written.set()
                return
            self.log += batch
            await self._host._show(batch)
            del self._unwritten[: len(batch)]
            if self._unwritten:
                self._wake.set()
            self._written.set()


class Host:
    """An open session. One object however many connections look at it."""

    def __init__(self, store: Store, row: SessionRow, history: list[Message]) -> None:
        self.row = row
        self.history = history
        """Every finished message, oldest first."""
        self.state: State = "idle"
        self.turn: Turn | None = None
        self.memory: dict[str, Any] = {}
        self._store = store
        self._watchers: list[Deliver] = []
        self._running: asyncio.Task[None] | None = None
        self._line = asyncio.Lock()
        self._words: list[str] = []
        self._unfinished: tuple[Message, Sequence[UsageRow]] | None = None

    @classmethod
    async def open(cls, store: Store, row: SessionRow) -> Host:
        """The session as it was left. A turn that died with its program is ended now, its open calls as failed.

        Raises: StoreError.
        """
        history = [message_from_row(message) for message in await store.messages(row.id)]
        log = await store.live_log(row.id)
        host = cls(store, row, history)
        if log is not None and not log.is_alive:
            await host._recover(log.message_id, [decode_chunk(chunk) for chunk in log.chunks])
        elif log is not None:
            # Another program is at it: what it has said so far can be seen, but is not ours to end.
            reducer = Reducer(Message(log.message_id, "assistant", []), is_tolerant=True)
            for chunk in log.chunks:
                reducer.feed(decode_chunk(chunk))
            history.append(reducer.message)
        history += [message_from_row(message) for message in await store.queued(row.id)]
        return host

    @property
    def is_running(self) -> bool:
        return self.turn is not None

    @property
    def live(self) -> tuple[c.Chunk, ...]:
        """The chunks of the turn that runs, from its first."""
        return () if self.turn is None else tuple(self.turn.log)

    def watch(self, deliver: Deliver) -> Callable[[], None]:
        """Shows every chunk committed from now on to one more; the result ends that."""
        self._watchers.append(deliver)

        def leave() -> None:
            with suppress(ValueError):
                self._watchers.remove(deliver)

        return leave

    def steer(self, text: str) -> bool:
        """Words for the running turn, heard at its next step. False: nothing runs, so prompt instead."""
        if self.turn is None:
            return False
        self._words.append(text)
        return True

    # Turns

    async def prompt(
        self,
        parts: list[Part],
        prepare: Callable[[Turn], Awaitable[TurnWork]],
        metadata: dict[str, Any] | None = None,
    ) -> TurnEnd:
        """One turn: the user's message, then what the agent makes of it. Waits while another one runs.

        A prompt that has to wait is on disk meanwhile. Cancelling the call withdraws it, or cancels its turn.
        Raises: StoreError when the message could not be kept; nothing ran then.
        """
        message = Message(new_id("msg"), "user", parts, metadata or {})
        has_to_wait = self._line.locked()
        if has_to_wait:
            await self._store.enqueue(self.row.id, message_to_row(message))
        try:
            await self._line.acquire()
        except BaseException:
            if has_to_wait:
                await asyncio.shield(self._store.drop_queued(message.id))
            raise
        try:
            if has_to_wait:
                fired = new_id("msg")
                await self._store.dequeue(message.id, new_id=fired)
                message.id = fired
            else:
                await self._settle_past()
                await self._store.add_message(self.row.id, message_to_row(message))
            self.history.append(message)
            return await self._run(prepare)
        finally:
            self._line.release()

    async def _settle_past(self) -> None:
        """What could not be stored, or never became a turn, is put in its place before the next message."""
        if self._unfinished is not None:
            message, usage = self._unfinished
            await self._store.finish_message(self.row.id, message_to_row(message), usage)
            self._unfinished = None
        for waiting in await self._store.queued(self.row.id):
            await self._store.dequeue(waiting.id, new_id=new_id("msg"))

    async def _run(self, prepare: Callable[[Turn], Awaitable[TurnWork]]) -> TurnEnd:
        turn = Turn(self, new_id("msg"))
        await self._store.begin_message(self.row.id, turn.message.id)
        self.turn, self.state = turn, "busy"
        writer = asyncio.create_task(turn.write(self._store))
        loop: Loop | None = None
        error: Exception | None = None
        was_cancelled = False
        cleanup_seconds = 0.0
        try:
            work = await prepare(turn)
            work.spent = _spent(await self._store.usage(self.row.id))
            work.steer, work.retrying = self._take_words, self._retrying
            cleanup_seconds = work.limits.cleanup_seconds
            loop = Loop(work)
            self._running = asyncio.create_task(loop.run())
            await self._obey(self._running, cleanup_seconds)
        except asyncio.CancelledError:
            was_cancelled = True
        except Exception as failure:
            error = failure
        usage = [] if loop is None else [_usage_row(call) for call in loop.calls]
        ended = asyncio.ensure_future(self._end(turn, writer, usage, was_cancelled=was_cancelled, error=error))
        return await _insist(ended)

    async def _obey(self, running: asyncio.Task[None], cleanup_seconds: float) -> None:
        """Waits for the loop; when cancelled, cancels it and gives it a bounded while to put things in order."""
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            if not running.cancelled() and not running.done():
                running.cancel()
                await asyncio.wait({running}, timeout=cleanup_seconds)
                if not running.done():
                    _log.warning("a tool ignores its cancellation; the turn ends without it")
                    running.add_done_callback(_forget)
            raise

    async def _end(
        self,
        turn: Turn,
        writer: asyncio.Task[None],
        usage: Sequence[UsageRow],
        *,
        was_cancelled: bool,
        error: Exception | None,
    ) -> TurnEnd:
        """Ends what is open, commits the rest, makes the log a message. A full disk leaves the log for later."""
        turn.close(CANCELLED if was_cancelled else str(error) if isinstance(error, StoreError) else None)
        self._words.clear()
        if was_cancelled:
            turn.message.metadata["cancelled"] = True
        try:
            await turn.settle()
            self._unfinished = (turn.message, usage)
            await self._store.finish_message(self.row.id, message_to_row(turn.message), usage)
            self._unfinished = None
        except StoreError as failure:
            self._unfinished = (turn.message, usage)
            error = error or failure
        finally:
            writer.cancel()
            await asyncio.wait({writer})
            self.turn, self._running = None, None
        self.history.append(turn.message)
        self.state = "idle" if error is None else "error"
        if error is not None and not isinstance(error, DragomanError):
            _log.error("a turn failed", exc_info=error)
        return TurnEnd(turn.message.id, was_cancelled, None if was_cancelled else error)

    def _take_words(self) -> list[str]:
        words, self._words = self._words, []
        return words

    def _retrying(self, is_retrying: bool) -> None:
        self.state = "retrying" if is_retrying else "busy"

    async def _show(self, batch: Sequence[c.Chunk]) -> None:
        for deliver in tuple(self._watchers):
            try:
                await deliver(batch)
            except Exception:
                # Its connection is gone; the turn goes on for the others.
                _log.debug("a watcher left", exc_info=True)
                with suppress(ValueError):
                    self._watchers.remove(deliver)

    async def _recover(self, message_id: str, log: Sequence[c.Chunk]) -> None:
        reducer = Reducer(Message(message_id, "assistant", []), is_tolerant=True)
        for chunk in log:
            reducer.feed(chunk)
        reducer.close(INTERRUPTED)
        reducer.message.metadata["interrupted"] = True
        usage = [found for chunk in log if (found := _usage_of(chunk)) is not None]
        await self._store.finish_message(self.row.id, message_to_row(reducer.message), usage)
        self.history.append(reducer.message)


async def _insist(work: asyncio.Future[TurnEnd]) -> TurnEnd:
    """The result of work that must not be left half done, however often the caller is cancelled meanwhile."""
    while not work.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(work)
    return work.result()


def _forget(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.debug("a tool that was left behind failed", exc_info=task.exception())


def _spent(usage: UsageRow) -> Spent:
    return Spent(usage.output + usage.reasoning, usage.cost_usd)


def _usage_of(chunk: c.Chunk) -> UsageRow | None:
    """What a model call cost, from the log of a turn that did not come to an end."""
    if not isinstance(chunk, c.Data) or chunk.name != "usage":
        return None
    known = {**chunk.data, "cost_usd": chunk.data.get("call_cost_usd")}
    return msgspec.convert(known, UsageRow)


def _usage_row(call: ModelCall) -> UsageRow:
    return UsageRow(call.model, cost_usd=call.cost_usd, **msgspec.structs.asdict(call.usage))
