"""One turn of an adapter: the prompt is stored, the source runs, its chunks are shown, the end is stored.

Theory of operation. A turn is one or several runs of the source: a run that ends with permission questions is followed
by another with all the answers. The source runs in a task of its own; a client that cancels ends that task, which has
a bounded time to clean up. Whatever happens, calls and texts that are open are ended, the message is stored with what
arrived, and what a source emits after that is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.adapters.context import PromptContext
from dragoman.adapters.turn_log import ChunkLog
from dragoman.adapters.values import AdapterError
from dragoman.errors import DragomanError, StoreError
from dragoman.store.ids import new_id
from dragoman.store.messages import message_from_row, message_to_row
from dragoman.uistream import chunks as c
from dragoman.uistream.content import parts_of
from dragoman.uistream.fold import ERROR
from dragoman.uistream.messages import UIMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.adapters.adapter import Adapter, Yielded
    from dragoman.adapters.session import AdapterSession
    from dragoman.agent import Turn
    from dragoman.store.sessions import Store

_log = logging.getLogger("dragoman.adapters")

# How long a cancelled source may clean up before the client is answered without it.
CLEANUP_SECONDS: Final = 2.0
# Runs of one turn, each of which ended with questions. A source that asks forever would never let the turn end.
_MOST_RUNS: Final = 1000


class TurnOutcome(Struct, frozen=True):
    """How a turn ended."""

    stop_reason: str
    error: Exception | None
    message: UIMessage


async def run_turn(adapter: Adapter, session: AdapterSession, turn: Turn, store: Store | None) -> TurnOutcome:
    """Run one turn to its end. Raises: StoreError when the prompt could not be stored; nothing ran then."""
    prompt = UIMessage(new_id("msg"), "user", parts_of(turn.prompt))
    log = ChunkLog(turn, new_id("msg"), store)
    history: tuple[UIMessage, ...] = ()
    was_cancelled = False
    if store is not None:
        if adapter.uses_history:
            history = tuple(await read_messages(session, store))
        beginning = asyncio.ensure_future(store.begin_turn(session.id, message_to_row(prompt), log.message.id))
        was_cancelled = await _completed(beginning)
    writer = asyncio.ensure_future(log.write())
    context = PromptContext(turn, session, log, history, prompt)
    error: Exception | None = None
    try:
        if not was_cancelled:
            session.running = asyncio.ensure_future(_run(adapter, context, log))
            await _wait_or_cancel(session.running, adapter.cleanup_seconds)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        was_cancelled = turn.cancelled or (task is not None and task.cancelling() > 0)
        if not was_cancelled:
            error = AdapterError(f"{adapter.title or adapter.name} was cancelled from inside")
    except Exception as failure:
        error = failure
    ending = asyncio.ensure_future(_end(adapter, log, writer, session, store, was_cancelled, error))
    was_cancelled = await _completed(ending) or was_cancelled
    error = ending.result()
    session.running = None
    if session.messages is not None:
        session.messages += [prompt, log.message]
    if was_cancelled:
        return TurnOutcome("cancelled", None, log.message)
    return TurnOutcome(log.projector.stop_reason or "end_turn", error, log.message)


async def read_messages(session: AdapterSession, store: Store) -> list[UIMessage]:
    """Return the finished messages of a session, read once. Raises: StoreError."""
    if session.messages is None:
        session.messages = [message_from_row(row) for row in await store.messages(session.id)]
    return session.messages


def explained(adapter: Adapter, error: Exception) -> str:
    """Return what the user reads about a failure: an error written for users as it is, any other with its type."""
    if isinstance(error, DragomanError):
        return str(error)
    text = str(error).strip()
    return f"{adapter.title or adapter.name} failed: {type(error).__name__}{f': {text}' if text else ''}"


async def _run(adapter: Adapter, context: PromptContext, log: ChunkLog) -> None:
    """Run the source until a run ends without questions."""
    await log.emit(c.Start(log.message.id))
    items = adapter.run(context)
    for _ in range(_MOST_RUNS):
        await _relay(items, context)
        await log.settle()
        questions = log.open_questions
        if not questions or log.projector.error is not None:
            await context._complete_calls()
            return
        answers = await context._answer_all(questions)
        await log.settle()
        items = adapter.resume(context, answers)
    raise AdapterError(f"{adapter.title or adapter.name} asked for permission {_MOST_RUNS} times in one turn")


async def _relay(items: AsyncIterator[Yielded], context: PromptContext) -> None:
    try:
        async for item in items:
            await context.emit(item)
        await context._end_passage()
    finally:
        # A generator left in the middle is closed here and now: its `finally` belongs to the turn.
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


async def _completed(work: asyncio.Future[Any]) -> bool:
    """Wait for work that must not be left half done. Returns whether the caller was cancelled in the meantime.

    Raises: what the work failed with.
    """
    was_cancelled = False
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            was_cancelled = True
    work.result()
    return was_cancelled


async def _wait_or_cancel(running: asyncio.Task[Any], cleanup_seconds: float | None) -> None:
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        if not running.done():
            running.cancel()
            await asyncio.wait({running}, timeout=CLEANUP_SECONDS if cleanup_seconds is None else cleanup_seconds)
            if not running.done():
                _log.warning("the source ignores its cancellation; the turn ends without it")
        raise
    finally:
        running.add_done_callback(_take_result)


def _take_result(task: asyncio.Task[Any]) -> None:
    """Read the outcome, so that a failure after the end of the turn is not reported as lost."""
    if not task.cancelled():
        task.exception()


async def _end(
    adapter: Adapter,
    log: ChunkLog,
    writer: asyncio.Task[None],
    session: AdapterSession,
    store: Store | None,
    was_cancelled: bool,
    error: Exception | None,
) -> Exception | None:
    """End what is open, and store the message. Returns the error to report."""
    if error is not None and not isinstance(error, DragomanError):
        _log.error("a run of %s failed", adapter.title or adapter.name, exc_info=error)
    await _report_unknown(log)
    log.close("cancelled" if was_cancelled else None if error is None else explained(adapter, error))
    if was_cancelled:
        log.message.metadata["cancelled"] = True
    elif error is not None:
        log.message.metadata[ERROR] = explained(adapter, error)
    elif log.projector.error is not None:
        error = AdapterError(log.projector.error)
    try:
        await log.settle()
        if store is not None:
            await store.finish_message(session.id, message_to_row(log.message))
            await session.save()
    except StoreError as failure:
        error = error or failure
    except Exception as failure:  # the client is gone; what arrived is stored all the same
        _log.debug("the client is gone", exc_info=failure)
        if store is not None:
            await store.finish_message(session.id, message_to_row(log.message))
    finally:
        writer.cancel()
        await asyncio.wait({writer})
    return error


async def _report_unknown(log: ChunkLog) -> None:
    """Show once that something arrived which cannot be shown."""
    if not log.unknown_types:
        return
    names = ", ".join(sorted(log.unknown_types))
    notice = {
        "severity": "warning",
        "title": "The source sent parts that cannot be shown",
        "description": f"Unknown chunk types: {names}. They are kept with the session; update dragoman to see them.",
    }
    try:
        await log.emit(c.Data("notice", notice, transient=True))
    except Exception as error:
        _log.debug("a notice could not be shown", exc_info=error)
