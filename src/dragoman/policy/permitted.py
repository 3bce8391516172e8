"""Which protected files may change, because the user permitted an edit of them or a command that names them.

A permitted command covers a file by its path, or by its name below the project; the bare name of a file is not enough,
because many folders have a file of that name. Pure: paths are real paths.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from dragoman.policy.decide import TURN_PERMISSION, USER
from dragoman.policy.paths import is_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy.decide import Decision
    from dragoman.policy.request import Request

_CHANGING: Final = frozenset({"edit", "delete", "move"})
_MOST_LINES: Final = 1_000  # permitted commands that are remembered


class Permitted:
    """What was permitted so far.

    Args:
        project: the folder below which commands name files.
        own_files: files of the agent below the project, which it writes when the user answers "always".
        is_everything: whether the user permitted everything in advance.
    """

    def __init__(self, project: str, own_files: Sequence[str] = (), *, is_everything: bool = False) -> None:
        self._project = project
        self._own_files = own_files
        self._is_everything = is_everything
        self._paths: set[str] = set()
        self._lines: list[str] = []

    def __bool__(self) -> bool:
        """Whether anything was permitted."""
        return bool(self._is_everything or self._paths or self._lines)

    def add(self, requests: Sequence[Request], decision: Decision) -> None:
        """Note that the decision permits these requests."""
        for request in requests:
            if request.kind in _CHANGING:
                self._paths.update(request.paths)
            # A rule may cover commands that its author did not think of; the user saw this one.
            elif request.command is not None and decision.decided_by in (USER, TURN_PERMISSION):
                self._lines.append(request.command.line or " ".join(request.command.argv or ()))
                del self._lines[:-_MOST_LINES]
        if decision.decided_by == USER and decision.option_kind == "allow_always":
            self._paths.update(posixpath.join(self._project, name) for name in self._own_files)

    def covers(self, path: str) -> bool:
        """Whether the user permitted the change of a protected file."""
        if self._is_everything or any(is_below(path, permitted) for permitted in self._paths):
            return True
        inner = posixpath.relpath(path, self._project)
        return any(path in line or inner in line for line in self._lines)
