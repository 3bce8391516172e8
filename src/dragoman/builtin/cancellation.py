"""Cancellation in turns: which CancelledError was asked for, and waiting for work that must not be left half done.

A task also gets a CancelledError if it waits for a future that another task cancelled. That is a failure like any
other: it must not end a turn as `cancelled`. Work that several tasks wait for is awaited through `asyncio.shield`, so
that the end of one of them does not cancel it for the others.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    pass

_log = logging.getLogger("dragoman.builtin")

T = TypeVar("T")


def was_asked_for() -> bool:
    """Whether the current task was asked to stop. Call it where a CancelledError was caught."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def complete(work: asyncio.Future[Any]) -> bool:
    """Wait for work that must not be left half done. Returns whether the caller was cancelled in the meantime.

    Raises: what the work failed with, also if the caller was cancelled.
    """
    was_cancelled = False
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            was_cancelled = was_cancelled or was_asked_for()
    work.result()
    return was_cancelled


async def wait_or_cancel(running: asyncio.Task[None], cleanup_seconds: float) -> None:
    """Wait for a task. When the caller is cancelled, cancel the task and give it this long to clean up."""
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        if not running.done():
            running.cancel()
            await asyncio.wait({running}, timeout=cleanup_seconds)
            if not running.done():
                _log.warning("a tool ignores its cancellation; the turn ends without it")
                running.add_done_callback(_log_failure)
        raise


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.debug("a tool that was left behind failed", exc_info=task.exception())
