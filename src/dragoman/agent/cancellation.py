"""Cancellation in an agent: which CancelledError was asked for, and waiting for work that must not be left half done.

A task also gets a CancelledError if it waits for a future that another task cancelled. That is a failure like any
other: it must not end a turn as `cancelled`. Work that several tasks wait for is awaited through `asyncio.shield`, so
that the end of one of them does not cancel it for the others.
"""

from __future__ import annotations

import asyncio
from typing import Any


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
