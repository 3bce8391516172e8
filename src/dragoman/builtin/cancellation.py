"""Waiting for a tool that may ignore its cancellation; `dragoman.agent.cancellation` has what every agent needs."""

from __future__ import annotations

import asyncio
import logging

_log = logging.getLogger("dragoman.builtin")


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
