"""The folder in which commands run: it stays where the last successful command left it, as in a terminal.

Owns how the end of a command is observed (in a client's terminal it is only read from the line), which folders are
accepted, and that a call runs in the folder that was judged. Calls run in parallel: the folder of a call is fixed when
its permission is requested, whatever another call does in the meantime. Each call starts a shell of its own, so nothing
but the folder is kept.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.builtin.tools import paths

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import ToolContext

# In a session's memory: the folder by the client's folders, and the folders of calls that were judged.
_KEY: Final = "shell folder"
_JUDGED: Final = "folders of judged commands"
_MOST_JUDGED: Final = 100
_CHANGES_FOLDER: Final = re.compile(r"(?<![\w./-])(?:cd|pushd|popd)(?![\w./-])")
# With these the shell at the end may be another program, or our trap may be replaced, or write into a file of the user.
_KEEPS_FROM_LOOKING: Final = re.compile(r"\b(?:exec|trap)\b")
# OSC 7 is how shells report their folder to terminals, which do not show it. A terminal ignores it for a host that it
# does not know, and a program whose output contains one cannot know ours.
_REPORT: Final = r"\x1b\]7;file://{host}(/[^\x00-\x1f\x7f]*)\x07"


class ObservedLine(Struct, frozen=True):
    """A command line that reports the folder in which it ended, if it may change that."""

    line: str
    host: str = ""
    is_moving: bool = False
    """Whether the line has a command that changes the folder."""

    def split(self, text: str) -> tuple[str, str | None]:
        """Return the output without the report, and the folder it states."""
        if not self.host:
            return text, None
        found = list(re.finditer(_REPORT.format(host=self.host), text))
        if not found:
            return text, None
        last = found[-1]
        return text[: last.start()] + text[last.end() :], last[1]


def observed(line: str) -> ObservedLine:
    """Return the line to run. The same line if it does not change the folder."""
    if not _CHANGES_FOLDER.search(line):
        return ObservedLine(line)
    if _KEEPS_FROM_LOOKING.search(line):
        return ObservedLine(line, is_moving=True)
    host = f"dragoman-{os.urandom(8).hex()}"
    # On the same line, so that the shell's errors keep their line numbers.
    report = f'trap \'printf "\\033]7;file://{host}%s\\007" "$(pwd -P)"\' EXIT; '
    return ObservedLine(report + line, host, is_moving=True)


def folder_after(line: str, folder: str) -> str | None:
    """Return where a line that succeeded has ended, as far as it can be read from the line; None if it cannot."""
    from dragoman.policy import Command

    if "#" in line:  # what is added behind a comment would not be read
        return None
    reading = Command(line=f"{line.rstrip()} && true").reading(folder, os.path.expanduser("~"))
    folders = reading.parts[-1].folders if reading.parts else ()
    return folders[0] if len(folders) == 1 else None


def folder_of(command: str, cwd: str | None, context: ToolContext) -> str:
    """Return the folder of a call, the same one until `release`.

    Args:
        cwd: the folder that the call names; None is where the last command ended.
    """
    judged: dict[Any, str] = context.memory.setdefault(_JUDGED, {})
    key = (context.tool_call_id, command, cwd)
    if key not in judged:
        judged[key] = paths.absolute(cwd, context.cwd) if cwd else current_folder(context)
        while len(judged) > _MOST_JUDGED:  # of calls that were not permitted
            del judged[next(iter(judged))]
    return judged[key]


def release(command: str, cwd: str | None, context: ToolContext) -> None:
    """Forget the folder of a call that is over."""
    context.memory.get(_JUDGED, {}).pop((context.tool_call_id, command, cwd), None)


def current_folder(context: ToolContext) -> str:
    """Return where the next command runs: where the last one ended, or in the working folder if that is gone."""
    folder: str | None = context.memory.get(_KEY, {}).get(_client(context))
    if folder is None or not os.path.isdir(folder) or not _is_inside(folder, context):
        return context.cwd
    return folder


def moved_line(context: ToolContext) -> list[str]:
    """Return the line of a list that names the folder of commands; empty if it is the working folder."""
    folder = current_folder(context)
    return [] if folder == context.cwd else [f"commands run in {paths.shown(folder, context.cwd)}"]


def lost_folder(context: ToolContext) -> str:
    """Return what the model has to know if the folder in which the last command ended is gone; otherwise empty."""
    folder: str | None = context.memory.get(_KEY, {}).get(_client(context))
    if folder is None or current_folder(context) == folder:
        return ""
    del context.memory[_KEY][_client(context)]
    return f"[{paths.shown(folder, context.cwd)} is gone: commands run in the working folder again]"


def keep_folder(folder: str | None, context: ToolContext) -> str:
    """Keep where a command ended for the next one. Returns what the model has to know of it, empty if nothing changed.

    Args:
        folder: None if it is not known.
    """
    before = current_folder(context)
    if folder is None:
        return f"[the next command runs in {before}: where this one ended is not known]"
    real = paths.real_path(folder, context.roots)
    if real in (before, os.path.realpath(before)):
        return ""
    if not os.path.isdir(real) or not _is_inside(real, context):
        return f"[{real} is outside of the session's folders: the next command runs in {before}]"
    context.memory.setdefault(_KEY, {})[_client(context)] = real
    if real == context.cwd:
        return "[commands run in the working folder again]"
    name = paths.shown(real, context.cwd)
    return f"[commands run in {name} from now on; paths of other tools still start at the working folder]"


def _client(context: ToolContext) -> tuple[str, ...]:
    """Return the folders of the client: a session can have clients with different ones."""
    return (context.cwd, *context.roots)


def _is_inside(folder: str, context: ToolContext) -> bool:
    from dragoman.policy.paths import is_below

    real = os.path.realpath(folder)
    return any(is_below(real, os.path.realpath(root)) for root in context.roots)
