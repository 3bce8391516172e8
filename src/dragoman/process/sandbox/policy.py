"""What a sandboxed command may do: folders it may write, folders it may not read, the network.

Owns the defaults, and the search for protected paths and for the git folder of a linked worktree. The folders come
from the user. Nothing here reads the working folder of an agent or a command, because a model chooses that one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final

import msgspec

from dragoman.errors import ConfigError
from dragoman.policy.paths import is_below, is_protected_name
from dragoman.policy.secret_places import SECRET_PLACES, SYSTEM_PLACES, named_places

# Folders with thousands of files that no program takes its settings from.
_SKIPPED: Final = frozenset(("node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".mypy_cache"))
_DEPTH: Final = 3  # folders below a root in which protected names are looked for
_MOST_ENTRIES: Final = 5000  # looked at below one root; a walk of 900 files takes 1.5 ms
_MOST_MODULES: Final = 32
_GITFILE_BYTES: Final = 4096
# What git runs, or what makes it run something. The rest of `.git` stays writable, or no commit would be possible.
# `commondir` moves where git looks for these.
_GIT_PROTECTED: Final = ("hooks", "config", "config.worktree", "info/attributes", "commondir")
# What a commit in a linked worktree writes in the folder that it shares with the project, where it exists.
_GIT_SHARED: Final = ("objects", "refs", "logs", "reftable", "rr-cache", "lfs")
# What lies in the worktree's own folder there, and says where git looks for the rest.
GIT_OWN_KEPT: Final = ("gitdir", "commondir", "config.worktree")


class LinkedGit(msgspec.Struct, frozen=True):
    """The git folders of a linked worktree. All paths are absolute and without links."""

    shared: str
    """The folder that it shares with the project."""
    own: str
    """Its own folder in that, with its `HEAD` and index."""
    written: tuple[str, ...]
    """What a commit writes: its own folder, objects, branches and their history."""


class SandboxPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may do. All paths are absolute and without links; make it with `make_policy`."""

    roots: tuple[str, ...]
    """The user's folders: readable and writable."""
    temporary: str
    """A private temporary folder; TMPDIR of the command."""
    writable: tuple[str, ...] = ()
    """Other writable folders, of the user's choice."""
    linked: tuple[LinkedGit, ...] = ()
    """The git folders of linked worktrees; only what a commit needs is writable in them."""
    hidden: tuple[str, ...] = ()
    """Not readable, whether or not they exist now."""
    read_only: tuple[str, ...] = ()
    """What exists in the writable folders and may not be changed; only bubblewrap enforces it."""
    network: bool = False
    nests: bool = False
    """Whether a program may start a sandbox of its own inside bubblewrap; never for root."""
    is_wide: bool = False
    """Only `hidden` and `read_only` are closed, by bubblewrap; everything else is as without a sandbox."""

    @property
    def written(self) -> tuple[str, ...]:
        """Every folder in which the command may write."""
        shared = (folder for git in self.linked for folder in git.written)
        return (*self.roots, *self.writable, *shared, self.temporary)

    def may_write(self, path: str) -> bool:
        """Whether this policy lets a command change `path`, which is absolute and without links."""
        return any(is_below(path, folder) for folder in self.written)

    def may_read(self, path: str) -> bool:
        return self.may_write(path) or not any(is_below(path, place) for place in self.hidden)


def make_policy(
    roots: Iterable[str | os.PathLike[str]],
    *,
    temporary: str | os.PathLike[str],
    home: str | os.PathLike[str] | None = None,
    writable: Iterable[str | os.PathLike[str]] = (),
    hidden: Iterable[str | os.PathLike[str]] = (),
    network: bool = False,
    own: Iterable[str | os.PathLike[str]] = (),
    environment: Mapping[str, str] | None = None,
) -> SandboxPolicy:
    """Return the policy for commands in the user's folders.

    Args:
        roots: The folders the user named. Never pass the working folder that an agent asks for.
        temporary: An existing folder that only these commands use.
        home: Where the secret folders are looked for; by default the user's home.
        writable: Further folders the user wants commands to write in (a cache, say).
        hidden: Further folders and files that commands must not read.
        own: The places of an agent's own login, for the sandbox of that agent.
        environment: Of the user who is not at this process, besides our own: its variables name secret places, too.

    Raises:
        ConfigError: a folder does not exist, or is too wide to be a boundary.
    """
    base = os.path.realpath(os.path.expanduser("~") if home is None else home)
    secrets = [os.path.join(base, place) for place in SECRET_PLACES]
    linked = [place for place in secrets if os.path.realpath(place) != place]
    mine = [os.path.realpath(place) for place in own]
    closed = _places((place for place in secrets if place not in linked), mine) + _places(hidden, ())
    system = [place for place in SYSTEM_PLACES if os.access(place, os.R_OK)]
    # A link or a variable may lead into the project, as in a repository of the user's settings, or on a build server.
    led = _places([*linked, *system, *named_places(os.environ), *named_places(environment or {})], mine)
    places = _folders(roots)
    if not places:
        raise ConfigError("a sandbox needs at least one root; name the project's folder")
    extra = _folders(writable)
    gits = tuple(
        git
        for root in places
        if (git := linked_git(root)) is not None and not any(is_below(git.shared, open) for open in (*places, *extra))
    )
    (private,) = _folders([temporary])
    for folder in (*places, *extra, *(git.shared for git in gits), private):
        held = next((place for place in closed if is_below(place, folder)), None)  # it may be made later
        if folder == "/" or held:
            why = f"it contains {held!r}, which stays hidden" if held else "it is the whole system"
            raise ConfigError(f"{folder!r} cannot be writable in a sandbox: {why}; name a folder below it")
    found = dict.fromkeys((*closed, *(place for place in led if place not in (*places, *extra, private))))
    return SandboxPolicy(
        roots=places, temporary=private, writable=extra, linked=gits, hidden=tuple(found), network=network
    )


def _places(paths: Iterable[str | os.PathLike[str]], own: Iterable[str]) -> tuple[str, ...]:
    """Return hidden places without links, without those that are an agent's own, and without the system itself."""
    real = dict.fromkeys(os.path.realpath(path) for path in paths)
    kept = [*own, "/dev", "/proc", "/sys"]  # a history is often a link to /dev/null
    return tuple(place for place in real if place != "/" and not any(is_below(place, open) for open in kept))


def unconfined_policy(roots: Iterable[str | os.PathLike[str]]) -> SandboxPolicy:
    """Return the folders for a tripwire that works without a sandbox; no command is confined by this policy."""
    places = tuple(dict.fromkeys(os.path.realpath(root) for root in roots))
    shared = tuple(git.shared for root in places if (git := linked_git(root)) is not None)
    return SandboxPolicy(roots=places, temporary=places[0], writable=shared)


def wide_policy(roots: Iterable[str | os.PathLike[str]]) -> SandboxPolicy:
    """Return the policy for commands that may do everything; the caller adds what is closed."""
    return msgspec.structs.replace(unconfined_policy(roots), network=True, is_wide=True)


def _folders(paths: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    real = tuple(dict.fromkeys(os.path.realpath(path) for path in paths))
    for path in real:
        if not os.path.isdir(path):
            raise ConfigError(f"{path!r} is not a folder; a sandbox can only open folders that exist")
    return real


def linked_git(root: str) -> LinkedGit | None:
    """Return the git folders of a linked worktree, in which a commit is written; None for other folders.

    The file `.git` belongs to the project and could name any folder. So the named folder has to point back to this very
    file, as git has it, and to lie in a git folder: a command cannot write such an answer outside its roots.
    """
    target = _line(os.path.join(root, ".git")).removeprefix("gitdir:").strip()
    if not target:
        return None
    own = os.path.realpath(os.path.join(root, target))
    if os.path.realpath(os.path.join(own, _line(os.path.join(own, "gitdir")) or ".")) != os.path.join(root, ".git"):
        return None
    shared = os.path.realpath(os.path.join(own, _line(os.path.join(own, "commondir")) or "."))
    if own != os.path.join(shared, "worktrees", os.path.basename(own)):
        return None
    if not all(os.path.exists(os.path.join(shared, name)) for name in ("HEAD", "objects", "refs")):
        return None
    parts = (os.path.join(shared, name) for name in _GIT_SHARED)
    return LinkedGit(shared, own, (own, *(part for part in parts if os.path.isdir(part) and not os.path.islink(part))))


def _line(path: str) -> str:
    """Return the first line of a small file; empty if it is not one."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.fsdecode(os.read(fd, _GITFILE_BYTES)).partition("\n")[0].strip()
    finally:
        os.close(fd)


def protected_paths(policy: SandboxPolicy) -> list[str]:
    """Return the protected files and folders that exist in the writable folders, the ones nearest to a root first."""
    found: list[str] = []
    for folder in (*policy.roots, *policy.writable):
        # Both, because a command can make any folder look like a git folder.
        if os.path.isdir(os.path.join(folder, "objects")):
            found.extend(_git_protected(folder))
        found.extend(_walk(folder))
    kept = (os.path.join(git.own, name) for git in policy.linked for name in GIT_OWN_KEPT)
    found.extend(path for path in kept if os.path.lexists(path))
    return sorted(dict.fromkeys(found), key=lambda path: path.count("/"))


def _walk(root: str) -> Iterator[str]:
    left = _MOST_ENTRIES
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop(0)
        name = os.path.basename(folder)
        for entry in _entries(folder):
            left -= 1
            if left < 0 and depth > 0:  # the root itself is always read to its end: a command could fill it
                return
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" and is_folder:
                yield from _git_protected(entry.path)
            elif _is_protected_name(name if depth else "", entry.name):
                yield entry.path
            elif is_folder and depth < _DEPTH and entry.name not in _SKIPPED:
                waiting.append((entry.path, depth + 1))


@lru_cache(maxsize=1 << 16)
def _is_protected_name(folder: str, name: str) -> bool:
    """Whether a name is protected in a folder that itself is not; remembered, because every command asks for all."""
    return is_protected_name(folder, name)


def _git_protected(folder: str) -> Iterator[str]:
    inner = [entry.path for name in ("modules", "worktrees") for entry in _entries(os.path.join(folder, name))]
    for place in (folder, *inner[:_MOST_MODULES]):
        for name in _GIT_PROTECTED:
            path = os.path.join(place, name)
            if os.path.lexists(path):
                yield path


def _entries(folder: str) -> Sequence[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as listing:
        return sorted(listing, key=lambda entry: entry.name)
    return []
