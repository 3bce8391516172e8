"""The search for the daemons that an agent works with, by words of their command lines.

Owns the search. A daemon that this program's child started carries the child's marker and ends with it (`sweep.py`);
one that was there before, or that another program started, is left alone. Ends nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

from dragoman.process import proctable


class Daemon(NamedTuple):
    """A running daemon."""

    pid: int
    command_line: str
    word: str
    """The word that it was found by."""
    is_ours: bool
    """It carries the marker, so that child started it."""


def find_daemons(words: Collection[str], marker: str = "") -> list[Daemon]:
    """Return the running processes of this user with one of these words in their command line, oldest pid first.

    This program and its ancestors are left out: the words may be in their arguments.
    """
    if not words or not proctable.is_readable():
        return []
    own, uid = _ancestors(), os.getuid()
    found = []
    for pid in sorted(proctable.pids()):
        try:
            if pid in own or proctable.owner(pid) != uid:
                continue
            line = proctable.command_line(pid).strip()
            word = next((word for word in words if word in line), None)
            if word is not None and proctable.status(pid).is_alive:
                is_ours = bool(marker) and marker.encode() in proctable.environment(pid)
                found.append(Daemon(pid, line, word, is_ours))
        except OSError:  # it has ended meanwhile, or is not ours to read
            continue
    return found


def _ancestors() -> set[int]:
    found = {os.getpid()}
    pid = os.getppid()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            pid = proctable.status(pid).parent
        except OSError:
            break
    return found
