"""`bash`: runs a shell command, in a terminal of the client if it offers one."""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths
from dragoman.builtin.tools.long_output import LIMIT_BYTES, ends, fit
from dragoman.builtin.tools.tool import Kind, Preview, Tool, ToolError, ToolOutput
from dragoman.text.terminal import cut

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import CommandResult, ToolContext
    from dragoman.policy import Request

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
_CONTROLS: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]*[0-~]"
)


class BashArguments(Struct):
    """The command to run."""

    command: Annotated[str, Meta(description="A command line for the shell (sh). It gets no input.")]
    timeout: Annotated[
        float | None,
        Meta(description=f"Seconds after which it is ended; {DEFAULT_SECONDS:g} by default, at most {MOST_SECONDS:g}."),
    ] = None
    cwd: Annotated[str | None, Meta(description="Folder to run it in; by default the working folder.")] = None


class BashTool(Tool):
    """Runs shell commands."""

    name: Final = "bash"
    kind: Final[Kind] = "execute"
    arguments: Final = BashArguments
    description: Final = (
        "Run a shell command and read its output, stdout and stderr together. Each call starts a new shell: folder and "
        "variables are not kept. An exit code other than 0 is shown at the end. Of more than "
        f"{LIMIT_BYTES // 1024} KB you get both ends and a file with all of it. For files use read, grep, glob, edit."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        command = paths.word(arguments, "command").strip()
        if not command:
            return Preview("Run a command")
        # The user may be asked about this command, so only what is too long for a screen is left out.
        shown = cut(command, _TITLE_LETTERS)
        quote = "``" if "`" in shown else "`"
        return Preview(f"{quote}{shown}{quote}")

    def requests(self, arguments: BashArguments, context: ToolContext) -> tuple[Request, ...]:
        title = self.preview({"command": arguments.command}, context.cwd).title
        folder = paths.real_path(_folder(arguments, context), context.roots)
        return (paths.request("execute", title, context, shell=arguments.command, cwd=folder),)

    async def run(self, arguments: BashArguments, context: ToolContext) -> ToolOutput:
        if not arguments.command.strip() or "\0" in arguments.command:
            raise ToolError("the command is empty or contains a NUL; give a command line for the shell")
        folder = _folder(arguments, context)
        if arguments.cwd and not await asyncio.to_thread(os.path.isdir, folder):
            raise ToolError(f"there is no folder {paths.shown(folder, context.cwd)}; run it in one that exists")
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

        result = await context.access.run(
            arguments.command,
            cwd=folder,
            timeout_seconds=seconds,
            limit_bytes=_KEPT_BYTES,
            on_start=started,
            on_output=wrote,
        )
        return await _output(result, seconds, context)


def _folder(arguments: BashArguments, context: ToolContext) -> str:
    return paths.absolute(arguments.cwd, context.cwd) if arguments.cwd else context.cwd


async def _output(result: CommandResult, seconds: float, context: ToolContext) -> ToolOutput:
    text = plain(result.text)
    if result.is_truncated:
        text = f"[the beginning is missing: only the last {_KEPT_BYTES >> 20} MB were kept]\n{text}"
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
    """Return how the command ended, empty if it succeeded."""
    if result.timed_out:
        longer = f"give a longer timeout, at most {MOST_SECONDS:g} s, or " if seconds < MOST_SECONDS else ""
        return f"[timed out: it was ended after {seconds:g} s; {longer}run a shorter command]"
    if result.signal is not None:
        return f"[ended by {result.signal}]"
    if result.exit_code is None:
        return "[ended, exit code unknown]"
    return f"[exit code {result.exit_code}]" if result.exit_code else ""


def plain(text: str) -> str:
    """Return output without colours, and with only the last state of a line that was overwritten."""
    text = _CONTROLS.sub("", text).replace("\r\n", "\n")
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
