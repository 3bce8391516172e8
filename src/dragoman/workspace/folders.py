"""The folders of a session, and where the paths lead that an agent names: the only place that resolves them for rules.

A rule is about a file under any of its names, so a path counts as it is written and with its links resolved. Make one
object for each request: links may change between two of them, and what was resolved is kept.
"""

from __future__ import annotations

import os
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman.boundary import Boundary, boundary_around
from dragoman.policy.paths import is_below, normalise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy.request import Request


class SessionFolders:
    """The folders of one session.

    Args:
        cwd: the session's own folder.
        added: its additional folders.
        project: the folder that rules count for; None for the session's own. Relative paths of an agent start in the
            session's own folder, those of rules in the project and in each additional folder.
    """

    def __init__(self, cwd: str, added: Sequence[str] = (), *, project: str | None = None) -> None:
        self.given = (cwd, *added)
        """The session's folders as they were given."""
        self.given_project = cwd if project is None else project
        self._resolved: dict[str, str] = {}

    @cached_property
    def project(self) -> str:
        """The real path of the folder that rules count for."""
        is_own = self.given_project == self.given[0]
        return self.real[0] if is_own else os.path.realpath(self.given_project)

    @cached_property
    def real(self) -> tuple[str, ...]:
        """The real paths of the session's folders, its own first."""
        return tuple(map(os.path.realpath, self.given))

    @cached_property
    def ignores_case(self) -> bool:
        """Whether the file system of the project takes upper and lower case for the same."""
        return _ignores_case(self.project)

    @cached_property
    def boundary(self) -> Boundary | None:
        """What is closed around the session's own folder, if that is in a worktree."""
        return boundary_around(self.real[0])

    def resolve(self, path: str) -> str:
        """Return the absolute path with links resolved; one that cannot be resolved stays as written."""
        real = self._resolved.get(path)
        if real is None:
            whole = os.path.join(self.given[0], os.path.expanduser(path))
            real = self._resolved[path] = path if "\0" in path else os.path.realpath(whole)
        return real

    def enter(self, start: str, path: str, *, knows_home: bool = False) -> str:
        """Return the real path that a command in a folder means; `knows_home` if `~` is the user's home to it."""
        return os.path.realpath(os.path.join(start, os.path.expanduser(path) if knows_home else path))

    def settle(self, path: str) -> tuple[str, ...]:
        """Return the path as written, made absolute, and with links resolved."""
        if "\0" in path:
            return (path,)
        whole = os.path.normpath(os.path.join(self.given[0], os.path.expanduser(path)))
        return self._under_real_name("/" + whole.lstrip("/")), self.resolve(path)

    def _under_real_name(self, path: str) -> str:
        """Return the path with the real name of the session's folder that it is below.

        Rules are about a folder under any of its names: it, or one above it, may be a link.
        """
        if any(is_below(path, root) for root in self._real_roots):
            return path
        above, names = path, ""
        while above != "/":
            real = self.resolve(above)
            if real in self._real_roots:
                return os.path.join(real, names) if names else real
            above, name = os.path.split(above)
            names = os.path.join(name, names) if names else name
        return path

    def forms_of(self, glob: str, home: str) -> tuple[str, ...]:
        """Return other forms of a rule's glob, absolute: under the real name of its folder, and where its links lead.

        None if there is only one form.
        """
        start = glob.removesuffix("/").split("/")
        names = list(takewhile(lambda name: "*" not in name and "?" not in name, start))
        rest = "/".join(start[len(names) :]) + ("/" if glob.endswith("/") else "")
        found: list[str] = []
        for root in self._real_roots if not glob.startswith(("/", "~")) else ("/",):
            place = normalise("/".join(names) or "/" * glob.startswith("/") or ".", root, home)
            if place in self._real_roots:
                continue
            real, renamed = self.resolve(place), self._under_real_name(place)
            if real != place or renamed != place:
                found += [os.path.join(renamed, rest) if rest else renamed, os.path.join(real, rest) if rest else real]
        return tuple(found)

    @cached_property
    def _real_roots(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.project, *self.real)))

    def settle_request(self, request: Request, agent: str) -> Request:
        """Return the request with its agent and folders filled in, and every path as `settle` gives it."""
        command = request.command
        # Without a folder of its own a command starts in the session's.
        if command is not None and (command.cwd or self.real[0] != self.project):
            command = command.moved(self.enter(self.given[0], command.cwd))
        paths = dict.fromkeys(settled for path in request.paths for settled in self.settle(path) if settled)
        return replace(
            request,
            agent=request.agent or agent,
            root=self.project,
            added=tuple(dict.fromkeys(real for real in self.real if real != self.project and not self._is_part(real))),
            home=request.home or os.path.expanduser("~"),
            paths=tuple(paths),
            command=command,
        )

    def _is_part(self, real: str) -> bool:
        """Whether this is the session's own folder, below the project: the rules are about the project."""
        return real == self.real[0] and is_below(real, self.project)

    def hold(self, real: str) -> bool:
        """Return whether a real path is below one of the session's folders."""
        return any(is_below(real, root) for root in self.real)

    def hold_all(self, paths: Sequence[str]) -> bool:
        """Return whether there are paths, and all of them are below the folders of the session or the project."""
        return bool(paths) and all(self.hold(path) or is_below(path, self.project) for path in paths)


@lru_cache(maxsize=64)
def _ignores_case(folder: str) -> bool:
    """Whether a folder is found under its name in other letters too."""
    above, name = os.path.split(folder)
    while name and name.swapcase() == name:
        above, name = os.path.split(above)
    try:
        return bool(name) and os.path.samefile(os.path.join(above, name), os.path.join(above, name.swapcase()))
    except OSError:  # there is no such folder: the letters matter
        return False
