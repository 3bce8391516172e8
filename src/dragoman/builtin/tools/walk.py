"""The files below a folder, sorted by name.

Owns the walk: ignored and hidden files are left out, links are never followed, and another thread can stop it. It runs
in threads; only `in_thread` uses asyncio.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Final, TypeVar

from dragoman.workspace.ignore import RULES_FILE, IgnoreStack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

# A search that takes longer is probably one of a whole disk; the results until then are shown.
SEARCH_SECONDS: Final = 30.0
_GIT: Final = ".git"


class Stop:
    """A flag that ends the work of a thread: when its result is no longer needed, or when it takes too long."""

    __slots__ = ("_deadline", "is_set", "was_late")

    def __init__(self, seconds: float = SEARCH_SECONDS) -> None:
        self.is_set = False
        self.was_late = False
        self._deadline = time.monotonic() + seconds

    def __bool__(self) -> bool:
        if not self.is_set and time.monotonic() > self._deadline:
            self.is_set = self.was_late = True
        return self.is_set


async def in_thread(work: Callable[[Stop], T]) -> tuple[T, bool]:
    """Run `work` in a thread; return its result and whether it was stopped because it took too long.

    When this is cancelled, the thread ends soon.
    """
    stop = Stop()
    try:
        return await asyncio.to_thread(work, stop), stop.was_late
    finally:
        stop.is_set = True


def walk(start: str, stop: Stop, *, hidden: bool = False, ignored: bool = False) -> Iterator[str]:
    """Yield the paths of regular files, relative to `start`.

    Args:
        hidden: Include files and folders whose name begins with a dot, except `.git`.
        ignored: Include what git ignores.
    """
    # The entries of a folder are added in reverse, so that the next one is at the end. A folder ends with a slash.
    waiting: list[tuple[str, IgnoreStack | None]] = [("", None if ignored else IgnoreStack.above(start))]
    while waiting and not stop:
        before, rules = waiting.pop()
        if before and not before.endswith("/"):
            yield before
            continue
        folder = os.path.join(start, before[:-1]) if before else start
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name, reverse=True)
        except OSError:
            continue  # not readable, or deleted in the meantime
        if rules is not None and before:
            names = {entry.name for entry in entries if entry.name in (RULES_FILE, _GIT)}
            rules = rules.inside(folder, before[:-1], has_rules=RULES_FILE in names, is_repository=_GIT in names)
        for entry in entries:
            if stop.is_set:
                return
            name = entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if name == _GIT or not (is_folder or entry.is_file(follow_symlinks=False)):
                continue
            decision = None if rules is None else rules.decide(before + name, name, is_folder)
            if decision or (decision is None and not hidden and name.startswith(".")):
                continue
            waiting.append((f"{before}{name}/" if is_folder else before + name, rules))
