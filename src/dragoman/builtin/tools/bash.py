"""`bash`: runs a command line of bash, in a terminal of the client if it offers one, or in the sandbox.

Owns what the model reads about it: how it ended, whether it ran in the sandbox and what it lacked there, and which
protected files it changed. Where it runs was decided with the permission (`ToolContext.placement`).
"""

from __future__ import annotations

import asyncio
import os
import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from dragoman.builtin.placement import NO_SANDBOX, describe_change
from dragoman.builtin.tools import paths
from dragoman.builtin.tools.background import start_job
from dragoman.builtin.tools.command_text import (
    ERROR_CHARACTERS,
    MOST_LISTED,
    REFUSED,
    about_sandbox,
    listed_denials,
    noticed_denials,
    plain,
)
from dragoman.builtin.tools.long_output import COMMAND_LIMIT, ends, fit
from dragoman.builtin.tools.read_files import describe_changed
from dragoman.builtin.tools.shell_folder import folder_after, folder_of, keep_folder, lost_folder, observed, release
from dragoman.builtin.tools.tool import Kind, Preview, Tool, ToolError, ToolOutput
from dragoman.text.terminal import cut, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.tools.tool import CommandResult, ToolContext
    from dragoman.policy import Request
    from dragoman.process.sandbox import Denial, ProtectedChange

DEFAULT_SECONDS: Final = 120.0
MOST_SECONDS: Final = 600.0
# Only the last part of the output is kept. This is as much as our terminals keep.
_KEPT_BYTES: Final = 4 << 20
# The part of a running command's output that is shown: about a screen.
_PROGRESS_BYTES: Final = 4096
# Every update of a running command is stored, so the updates of a long one become less and less frequent.
_SLOWER_SECONDS: Final = 0.05
_SLOWEST_SECONDS: Final = 2.0
_TITLE_LETTERS: Final = 2000
_ABOUT_LETTERS: Final = 80
# What programs print when they fail, for lines whose exit code does not state it; "0 failed" is a success.
_FAILED: Final = re.compile(r"(?<!\b0 )\b(?:error|failed|failure|fatal|could not|cannot|unable to)\b", re.IGNORECASE)


class BashArguments(Struct):
    """The command to run."""

    command: Annotated[str, Meta(description="A command line for bash. It gets no input.")]
    timeout: Annotated[
        float | None,
        Meta(description=f"Seconds after which it is ended; {DEFAULT_SECONDS:g} by default, at most {MOST_SECONDS:g}."),
    ] = None
    cwd: Annotated[
        str | None, Meta(description="Folder to run it in; by default where the last successful command ended.")
    ] = None
    background: Annotated[
        bool | None, Meta(description="Answer at once with the id of a job that goes on, for servers and long work.")
    ] = None
    description: Annotated[str | None, Meta(description="What it does, in a few words, for the user.")] = None


class BashTool(Tool):
    """The tool that runs shell commands."""

    name: Final = "bash"
    kind: Final[Kind] = "execute"
    arguments: Final = BashArguments
    description: Final = (
        "Run a shell command and read its output, stdout and stderr together. The folder of a cd is kept for the next "
        "call, variables are not. An exit code other than 0 is shown at the end. Of more than "
        f"{COMMAND_LIMIT.size_bytes // 1024} KB or {COMMAND_LIMIT.lines} lines you get both ends and a file with "
        "all of it. For files use read, grep, glob, edit."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        command = paths.word(arguments, "command").strip()
        if not command:
            return Preview("Run a command")
        # The user may be asked about this command, so only what is too long for a screen is left out.
        shown = cut(command, _TITLE_LETTERS)
        quote = "``" if "`" in shown else "`"
        about = shorten(paths.word(arguments, "description").replace("`", "'"), _ABOUT_LETTERS).strip(" .:")
        # The line is always shown: words of the model alone are not what the user permits.
        title = f"{about}: {quote}{shown}{quote}" if about else f"{quote}{shown}{quote}"
        return Preview(f"{title} in the background" if arguments.get("background") is True else title)

    def requests(self, arguments: BashArguments, context: ToolContext) -> tuple[Request, ...]:
        from dragoman.policy import Command

        title = self.preview({"command": arguments.command}, context.cwd).title
        folder = paths.real_path(folder_of(arguments.command, arguments.cwd, context), context.roots)
        return (paths.request("execute", title, context, command=Command(line=arguments.command, cwd=folder)),)

    async def run(self, arguments: BashArguments, context: ToolContext) -> ToolOutput:
        if not arguments.command.strip() or "\0" in arguments.command:
            raise ToolError("the command is empty or contains a NUL; give a command line for the shell")
        try:
            return await self._run(arguments, context)
        finally:
            release(arguments.command, arguments.cwd, context)

    async def _run(self, arguments: BashArguments, context: ToolContext) -> ToolOutput:
        folder = folder_of(arguments.command, arguments.cwd, context)
        if arguments.cwd and not await asyncio.to_thread(os.path.isdir, folder):
            raise ToolError(f"there is no folder {paths.shown(folder, context.cwd)}; run it in one that exists")
        if arguments.background:
            return await start_job(arguments.command, folder, arguments.timeout, context)
        asked = arguments.timeout
        seconds = min(asked, MOST_SECONDS) if asked is not None and asked > 0 else DEFAULT_SECONDS
        updates = 0

        async def started(terminal: str) -> None:
            await context.progress(ToolOutput("", terminal=terminal))

        async def wrote(text: str) -> None:
            nonlocal updates
            updates += 1
            newest = text[-_PROGRESS_BYTES * 2 :].encode("utf-8", "replace")
            is_long = len(newest) > _PROGRESS_BYTES
            await context.progress(
                ToolOutput(plain(ends(newest, 0, _PROGRESS_BYTES)[1] if is_long else newest.decode()))
            )
            await asyncio.sleep(min(updates * _SLOWER_SECONDS, _SLOWEST_SECONDS))

        line = observed(arguments.command)
        run = partial(
            context.access.run,
            arguments.command,
            local_line=line.line,
            cwd=folder,
            timeout_seconds=seconds,
            limit_bytes=_KEPT_BYTES,
            on_start=started,
            on_output=wrote,
        )
        result = await run(placement=context.placement)
        notes = ["" if arguments.cwd else lost_folder(context), about_sandbox(result, context.placement)]
        missing = lacked(result, arguments.command)
        if missing:
            await context.progress(ToolOutput("\n".join(filter(None, (plain(result.text).rstrip("\n"), *notes)))))
            decision = await context.decide_outside(*self.requests(arguments, context))
            if decision.is_allowed:
                inside, result = result, await run(placement=context.placement)
                result = replace(result, changes=(*inside.changes, *result.changes))
                notes = [f"[ran outside the sandbox, by permission; inside it lacked {listed_denials(missing)}]"]
            else:
                notes.append(f"[it was not run outside the sandbox. {decision.reason}]")
        for change in result.changes:
            notice = {"severity": "warning", "title": "A command changed a protected file"}
            await context.data("notice", {**notice, "description": describe_change(change)})
        text, ended_in = line.split(result.text)
        if result.exit_code == 0 and line.is_moving:
            if result.terminal is not None:
                ended_in = folder_after(arguments.command, folder)
            notes.append(await asyncio.to_thread(keep_folder, ended_in, context))
        notes.append(await asyncio.to_thread(describe_changed, context))
        return await _output(replace(result, text=text), seconds, context, notes)


async def _output(result: CommandResult, seconds: float, context: ToolContext, notes: Sequence[str]) -> ToolOutput:
    text = plain(result.text)
    if result.is_truncated:
        text = f"[the beginning is missing: only the last {_KEPT_BYTES >> 20} MB were kept]\n{text}"
    fitted = await fit(text, context, COMMAND_LIMIT)
    parts = [fitted.text.rstrip("\n")] if fitted.text.strip() else []
    ended = _ending(result, seconds)
    if ended or not parts:
        parts.append(ended or "[no output, exit code 0]")
    violations = [f"[violation: {describe_change(change)}]" for change in result.changes[:MOST_LISTED]]
    if len(result.changes) > MOST_LISTED:
        violations.append(f"[violation: {len(result.changes) - MOST_LISTED} more protected files changed]")
    # In the sandbox such a change is forbidden. Outside, the user permitted the command.
    is_forbidden = any(change.is_restored or result.sandbox for change in result.changes)
    return ToolOutput(
        "\n".join(filter(None, (*parts, *notes, *violations))),
        terminal=result.terminal,
        exit_code=result.exit_code,
        is_error=bool(ended) or is_forbidden,
        is_truncated=fitted.is_truncated or result.is_truncated,
        output_path=fitted.path,
        sandbox=result.sandbox or NO_SANDBOX,
        denials=tuple(denial.describe() for denial in result.denials),
        violations=tuple(_violation(change) for change in result.changes),
    )


def _violation(change: ProtectedChange) -> dict[str, Any]:
    found = {"path": change.path, "happened": change.happened, "restored": change.is_restored}
    kept = {"kept": change.kept, "replaced": change.replaced}
    return {**found, **{name: place for name, place in kept.items() if place is not None}}


def lacked(result: CommandResult, line: str) -> list[Denial]:
    """Return what a command failed for because of the sandbox; empty if it did not fail for that.

    Programs try more than they need, such as package managers that look for updates. So a command that succeeded lacked
    nothing, unless its exit code is that of its last part only.
    """
    noticed = [] if result.timed_out else noticed_denials(result)
    if result.exit_code == 0:
        end = result.text[-ERROR_CHARACTERS:]
        is_hidden = bool(set(line) & set("|;&\n")) and (REFUSED.search(end) or _FAILED.search(end))
        return noticed if is_hidden else []
    return noticed


def _ending(result: CommandResult, seconds: float) -> str:
    """Return how the command ended, empty if it succeeded."""
    if result.timed_out:
        longer = f"give a longer timeout, at most {MOST_SECONDS:g} s, or " if seconds < MOST_SECONDS else ""
        return f"[timed out (timeout {seconds:g} s): it was ended; {longer}run it in the background]"
    if result.signal is not None:
        return f"[ended by {result.signal}]"
    if result.exit_code is None:
        return "[ended, exit code unknown]"
    return f"[exit code {result.exit_code}]" if result.exit_code else ""
