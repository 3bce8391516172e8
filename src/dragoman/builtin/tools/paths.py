"""Paths and words of a call: made absolute, made short for people, and put into what the watchdog is asked.

Owns how a tool's `path` is read, how a link is told from what it points to, and titles that never fail on arguments
which are half there. Does not open files.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.tools.tool import ToolError
from dragoman.policy.paths import is_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

AGENT: Final = "dragoman"
_TITLE_LETTERS: Final = 120
_SIMILAR: Final = 3


def absolute(path: str, cwd: str) -> str:
    """The path as every other part knows it: absolute, without `.` and `..`; `~/` is the home folder.

    Raises: ToolError for what names no file.
    """
    if not path.strip() or "\0" in path:
        raise ToolError("the path is empty or holds a NUL; give the path of a file")
    return _joined(path, cwd)


def _joined(path: str, cwd: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)
    # Two leading slashes mean something of their own to POSIX and nothing to Linux.
    return "/" + os.path.normpath(os.path.join(cwd, path)).lstrip("/")


def shown(path: str, cwd: str) -> str:
    """A path for people and models: relative if it is below the working folder, always printable text."""
    start = cwd.rstrip("/") + "/"
    short = path[len(start) :] if path.startswith(start) else path
    # Names that are no UTF-8 cannot be told; a replacement is at least seen as one.
    return ("." if path == cwd else short).encode("utf-8", "replace").decode()


def real_path(path: str, roots: Sequence[str]) -> str:
    """Where a path leads through links, told by the names of the roots, which may be links themselves."""
    real = os.path.realpath(path)
    for root in roots:
        real_root = os.path.realpath(root)
        if is_below(real, real_root):
            return os.path.normpath(os.path.join(root, os.path.relpath(real, real_root)))
    return real


# What the watchdog is asked


def look(kind: str, title: str, path: str, context: ToolContext) -> tuple[Request, ...]:
    """Leave to look at a file or below a folder. What this agent itself laid aside as too long needs none."""
    kept = os.path.realpath(context.overflow_dir)
    if is_below(os.path.realpath(path), kept) and not any(is_below(os.path.realpath(r), kept) for r in context.roots):
        return ()
    return (_request(kind, title, path, context),)


def change(title: str, path: str, context: ToolContext) -> tuple[Request, ...]:
    """Leave to change a file."""
    return (_request("edit", title, path, context, caution=_caution(path, context)),)


def _request(kind: str, title: str, path: str, context: ToolContext, *, caution: str = "") -> Request:
    from dragoman.policy import Request

    real = real_path(path, context.roots)
    return Request(
        agent=AGENT,
        kind=kind,
        title=title,
        paths=(path,) if real == path else (path, real),
        root=context.roots[0] if context.roots else context.cwd,
        home=os.path.expanduser("~"),
        caution=caution,
    )


def _caution(path: str, context: ToolContext) -> str:
    real = real_path(path, context.roots)
    if real != path:
        return f"{path} leads through a symbolic link to {real}"
    try:
        status = os.lstat(path)
    except OSError:
        return ""  # nothing there, or nothing to be seen: the work itself will tell
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        return f"{path} is a hard link: the same file has {status.st_nlink} names, some maybe outside of the project"
    return ""


# Arguments that may be half there


def word(arguments: dict[str, Any], name: str) -> str:
    """The text of an argument, empty if there is none."""
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def number(arguments: dict[str, Any], name: str) -> int | None:
    """The number of an argument; models write numbers as text too."""
    value = arguments.get(name)
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        return int(value)
    return value if isinstance(value, int) else None


def place_of(arguments: dict[str, Any], cwd: str, name: str = "path") -> str | None:
    """The absolute path an argument names so far."""
    path = word(arguments, name)
    return _joined(path, cwd) if path.strip() and "\0" not in path else None


def one_line(text: str, letters: int = _TITLE_LETTERS) -> str:
    """Text for a title."""
    line = " ".join(text.split())
    return line if len(line) <= letters else line[: letters - 1] + "…"


def no_such_file(path: str, context: ToolContext, advice: str) -> ToolError:
    """That there is no such file, with the names that may have been meant."""
    meant = ""
    folder = os.path.dirname(path)
    if any(is_below(os.path.realpath(folder), os.path.realpath(root)) for root in context.roots):
        similar = _similar_names(folder, os.path.basename(path))
        names = ", ".join(shown(os.path.join(folder, name), context.cwd) for name in similar)
        meant = f" Did you mean {names}?" if names else ""
    return ToolError(f"there is no file {shown(path, context.cwd)}; {advice}.{meant}")


def _similar_names(folder: str, name: str) -> list[str]:
    import difflib

    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return difflib.get_close_matches(name, names[:2000], _SIMILAR, 0.6)
