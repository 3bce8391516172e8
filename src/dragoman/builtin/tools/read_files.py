"""The files that the model has read in this session, and their content at that time.

Owns the answer to the questions whether the model knows what it is about to overwrite, and which of these files have
changed on the disk since. Keeps digests, not text.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.tools import paths

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import ToolContext

_KEY: Final = "files"
# State of files on the disk, as far as the model knows it or was informed about a change.
_STATES: Final = "states of files"
# The files read last are looked at after each command; a look costs some microseconds.
_MOST_LOOKED_AT: Final = 500
_MOST_NAMED: Final = 10
_LARGEST_BYTES: Final = 10 * 1024 * 1024


def remember(memory: dict[str, Any], path: str, text: str) -> None:
    """Record that the model has seen this file with the content `text`."""
    known = memory.setdefault(_KEY, {})
    known.pop(path, None)  # so that the last one read is the last one in the order
    known[path] = _digest(text)
    memory.setdefault(_STATES, {})[path] = _state(path)


def forget(memory: dict[str, Any], path: str) -> None:
    """Record that a tool has deleted this file."""
    memory.get(_KEY, {}).pop(path, None)


def is_known(memory: dict[str, Any], path: str) -> bool:
    """Whether the model has read or written this file."""
    return path in memory.get(_KEY, {})


def is_current(memory: dict[str, Any], path: str, text: str) -> bool:
    """Whether the model has last seen this file with the content `text`."""
    return bool(memory.get(_KEY, {}).get(path) == _digest(text))


def describe_changed(context: ToolContext) -> str:
    """Return a line that names the files that have changed since the model read them, each change once. Blocks."""
    changed = changed_files(context.memory)
    if not changed:
        return ""
    names = [paths.shown(path, context.cwd) + ("" if os.path.lexists(path) else " (deleted)") for path in changed]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"[changed since you read it: {', '.join(names[:_MOST_NAMED])}{more}]"


def changed_files(memory: dict[str, Any]) -> list[str]:
    """Return the files whose content is not what the model has seen; a change is returned once. Blocks."""
    known, states = memory.get(_KEY, {}), memory.get(_STATES, {})
    changed = []
    for path in list(known)[-_MOST_LOOKED_AT:]:
        state = _state(path)
        if state == states.get(path):
            continue
        states[path] = state
        if state is None or _digest_of_file(path) != known[path]:
            changed.append(path)
    return changed


def _state(path: str) -> tuple[int, ...] | None:
    """Return what changes when a file is written; None if there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _digest_of_file(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            return _digest(file.read(_LARGEST_BYTES).decode("utf-8", "surrogateescape"))
    except OSError:
        return None


def _digest(text: str) -> bytes:
    import hashlib

    # Some editors send a CRLF file with LF; that is not a change.
    plain = text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
    return hashlib.blake2b(plain, digest_size=16).digest()
