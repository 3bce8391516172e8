"""`bash_output` and `bash_stop`: a look at a background job, and its end. `bash` starts jobs."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.placement import NO_SANDBOX, describe_change
from dragoman.builtin.tools import paths
from dragoman.builtin.tools.command_text import MOST_LISTED, about_sandbox, plain
from dragoman.builtin.tools.jobs import FILE_BYTES, jobs_of
from dragoman.builtin.tools.long_output import COMMAND_LIMIT, fit
from dragoman.builtin.tools.read_files import describe_changed
from dragoman.builtin.tools.tool import Kind, Preview, Tool, ToolError, ToolOutput

if TYPE_CHECKING:
    from dragoman.builtin.tools.jobs import Job
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

FIRST_SECONDS: Final = 1.0
MOST_WAIT_SECONDS: Final = 60.0
DEFAULT_SECONDS: Final = 1800.0
MOST_SECONDS: Final = 7200.0


class BashOutputArguments(Struct):
    """The job, and how long to wait for it."""

    id: Annotated[str, Meta(description="Id of the job, such as bg_1 or task_1.")]
    wait: Annotated[
        float | None,
        Meta(
            description="Seconds to wait until it ends or a new line matches the filter, at most "
            f"{MOST_WAIT_SECONDS:g}; 0 by default."
        ),
    ] = None
    filter: Annotated[str | None, Meta(description="Only lines in which this regular expression matches.")] = None


class BashOutputTool(Tool):
    """The tool that shows what a background job wrote since the last look."""

    name: Final = "bash_output"
    kind: Final[Kind] = "execute"
    arguments: Final = BashOutputArguments
    description: Final = (
        "Look at a job that bash or task started in the background: its output since you last looked, and whether it "
        "still runs. You are informed when a job ends, so do not call this again and again; give wait if you need its "
        "result."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        id = paths.word(arguments, "id").strip()
        return Preview(f"Look at job {id[:20]}" if id else "Look at a job")

    def requests(self, arguments: BashOutputArguments, context: ToolContext) -> tuple[Request, ...]:
        return ()  # the command was permitted

    async def run(self, arguments: BashOutputArguments, context: ToolContext) -> ToolOutput:
        job = jobs_of(context.memory).find(arguments.id)
        pattern = _compiled(arguments.filter)
        seconds = min(max(arguments.wait or 0.0, 0.0), MOST_WAIT_SECONDS)
        if seconds:
            await job.wait(seconds, None if pattern is None else lambda text: pattern.search(text) is not None)
        return await job_output(job, context, pattern)


class BashStopArguments(Struct):
    """The job."""

    id: Annotated[str, Meta(description="Id of the job, such as bg_1 or task_1.")]


class BashStopTool(Tool):
    """The tool that ends a background job."""

    name: Final = "bash_stop"
    kind: Final[Kind] = "execute"
    arguments: Final = BashStopArguments
    description: Final = (
        "End a job that bash or task started in the background, with everything it started. Shows its last output."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        id = paths.word(arguments, "id").strip()
        return Preview(f"Stop job {id[:20]}" if id else "Stop a job")

    def requests(self, arguments: BashStopArguments, context: ToolContext) -> tuple[Request, ...]:
        return ()

    async def run(self, arguments: BashStopArguments, context: ToolContext) -> ToolOutput:
        job = jobs_of(context.memory).find(arguments.id)
        await job.stop()
        return await job_output(job, context)


async def start_job(command: str, folder: str, timeout: float | None, context: ToolContext) -> ToolOutput:
    """Start a job and return the output of its first second. Raises: ToolError."""
    seconds = min(timeout, MOST_SECONDS) if timeout is not None and timeout > 0 else DEFAULT_SECONDS
    job = await jobs_of(context.memory).start(command, folder, seconds, context)
    await job.wait(FIRST_SECONDS)
    file = f"; its output is also in {job.path}" if job.path else ""
    how = "look with bash_output, end it with bash_stop"
    return await job_output(
        job, context, first=f"[job {job.id} runs in the background (timeout {seconds:g} s){file}; {how}]"
    )


async def job_output(
    job: Job, context: ToolContext, pattern: re.Pattern[str] | None = None, *, first: str = ""
) -> ToolOutput:
    """Return what is new of a job, and its state.

    Args:
        first: stands for the state if it still runs.
    """
    new = job.look()
    text, notes = plain(new.text), []
    if new.dropped_bytes:
        file = f"; {job.path} has {'all' if job.has_file_of_all else f'the first {FILE_BYTES >> 20} MB'} of it"
        notes.append(f"[{new.dropped_bytes} bytes before this were dropped{file if job.path else ''}]")
    if pattern is not None:
        lines = text.splitlines()
        matching = [line for line in lines if pattern.search(line)]
        text = "\n".join(matching)
        if len(matching) < len(lines):
            notes.append(f"[{len(lines) - len(matching)} new lines do not match the filter]")
    fitted = await fit(text, context, COMMAND_LIMIT)
    parts = [*notes, fitted.text.rstrip("\n")] if fitted.text.strip() else [*notes, "[no new output]"]
    result = job.result
    parts.append(await asyncio.to_thread(describe_changed, context))
    parts.append(first if first and job.is_running else f"[job {job.id} {job.status}]")
    if result is not None:
        if result.sandbox is not None:
            parts.append(about_sandbox(result, context.placement))
        parts += [f"[violation: {describe_change(change)}]" for change in result.changes[:MOST_LISTED]]
    return ToolOutput(
        "\n".join(filter(None, parts)),
        exit_code=None if result is None else result.exit_code,
        is_truncated=fitted.is_truncated or bool(new.dropped_bytes),
        output_path=fitted.path or job.path,
        sandbox=None if result is None else result.sandbox or NO_SANDBOX,
        denials=() if result is None else tuple(denial.describe() for denial in result.denials),
    )


def _compiled(text: str | None) -> re.Pattern[str] | None:
    if not text:
        return None
    try:
        return re.compile(text, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(f"the filter {text!r} is not a regular expression: {error}; correct it") from None
