"""The protected files of every session's folders, compared before and after each turn.

Sessions name their folders when they are opened, so there is one tripwire for each of them. A home folder is not
searched, nor one that all users share, such as /tmp: they are not projects, and others change them.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from dragoman.errors import DragomanError
from dragoman.policy.paths import is_below
from dragoman.process.sandbox import Tripwire
from dragoman.process.sandbox.policy import unconfined_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dragoman.process.sandbox import ProtectedChange, SandboxPolicy


class SessionTripwires(Tripwire):
    """The tripwires of all sessions, used as one.

    Args:
        aside: the folder for old content.
        confined: the policy of the sandbox of commands, whose folders are watched from the start; None without one.
    """

    def __init__(self, aside: str | os.PathLike[str], confined: SandboxPolicy | None = None) -> None:
        self._kept_in = aside
        self._all: dict[str, Tripwire] = {}
        if confined is not None:
            self._all["the sandbox"] = Tripwire(confined, aside)

    def add(self, folders: Iterable[str]) -> None:
        """Watch further folders from now on, if nothing confines commands to others."""
        home = os.path.realpath(os.path.expanduser("~"))
        for folder in folders:
            real = os.path.realpath(folder)
            if real in self._all or "the sandbox" in self._all or is_below(home, real) or _is_shared(real):
                continue
            with suppress(DragomanError, OSError):
                made = Tripwire(unconfined_policy((real,)), self._kept_in, is_confined=False)
                made.arm()
                self._all[real] = made

    def arm(self) -> None:
        for tripwire in self._all.values():
            tripwire.arm()

    def accept(self, path: str | os.PathLike[str]) -> None:
        for tripwire in self._all.values():
            tripwire.accept(path)

    def check(self, *, restore: bool, is_expected: Callable[[str], bool] | None = None) -> list[ProtectedChange]:
        found = [tripwire.check(restore=restore, is_expected=is_expected) for tripwire in self._all.values()]
        return [change for changes in found for change in changes]


def _is_shared(folder: str) -> bool:
    """Whether all users may write in a folder; also for one that cannot be read."""
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return True
    return not stat.S_ISDIR(mode) or bool(mode & stat.S_ISVTX)
