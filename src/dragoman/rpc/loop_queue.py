"""What is queued on the event loop: a task's first step, the step of a task that was woken, and whether others wait.

*First steps.* A request whose handler has the answer at hand is answered in the turn of the loop that read it: the
handler's task takes its first step where it is made. Everything that a handler may use works in that step as in any
other: `current_task`, `asyncio.timeout`, `TaskGroup`, context variables. Python 3.12 has tasks of this kind. On 3.11 an
ordinary task is made, and the step that it has queued is taken from the queue and run.

*Woken tasks.* A batch of input that wakes one task, and finds nothing else to do on the loop, runs this task's step
itself, after the batch. A turn of the loop in between would only ask the system whether more has arrived.

*Waiting.* A consumer that never has to wait for its next item would keep the loop to itself; it looks here whether
others wait, because a turn for nothing costs as much as some items.

The queue is a private attribute of asyncio's own loops. With another loop (uvloop), or with a task factory that queues
something else, these steps come with the next turn, and nothing is known about waiting: both are correct, only later.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def others_wait(loop: asyncio.AbstractEventLoop) -> Callable[[object], bool]:
    """Make a function that finds out whether anything is queued besides the next read of a transport, its argument."""
    queue: Any = getattr(loop, "_ready", ())

    def wait(transport: object) -> bool:
        if len(queue) != 1:
            return bool(queue)
        # Reading on while much of what was read is still to be consumed would only make the backlog longer.
        return getattr(getattr(queue[0], "_callback", None), "__self__", None) is not transport

    return wait


class Woken:
    """The step of the only task that a callback of the loop has woken, run at the end of that callback."""

    __slots__ = ("_is_idle", "_loop", "_queue")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: Any = getattr(loop, "_ready", None)
        self._is_idle = False

    def begin(self) -> None:
        """Remember what is queued, before the callback does anything."""
        # What is in the queue by now has its place in this turn of the loop, and must not be taken from it.
        self._is_idle = self._queue is not None and not self._queue

    def step(self) -> None:
        """Run what is queued since `begin`, if that is one task's next step and no task is running."""
        queue = self._queue
        if not self._is_idle or len(queue) != 1 or self._loop.get_debug():
            return
        handle = queue[0]
        if not isinstance(getattr(getattr(handle, "_callback", None), "__self__", None), asyncio.Task):
            return
        if handle.cancelled() or asyncio.current_task(self._loop) is not None:
            return
        queue.pop()
        handle._run()


if sys.version_info >= (3, 12):

    def start_eagerly(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
        """Start a task that takes its first step at once; it may be done already."""
        if loop.get_task_factory() is not None:
            return loop.create_task(work)
        return asyncio.Task(work, loop=loop, eager_start=True)

else:

    def start_eagerly(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
        """Start a task that takes its first step at once; it may be done already."""
        if loop.get_task_factory() is not None:
            return loop.create_task(work)
        task = asyncio.Task(work, loop=loop)
        queue: Any = getattr(loop, "_ready", None)
        if not queue:
            return task
        step = queue[-1]
        owner: object = getattr(getattr(step, "_callback", None), "__self__", None)
        if owner is not task:
            return task
        queue.pop()
        outer = asyncio.current_task(loop)
        if outer is None:
            step._run()
        else:  # one task at a time is the current one
            asyncio.tasks._leave_task(loop, outer)
            try:
                step._run()
            finally:
                asyncio.tasks._enter_task(loop, outer)
        return task
