"""A subagent in the background: a job of the session, like a command. `bash_output` shows it, `bash_stop` ends it.

Loaded with the first one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from dragoman.agent.cancellation import was_asked_for
from dragoman.builtin.subagents.run import SHOW_SECONDS
from dragoman.builtin.subagents.subagents import answer_text
from dragoman.builtin.tools.jobs import jobs_of
from dragoman.builtin.tools.tool import CommandResult
from dragoman.builtin.turn import error_text
from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from dragoman.builtin.subagents.declaration import AgentDeclaration
    from dragoman.builtin.subagents.progress import RunProgress
    from dragoman.builtin.subagents.run import RunEnd
    from dragoman.builtin.tools.jobs import Job
    from dragoman.builtin.turn import TurnContext

_log = logging.getLogger("dragoman.builtin")


class BackgroundRun:
    """A run as the jobs of a session know one."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    async def wait(self) -> CommandResult:
        await asyncio.wait({self._task})
        return CommandResult("", None)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})


def start_background(
    task_id: str,
    declared: AgentDeclaration,
    description: str,
    context: TurnContext,
    work: Coroutine[Any, Any, RunEnd],
    progress: RunProgress,
) -> asyncio.Task[None]:
    """Start the work as a job with the id of the task. Raises: ToolError if there are too many jobs."""
    path = os.path.join(context.overflow_dir, f"{task_id}.{os.urandom(4).hex()}.txt")  # a resumed task has a new file
    try:
        job = jobs_of(context.memory).place(task_id, f"{declared.name}: {description}", 0, path)
    except BaseException:
        work.close()
        raise
    task = asyncio.create_task(_follow(job, task_id, declared, work, progress), name=f"dragoman-{task_id}")
    task.add_done_callback(lambda _: work.close())  # a task that is cancelled before its first step never awaits it
    job.follow(BackgroundRun(task))
    return task


async def _follow(
    job: Job, task_id: str, declared: AgentDeclaration, work: Coroutine[Any, Any, RunEnd], progress: RunProgress
) -> None:
    """Do the work; its calls and its answer are the output of the job."""
    reporting = asyncio.create_task(_report(job, progress))
    try:
        end = await work
    except asyncio.CancelledError:
        job.outcome = "was cancelled"
        if was_asked_for():
            raise
    except Exception as error:
        # Nothing waits for this task: what went wrong is the output of the job, as that of a command would be.
        if not isinstance(error, DragomanError):
            _log.exception("a subagent in the background failed")
        job.outcome = "failed"
        job.take(f"\nit failed: {error_text(error)}\n".encode())
    else:
        job.outcome = "failed" if end.failure else "has answered"
        failed = f"it failed: {end.failure}\n" if end.failure else ""
        lines = "".join(f"{line}\n" for line in progress.ended_lines())
        job.take(f"{lines}\n{failed}{answer_text(task_id, declared, end, progress)}\n".encode())
    finally:
        reporting.cancel()


async def _report(job: Job, progress: RunProgress) -> None:
    while True:
        await asyncio.sleep(SHOW_SECONDS)
        lines = progress.ended_lines()
        if lines:
            job.take("".join(f"{line}\n" for line in lines).encode())
