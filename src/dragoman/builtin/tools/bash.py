"""`bash`: a shell line, in the user's terminal where there is one."""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths
from dragoman.builtin.tools.long_output import LIMIT_BYTES, ends, fit
from dragoman.builtin.tools.tool import Kind, Preview, ToolError, ToolOutput
from dragoman.text.terminal import cut

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import CommandResult, ToolContext
    from dragoman.policy import Request

DEFAULT_SECONDS: Final = 120.0
MOST_SECONDS: Final = 600.0
# Kept of the output; of more than that the beginning is lost. It is the most that a terminal here keeps.
_KEPT_BYTES: Final = 4 << 20
# What is shown of a running command: about a screen.
_PROGRESS_BYTES: Final = 4096
# Every look at a running command goes on record, so a long one is shown less and less often.
_SLOWER_SECONDS: Final = 0.05
_SLOWEST_SECONDS: Final = 2.0
_TITLE_LETTERS: Final = 2000
_CONTROLS: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]*[0-~]"
)


class BashArguments(Struct):
    """What to run."""

    command: Annotated[str, Meta(description="A line for the shell (sh). Nobody can type anything into it.")]
    timeout: Annotated[
        float | None,
        Meta(
            description=f"Seconds after which it is ended; {DEFAULT_SECONDS:g} if nothing is said, "
            f"at most {MOST_SECONDS:g}."
        ),
    ] = None
    cwd: Annotated[str | None, Meta(description="Folder to run it in; the working folder if nothing is said.")] = None


class Bash:
    """Runs commands."""

    name: Final = "bash"
    kind: Final[Kind] = "execute"
    arguments: Final = BashArguments
    description: Final = (
        "Run a shell command and read what it writes, stdout and stderr together. Each call is a new shell: folder and "
        "variables do not stay. An exit code other than 0 is told at the end. Of more than "
        f"{LIMIT_BYTES // 1024} KB you get both ends and a file with all of it. For files use read, grep, glob, edit."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        command = paths.word(arguments, "command").strip()
        if not command:
            return Preview("Run a command")
        # A person may be asked about this line, so nothing that a screen can hold is left out.
        shown = cut(command, _TITLE_LETTERS)
        quote = "``" if "`" in shown else "`"
        return Preview(f"{quote}{shown}{quote}")

    def requests(self, arguments: BashArguments, context: ToolContext) -> tuple[Request, ...]:
        from dragoman.policy import Request

        return (
            Request(
                agent=paths.AGENT,
                kind="execute",
                title=self.preview({"command": arguments.command}, context.cwd).title,
                shell=arguments.command,
                cwd=paths.real_path(_folder(arguments, context), context.roots),
                root=context.roots[0] if context.roots else context.cwd,
                home=os.path.expanduser("~"),
            ),
        )

    async def run(self, arguments: BashArguments, context: ToolContext) -> ToolOutput:
        if not arguments.command.strip() or "\0" in arguments.command:
            raise ToolError("the command is empty or holds a NUL; give a line for the shell")
        folder = _folder(arguments, context)
        if arguments.cwd and not await asyncio.to_thread(os.path.isdir, folder):
            raise ToolError(f"there is no folder {paths.shown(folder, context.cwd)}; run it in one that is there")
        seconds = _seconds(arguments.timeout)
        shows = 0

        async def started(terminal: str) -> None:
            await context.progress(ToolOutput("", terminal=terminal))

        async def wrote(text: str) -> None:
            nonlocal shows
            shows += 1
            await context.progress(ToolOutput(_newest(text)))
            await asyncio.sleep(min(shows * _SLOWER_SECONDS, _SLOWEST_SECONDS))

        result = await context.access.run(
            arguments.command,
            cwd=folder,
            timeout_seconds=seconds,
            limit_bytes=_KEPT_BYTES,
            on_start=started,
            on_output=wrote,
        )
        return await _told(result, seconds, context)


def _folder(arguments: BashArguments, context: ToolContext) -> str:
    return paths.absolute(arguments.cwd, context.cwd) if arguments.cwd else context.cwd


def _seconds(asked: float | None) -> float:
    if asked is None or not asked > 0:
        return DEFAULT_SECONDS
    return min(asked, MOST_SECONDS)


async def _told(result: CommandResult, seconds: float, context: ToolContext) -> ToolOutput:
    text = plain(result.text)
    if result.is_truncated:
        text = f"[the beginning is lost: only the last {_KEPT_BYTES >> 20} MB were kept]\n{text}"
    fitted = await fit(text, context)
    parts = [fitted.text.rstrip("\n")] if fitted.text.strip() else []
    ended = _ending(result, seconds)
    if ended or not parts:
        parts.append(ended or "[no output, exit code 0]")
    return ToolOutput(
        "\n".join(parts),
        terminal=result.terminal,
        exit_code=result.exit_code,
        is_error=bool(ended),
        is_truncated=fitted.is_truncated or result.is_truncated,
        output_path=fitted.path,
    )


def _ending(result: CommandResult, seconds: float) -> str:
    """What is to be said of how it ended; nothing if it ended well."""
    if result.timed_out:
        longer = f"give a longer timeout, at most {MOST_SECONDS:g} s, or " if seconds < MOST_SECONDS else ""
        return f"[timed out: it was ended after {seconds:g} s; {longer}run less at once]"
    if result.signal is not None:
        return f"[ended by {result.signal}]"
    if result.exit_code is None:
        return "[ended, nobody knows how]"
    return f"[exit code {result.exit_code}]" if result.exit_code else ""


def plain(text: str) -> str:
    """Output as text: without colours, and of a line that was written over and over only the last state."""
    text = _CONTROLS.sub("", text).replace("\r\n", "\n")
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def _newest(text: str) -> str:
    shown = text[-_PROGRESS_BYTES * 2 :].encode("utf-8", "replace")
    return plain(ends(shown, 0, _PROGRESS_BYTES)[1] if len(shown) > _PROGRESS_BYTES else shown.decode())
