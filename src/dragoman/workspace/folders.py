"""The folders of a session, and where the paths lead that an agent names: the only place that resolves them for rules.

A rule is about a file under any of its names, so a path counts as it is written and with its links resolved. Make one
object for each request: links may change between two of them, and what was resolved is kept.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman.policy.paths import is_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy.request import Request


class SessionFolders:
    """The folders of one session.

    Args:
        cwd: the session's own folder.
        added: its additional folders.
        project: the folder that rules count for, where relative paths start; None for the session's own.
    """

    def __init__(self, cwd: str, added: Sequence[str] = (), *, project: str | None = None) -> None:
        self.given = (cwd, *added)
        """The session's folders as they were given."""
        self.given_project = cwd if project is None else project
        self._resolved: dict[str, str] = {}

    @cached_property
    def project(self) -> str:
        """The real path of the folder that rules count for."""
        return os.path.realpath(self.given_project)

    @cached_property
    def real(self) -> tuple[str, ...]:
        """The real paths of the session's folders, its own first."""
        return tuple(map(os.path.realpath, self.given))

    def resolve(self, path: str) -> str:
        """Return the absolute path with links resolved; one that cannot be resolved stays as written."""
        real = self._resolved.get(path)
        if real is None:
            whole = os.path.join(self.given_project, os.path.expanduser(path))
            real = self._resolved[path] = path if "\0" in path else os.path.realpath(whole)
        return real

    def enter(self, start: str, path: str, *, knows_home: bool = False) -> str:
        """Return the real path that a command in a folder means; `knows_home` if `~` is the user's home to it."""
        return os.path.realpath(os.path.join(start, os.path.expanduser(path) if knows_home else path))

    def settle(self, path: str) -> tuple[str, ...]:
        """Return the path as written, made absolute, and with links resolved."""
        if "\0" in path:
            return (path,)
        whole = os.path.normpath(os.path.join(self.given_project, os.path.expanduser(path)))
        inside = os.path.relpath(whole, self.given_project)
        # The project's folder may itself be a link; rules are about the project under any of its names.
        written = whole if inside.startswith("..") else os.path.normpath(os.path.join(self.project, inside))
        return written, self.resolve(path)

    def settle_request(self, request: Request, agent: str) -> Request:
        """Return the request with its agent and project filled in, and every path as `settle` gives it."""
        command = request.command
        if command is not None and command.cwd:
            command = command.moved(self.enter(self.given_project, command.cwd))
        paths = dict.fromkeys(settled for path in request.paths for settled in self.settle(path) if settled)
        return replace(
            request,
            agent=request.agent or agent,
            root=self.project,
            home=request.home or os.path.expanduser("~"),
            paths=tuple(paths),
            command=command,
        )

    def hold(self, real: str) -> bool:
        """Return whether a real path is below one of the session's folders."""
        return any(is_below(real, root) for root in self.real)

    def hold_all(self, paths: Sequence[str]) -> bool:
        """Return whether there are paths, and all of them are below the folders of the session or the project."""
        return bool(paths) and all(self.hold(path) or is_below(path, self.project) for path in paths)
