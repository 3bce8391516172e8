"""What is queued on the event loop: a task's first step, and whether anything else waits for its turn.

*First steps.* A request whose handler has the answer at hand is answered in the turn of the loop that read it: the
handler's task takes its first step where it is made. Everything that a handler may use works in that step as in any
other: `current_task`, `asyncio.timeout`, `TaskGroup`, context variables. Python 3.12 has tasks of this kind. On 3.11 an
ordinary task is made, and the step that it has queued is taken from the queue and run.

*Waiting.* A consumer that never has to wait for its next item would keep the loop to itself; it looks here whether
others wait, because a turn for nothing costs as much as some items.

The queue is a private attribute of asyncio's own loops. With another loop (uvloop), or with a task factory that queues
something else, first steps come with the next turn, and nothing is known about waiting: both are correct, only later.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def others_wait(loop: asyncio.AbstractEventLoop) -> Callable[[object], bool]:
    """A function that finds out whether anything is queued besides the next read of a transport, its argument."""
    queue: Any = getattr(loop, "_ready", ())

    def wait(transport: object) -> bool:
        if len(queue) != 1:
            return bool(queue)
        # Reading on while much of what was read is still to be consumed would only make the backlog longer.
        return getattr(getattr(queue[0], "_callback", None), "__self__", None) is not transport

    return wait


if sys.version_info >= (3, 12):

    def start_eagerly(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
        """A task that has taken its first step; it may be done already."""
        if loop.get_task_factory() is not None:
            return loop.create_task(work)
        return asyncio.Task(work, loop=loop, eager_start=True)

else:

    def start_eagerly(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
        """A task that has taken its first step; it may be done already."""
        task = loop.create_task(work)
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
