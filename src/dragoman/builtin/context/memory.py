"""`/remember`: adds a line to the instructions of the user or the project, after the user has seen the diff.

Owns which file is meant, how the line is added, and that the user is always asked: the line is an instruction for every
later session. A rule that denies the change is obeyed; where no user can be asked, nothing is written. The change is
announced to the model with the next message, like any change of instructions (`instruction_changes.py`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, to_builtins

from dragoman.builtin.tools.tool import ToolError
from dragoman.settings.project import find_project
from dragoman.text.terminal import sentence, shorten
from dragoman.uistream import chunks as c
from dragoman.uistream.display import FileDiff, Location, ToolDisplay, ToolOutput, with_display

if TYPE_CHECKING:
    from dragoman.builtin.context.command import TurnCommand
    from dragoman.builtin.context.window.window import ContextWindow
    from dragoman.builtin.models.model import ToolSpec
    from dragoman.builtin.turn import TurnContext

FILE: Final = "AGENTS.md"
HEADING: Final = "# Instructions for agents"
LINE_CHARACTERS: Final = 1000
_YES: Final = "add_line"
_NO: Final = "keep_file"
_USAGE: Final = (
    "Write what to remember: `/remember TEXT` or `/remember project TEXT` for this project, `/remember user TEXT` for "
    "all of yours."
)


class Wish(Struct, frozen=True):
    """What is to be remembered, and for whom."""

    scope: Literal["user", "project"]
    line: str


class PlannedLine(Struct, frozen=True):
    """The file before and after the line; `before` is None if there is no file."""

    path: str
    before: str | None
    after: str

    @property
    def is_there(self) -> bool:
        """Whether the file has the line already."""
        return self.before == self.after


async def remember(call: TurnCommand, context: TurnContext, window: ContextWindow, specs: tuple[ToolSpec, ...]) -> str:
    """Show the diff, ask, and write: `/remember`. Raises: StoreError."""
    wish = read_wish(call.arguments)
    if wish is None:
        return _USAGE
    if len(wish.line) > LINE_CHARACTERS:
        return f"The line has {len(wish.line)} characters, more than {LINE_CHARACTERS}. Shorten it, or edit the file."
    if context.modes is None:
        return "Nothing was written: /remember asks before it changes a file, and no user can be asked here."
    try:
        path = _path_of(wish, call, context)
        async with context.edits:
            return await _add(wish, path, context)
    except ToolError as error:
        return f"Nothing was written: {error}."


async def _add(wish: Wish, path: str, context: TurnContext) -> str:
    """Raises: ToolError."""
    planned = await _plan(wish, path, context)
    if planned.is_there:
        return f"{path} has this line already."
    call_id = f"remember_{context.message.id}"
    call = context.for_call(call_id)
    title = f"Remember for {'all projects' if wish.scope == 'user' else 'this project'}: {shorten(wish.line, 60)}"
    diff, place = FileDiff(path, planned.before, planned.after), Location(path)
    display = ToolDisplay("edit", (place,), (diff,))
    await context.emit(c.StartStep())
    shown = c.ToolInputAvailable(call_id, "remember", {"path": path, "line": wish.line})
    await context.emit(with_display(shown, title, display))
    try:
        denied = _denial(title, path, context)
        if denied:
            await context.emit(c.ToolOutputError(call_id, denied))
            return f"Nothing was written: {denied}"
        if await _answer(call) != _YES:
            await context.emit(c.ToolOutputDenied(call_id))
            return "Nothing was written."
        if await _plan(wish, path, context) != planned:
            raise ToolError(f"{path} has changed since the diff was shown; try again")
        await context.access.write_text(path, planned.after)
    except ToolError as error:
        await context.emit(c.ToolOutputError(call_id, str(error)))
        raise
    else:
        output = ToolOutput(f"Added a line to {path}.", (diff,), (place,))
        await context.emit(c.ToolOutputAvailable(call_id, to_builtins(output)))
        return f"Added to {path}."
    finally:
        await context.emit(c.FinishStep())


async def _answer(call: TurnContext) -> str | None:
    from dragoman.policy.decide import Option

    return await call.choose([Option(_YES, "Add the line", "allow_once"), Option(_NO, "Do not add it", "reject_once")])


def _denial(title: str, path: str, context: TurnContext) -> str:
    """Return why a rule refuses the change; empty if none does.

    The mode does not count: the user asks for this change.
    """
    from dragoman.builtin.tools.paths import change

    for request in change(title, path, context):
        verdict = context.permissions.verdict_of_rules(request)
        if verdict.action == "deny":
            return f"{verdict.why}."
    return ""


async def _plan(wish: Wish, path: str, context: TurnContext) -> PlannedLine:
    """Raises: ToolError."""
    try:
        before = await context.access.read_text(path)
    except FileNotFoundError:
        before = None
    return PlannedLine(path, before, with_line(before, wish.line))


def _path_of(wish: Wish, call: TurnCommand, context: TurnContext) -> str:
    """Return the file to change. Raises: ToolError for a link that leads out of the project."""
    if wish.scope == "user":
        # The user's own file may be a link to any place, and stays one.
        return os.path.realpath(call.config_dir / FILE)
    project = find_project(Path(context.cwd))
    path = project / FILE
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(project):
        raise ToolError(f"{path} is a link that leads out of the project, to {real}; edit it yourself")
    # By the name of the session's folder, if that is a link to the project, so that the client knows the file.
    is_here = os.path.realpath(context.cwd) == str(project)
    return os.path.join(context.cwd, FILE) if is_here and real == path else str(real)


def read_wish(arguments: str) -> Wish | None:
    """Read the words after the command; None if there is nothing to remember."""
    line = sentence(arguments).lstrip("-* ").strip()
    first, _, rest = line.partition(" ")
    if first in ("user", "project"):
        line = rest.strip().lstrip("-* ").strip()
        return Wish("user" if first == "user" else "project", line) if line else None
    return Wish("project", line) if line else None


def with_line(text: str | None, line: str) -> str:
    """Return the text with a line at its end; the same text if it has that line already. Line ends are kept."""
    if text is None or not text.strip():
        return f"{HEADING}\n\n- {line}\n"
    if any(written.strip().lstrip("-*+ ").rstrip() == line for written in text.splitlines()):
        return text
    end = "\r\n" if "\r\n" in text else "\n"
    body = text.rstrip()
    is_listed = body.splitlines()[-1].lstrip().startswith(("- ", "* "))
    return f"{body}{end if is_listed else end * 2}- {line}{end}"
