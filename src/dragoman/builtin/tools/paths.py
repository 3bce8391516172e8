"""Paths and other arguments of a tool call: made absolute, shortened for titles, and put into permission requests.

Owns how a tool's `path` is read, how symbolic links are recognized, and how titles are made from arguments that are
still incomplete. Does not open files.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.tools.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

AGENT: Final = "dragoman"
TITLE_LETTERS: Final = 120
_MOST_DIGITS: Final = 20  # Python refuses to read a number of thousands of digits
_SIMILAR: Final = 3
# In a session's memory: where links lead that were judged, by call and path.
_TARGETS: Final = "judged targets of links"
_MOST_TARGETS: Final = 100


def absolute(path: str, cwd: str) -> str:
    """Return an absolute path without `.` and `..`; `~/` is the home folder.

    Raises: ToolError for an empty path.
    """
    if not path.strip() or "\0" in path:
        raise ToolError("the path is empty or contains a NUL; give the path of a file")
    return joined(path, cwd)


def joined(path: str, cwd: str) -> str:
    """Return an absolute path without `.` and `..`; `~/` is the home folder. Any text is accepted."""
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)
    # POSIX allows a special meaning for two leading slashes; Linux has none.
    return "/" + os.path.normpath(os.path.join(cwd, path)).lstrip("/")


def shown(path: str, cwd: str) -> str:
    """Return a path for users and models: relative if it is below the working folder, and always encodable."""
    return encodable("." if path == cwd else path.removeprefix(cwd.rstrip("/") + "/"))


def encodable(text: str) -> str:
    """Return the text with `?` for each byte of a file name that is not UTF-8."""
    return text.encode("utf-8", "replace").decode()


def real_path(path: str, roots: Sequence[str]) -> str:
    """Resolve the links of a path. Below a root, the root keeps its name, even if it is a link itself."""
    from dragoman.policy.paths import is_below  # here, because `dragoman.policy` takes longer to load than the tools

    real = os.path.realpath(path)
    for root in roots:
        real_root = os.path.realpath(root)
        if is_below(real, real_root):
            return os.path.normpath(os.path.join(root, os.path.relpath(real, real_root)))
    return real


# Permission requests


def request(kind: str, title: str, context: ToolContext, **members: Any) -> Request:
    """Return a permission request of this agent. `members` are further members of `Request`."""
    from dragoman.policy import Request

    root = context.roots[0] if context.roots else context.cwd
    return Request(AGENT, kind, title, root=root, home=os.path.expanduser("~"), **members)


def look(kind: str, title: str, path: str, context: ToolContext) -> tuple[Request, ...]:
    """Return the request to read a file or search a folder; none for long output that this agent itself has kept."""
    from dragoman.policy.paths import is_below

    kept = os.path.realpath(context.overflow_dir)
    if is_below(os.path.realpath(path), kept) and not any(is_below(os.path.realpath(r), kept) for r in context.roots):
        return ()
    real = real_path(path, context.roots)
    _note_target(path, real, context)
    return (request(kind, title, context, paths=tuple(dict.fromkeys((path, real)))),)


def change(title: str, path: str, context: ToolContext) -> tuple[Request, ...]:
    """Return the request to change a file, with a caution if the path is a link."""
    real = real_path(path, context.roots)
    caution = ""
    if real != path:
        caution = f"{path} leads through a symbolic link to {real}"
        _note_target(path, real, context)
    else:
        with suppress(OSError):  # there is no such file, or it cannot be examined: the write itself will report that
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                names = f"the same file has {status.st_nlink} names, some of them possibly outside of the project"
                caution = f"{path} is a hard link: {names}"
    return (request("edit", title, context, paths=tuple(dict.fromkeys((path, real))), caution=caution),)


def may_read(path: str, context: ToolContext) -> bool:
    """Whether the file may be read without asking, so that a change of it can be checked before it is permitted."""
    return all(context.verdict(needed).action == "allow" for needed in look("read", f"Read {path}", path, context))


def _note_target(path: str, real: str, context: ToolContext) -> None:
    """Note where a link leads out of the session's folders: that file is judged, and only that one may be opened."""
    from dragoman.policy.paths import is_below

    if real != path and not any(is_below(real, root) for root in context.roots):
        targets = context.memory.setdefault(_TARGETS, {})
        targets[context.tool_call_id, path] = real
        while len(targets) > _MOST_TARGETS:  # of calls that were not permitted
            del targets[next(iter(targets))]


def permitted_target(path: str, context: ToolContext) -> str:
    """Return the path to open, once for each call: where its link leads if that is outside and was judged, else itself.

    Raises: ToolError if the link leads elsewhere by now.
    """
    real = context.memory.get(_TARGETS, {}).pop((context.tool_call_id, path), None)
    if real is None:
        return path
    if os.path.realpath(path) != real or os.path.realpath(real) != real:
        raise ToolError(f"{path} led to {real} when permission was asked for, and leads elsewhere now; try again")
    return str(real)


# Arguments that may be incomplete


def word(arguments: dict[str, Any], name: str) -> str:
    """Return the text of an argument, empty if there is none."""
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def number(arguments: dict[str, Any], name: str) -> int | None:
    """Return the number of an argument; models also write numbers as text."""
    value = arguments.get(name)
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and len(value) < _MOST_DIGITS and value.strip().removeprefix("-").isdecimal():
        return int(value)
    return value if isinstance(value, int) else None


def path_of(arguments: dict[str, Any], cwd: str) -> str | None:
    """Return the absolute form of the argument `path`, as far as it has arrived."""
    path = word(arguments, "path")
    return joined(path, cwd) if path.strip() and "\0" not in path else None


def no_such_file(path: str, context: ToolContext, advice: str) -> ToolError:
    """Return the error for a missing file, with similar names in its folder."""
    from dragoman.policy.paths import is_below

    meant = ""
    folder = os.path.dirname(path)
    if any(is_below(os.path.realpath(folder), os.path.realpath(root)) for root in context.roots):
        import difflib

        similar: list[str] = []
        with suppress(OSError):
            similar = difflib.get_close_matches(os.path.basename(path), os.listdir(folder)[:2000], _SIMILAR, 0.6)
        names = ", ".join(shown(os.path.join(folder, name), context.cwd) for name in similar)
        meant = f" Did you mean {names}?" if names else ""
    return ToolError(f"there is no file {shown(path, context.cwd)}; {advice}.{meant}")
