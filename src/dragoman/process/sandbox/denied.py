"""The files and folders that deny rules name, as they are on the disk now: a sandbox closes them.

Rules judge what is asked for, and a program in a sandbox reads and writes without asking. So the rules that deny to
read or to edit certain files become mounts. Owns the search, which is bounded: what it leaves out is listed. A file
that is made later is found by the next search. Kinds other than `read` and `edit` have no mount that means the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from time import monotonic, thread_time
from typing import Final

import msgspec

from dragoman.errors import ConfigError
from dragoman.policy.paths import is_below, matches_glob, normalise
from dragoman.policy.rule import Rule, read_pattern
from dragoman.process.sandbox.policy import SandboxPolicy

MOST_ENTRIES: Final = 100_000  # names looked at; about half a second
MOST_PATHS: Final = 256  # each is a mount, which takes 0.1 ms
_QUICK_SECONDS: Final = 0.05
_REST: Final = 10


class DeniedPaths(msgspec.Struct, frozen=True):
    """What rules deny. All paths exist and are without links; a folder stands for everything in it."""

    hidden: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """The rules that are enforced in part only, each with the reason."""

    def __bool__(self) -> bool:
        return bool(self.hidden or self.read_only)

    def close(self, policy: SandboxPolicy) -> SandboxPolicy:
        """Return a policy that closes these paths as well."""
        hidden = tuple(dict.fromkeys((*policy.hidden, *self.hidden)))
        read_only = tuple(dict.fromkeys((*policy.read_only, *self.read_only)))
        return msgspec.structs.replace(policy, hidden=hidden, read_only=read_only)

    def unenforced(self, policy: SandboxPolicy, backend: str) -> tuple[str, ...]:
        """Return what a backend does not enforce of it, each with the reason."""
        inside = [path for path in (*self.hidden, *self.read_only) if policy.may_write(path)]
        if backend == "bubblewrap" or not inside:
            return self.left
        return (*self.left, f"files and folders of the project, which only bubblewrap can close: {len(inside)}")


class DeniedSearch:
    """A search that is made again before each command: files that were made since are closed as well.

    One that takes long is not made again for ten times as long, so that commands do not wait for it all the time.
    """

    def __init__(self, search: Callable[[], DeniedPaths]) -> None:
        self._search = search
        self._found = DeniedPaths()
        self._again_at = 0.0

    def look(self) -> DeniedPaths:
        """Return what rules deny now. Blocks. Raises: ConfigError."""
        now = monotonic()
        if now >= self._again_at:
            begin = thread_time()  # not the clock: a machine that is busy with other things must not open a file
            self._found = self._search()
            took = thread_time() - begin
            self._again_at = now + took * _REST if took > _QUICK_SECONDS else 0.0
        return self._found


def denied_paths(
    rules: Iterable[Rule], agent: str, roots: Sequence[str], home: str, *, for_commands: bool = False
) -> DeniedPaths:
    """Look for what the rules deny to an agent. Blocks.

    Args:
        roots: the folders it works in; relative rules start at the first.
        for_commands: the sandbox is for commands that the rules permit, and not for the agent. A rule without a path is
            about what the agent does, and not about files; one that denies to read a whole folder is listed as left.

    Raises:
        ConfigError: a rule denies to read a whole folder of these, so that no work is possible there.
    """
    search = _Search(tuple(os.path.realpath(root) for root in roots), home)
    hidden: dict[str, None] = {}
    read_only: dict[str, None] = {}
    for rule in rules:
        pattern = read_pattern(rule.text)
        if rule.action != "deny" or pattern.agent not in (None, agent) or pattern.kind not in ("read", "edit"):
            continue
        if for_commands and pattern.pattern is None:
            continue
        found = search.roots if pattern.pattern is None else tuple(search.find(pattern.pattern, rule))
        if pattern.kind == "edit":
            read_only.update(dict.fromkeys(found))
            continue
        for root in search.roots:
            if any(is_below(root, path) for path in found):
                if for_commands:
                    search.left[rule.text] = f"{rule.text}: it denies to read all of {root}"
                    found = ()
                    break
                raise ConfigError(f"the rule {rule.text} denies to read all of {root!r}; no agent can work there")
        hidden.update(dict.fromkeys(found))
    kept = _outermost(hidden)
    guarded = [path for path in _outermost(read_only) if not any(is_below(path, place) for place in kept)]
    if len(kept) + len(guarded) > MOST_PATHS:
        search.left["all"] = f"the rules deny more than {MOST_PATHS} files; name folders instead"
    return DeniedPaths(tuple(kept[:MOST_PATHS]), tuple(guarded[: MOST_PATHS - len(kept)]), tuple(search.left.values()))


def _outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths without those below another one."""
    found: list[str] = []
    for path in sorted(paths):
        if not found or not is_below(path, found[-1]):
            found.append(path)
    return found


def _is_named(glob: str, name: str) -> bool:
    return matches_glob(glob, name, "/", "/", ignore_case=True)


class _Search:
    def __init__(self, roots: tuple[str, ...], home: str) -> None:
        self.roots = roots
        self.left: dict[str, str] = {}
        self._home = home
        self._entries = MOST_ENTRIES

    def find(self, glob: str, rule: Rule) -> Iterator[str]:
        """Yield what exists of a glob."""
        root = self.roots[0]
        place = normalise(glob, root, self._home)
        start = root if is_below(place, root) else "/"
        names = tuple(name for name in place.removeprefix(start).split("/") if name)
        for path in self._below((*names, "**") if glob.endswith("/") else names, start):
            real = os.path.realpath(path)
            is_linked = real != path and os.path.isdir(real) and not any(is_below(real, root) for root in self.roots)
            if is_linked:  # it may be a folder of the system, without which nothing runs
                self.left[rule.text] = f"{rule.text}: {path} is a link to a folder elsewhere"
            elif os.path.lexists(real):
                yield real
        if self._entries <= 0:
            self.left[rule.text] = f"{rule.text}: there are more than {MOST_ENTRIES:,} files to look at"

    def _below(self, names: tuple[str, ...], folder: str) -> Iterator[str]:
        """Yield the paths that the rest of a glob covers; upper case counts as the same name, as in every deny."""
        if not names or names == ("**",):
            yield folder
            return
        name, rest = names[0], names[1:]
        is_outside = not any(is_below(folder, root) for root in self.roots)
        if is_outside and "*" not in name and "?" not in name:  # names are taken as they are written there
            yield from self._below(rest, os.path.join(folder, name))
            return
        if name == "**":
            yield from self._below(rest, folder)
        for entry in self._listed(folder):
            with suppress(OSError):
                is_folder = entry.is_dir(follow_symlinks=False)
                if name == "**":
                    yield from self._below(names, entry.path) if is_folder else ()
                elif (is_folder or rest in ((), ("**",))) and _is_named(name, entry.name):
                    yield from self._below(rest, entry.path)

    def _listed(self, folder: str) -> Iterator[os.DirEntry[str]]:
        with suppress(OSError), os.scandir(folder) as listing:
            for entry in listing:
                self._entries -= 1
                if self._entries <= 0:
                    return
                yield entry
