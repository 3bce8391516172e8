"""Every file below a folder that is worth a look, in the order of names.

Owns walking: what git ignores and what is hidden is left out, links are never followed, a walk can be stopped from
another thread. Runs in threads; knows no asyncio but in `in_thread`.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Final, TypeVar

from dragoman.builtin.tools.ignore import RULES_FILE, IgnoreStack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

# A search that takes longer is one of a whole disk; what was found until then is shown.
SEARCH_SECONDS: Final = 30.0
_GIT: Final = ".git"


class Stop:
    """Says a working thread when to end: nobody waits any more, or it took too long."""

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
    """What `work` gave, and whether it was stopped for taking too long. Cancelled, it makes the thread end soon."""
    stop = Stop()
    try:
        return await asyncio.to_thread(work, stop), stop.was_late
    finally:
        stop.is_set = True


def walk(start: str, stop: Stop, *, hidden: bool = False, ignored: bool = False) -> Iterator[str]:
    """The paths of regular files, relative to `start`. `hidden` and `ignored` take those in as well; never `.git`."""
    rules = None if ignored else IgnoreStack.above(start)
    # Folders and files of one folder in reverse, so that the next to look at is at the end.
    waiting: list[tuple[str, IgnoreStack | None]] = []
    _look(start, "", rules, waiting, stop, hidden=hidden)
    while waiting and not stop:
        path, below = waiting.pop()
        if not path.endswith("/"):
            yield path
            continue
        _look(start, path[:-1], below, waiting, stop, hidden=hidden)


def _look(
    start: str,
    folder: str,
    rules: IgnoreStack | None,
    waiting: list[tuple[str, IgnoreStack | None]],
    stop: Stop,
    *,
    hidden: bool,
) -> None:
    """Adds what is in a folder to what waits; a folder ends with a slash."""
    try:
        with os.scandir(os.path.join(start, folder) if folder else start) as found:
            entries = sorted(found, key=lambda entry: entry.name, reverse=True)
    except OSError:
        return  # not ours to read, or gone meanwhile
    if rules is not None and folder:
        names = {entry.name for entry in entries if entry.name in (RULES_FILE, _GIT)}
        rules = rules.inside(
            os.path.join(start, folder), folder, has_rules=RULES_FILE in names, is_repository=_GIT in names
        )
    before = f"{folder}/" if folder else ""
    for entry in entries:
        if stop.is_set:
            return
        name = entry.name
        if name == _GIT or not (
            (is_folder := entry.is_dir(follow_symlinks=False)) or entry.is_file(follow_symlinks=False)
        ):
            continue
        decision = None if rules is None else rules.decide(before + name, name, is_folder)
        if decision or (decision is None and not hidden and name.startswith(".")):
            continue
        waiting.append((f"{before}{name}/" if is_folder else before + name, rules))
