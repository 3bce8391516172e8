"""The processes of the commands that Codex runs, as the system has them.

Codex reports that a command has ended when its first process has. The others were sent the same signal, and on a busy
machine they are there for some time after that. Owns finding those that are left.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from dragoman.process.proctable import Status, pids, status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def descendants_of(pid: int) -> dict[int, Status]:
    """Every process below one."""
    table: dict[int, Status] = {}
    for each in pids():
        with suppress(OSError):
            table[each] = status(each)
    children: dict[int, list[int]] = {}
    for each, known in table.items():
        children.setdefault(known.parent, []).append(each)
    found: dict[int, Status] = {}
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found[child] = table[child]
                waiting.append(child)
    return found


def left_of_ended(before: Mapping[int, Status]) -> list[int]:
    """Processes that live on although the first process of their command, a group leader, has ended since `before`."""
    ended = {pid for pid, known in before.items() if known.group == pid and not _is_alive(pid, known)}
    return [pid for pid, known in before.items() if _is_below(pid, ended, before) and _is_alive(pid, known)]


def kill(left: Iterable[int]) -> None:
    """End processes at once."""
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _is_below(pid: int, ended: set[int], before: Mapping[int, Status]) -> bool:
    while pid in before:
        if pid in ended:
            return True
        pid = before[pid].parent
    return False


def _is_alive(pid: int, known: Status) -> bool:
    """Whether it runs; a process of another group has its number by now."""
    try:
        now = status(pid)
    except OSError:
        return False
    return now.is_alive and now.group == known.group
