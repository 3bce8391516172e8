"""Waiting until a client or a host in the process of a test has nothing left to do.

Textual's own pilot asks whether the process used little CPU time in the last 20 ms. On a machine that does something
else meanwhile, that is so before anything was done. Here the event loop itself is asked: no callback is ready, no timer
is due in a moment, no thread works.
"""

from __future__ import annotations

import asyncio
from typing import Any

MOMENT = 1 / 50
"""A timer that is due so soon belongs to what was done, such as the next frame."""
MOST_SECONDS = 1.0
"""How long a thread is waited for, which may work as long as its test."""
MOST_TIMERS = 3
"""How many timers that follow one another are waited for: some never end."""


async def wait_until_idle(min_sleep: float = 0.0, max_sleep: float = MOST_SECONDS, *, moment: float = MOMENT) -> None:
    """Wait until the event loop has nothing to do; takes the arguments of what it stands for in Textual."""
    loop: Any = asyncio.get_running_loop()
    end, timers = loop.time() + max_sleep, 0
    quiet = 0
    while quiet < 2:  # what comes from a descriptor is ready one round later
        await asyncio.sleep(0)
        if loop._ready:
            quiet = 0
            continue
        quiet += 1
        soon = [
            timer.when() for timer in loop._scheduled if not timer.cancelled() and timer.when() < loop.time() + moment
        ]
        if soon and timers < MOST_TIMERS:
            timers, quiet = timers + 1, 0
            await asyncio.sleep(max(0.0, min(soon) - loop.time()))
        elif _is_thread_working(loop) and loop.time() < end:
            quiet = 0
            await asyncio.sleep(0.001)


def _is_thread_working(loop: Any) -> bool:
    pool = loop._default_executor
    return pool is not None and (pool._work_queue.qsize() > 0 or pool._idle_semaphore._value < len(pool._threads))
