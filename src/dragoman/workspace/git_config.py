"""Whether git can be run in a folder without running programs that the repository there names. Every doubt counts."""

from __future__ import annotations

import os
from struct import error as struct_error
from struct import unpack
from typing import Final

# Words of keys in a repository's configuration that let git run a program. More files than needed are refused this way.
_GIT_KEYS: Final = (
    *("fsmonitor", "external", "textconv", "filter", "pager", "sshcommand", "hookspath", "attributesfile", "gpg"),
    *("include", "command", "showsignature", "worktree", "promisor", "partialclone", "uploadpack", "objectformat"),
)
_LARGEST_CONFIG_BYTES: Final = 1024 * 1024
# More configuration, submodules in the usual place, and the hook that runs when `git status` writes what it found.
_MORE: Final = ("config.worktree", "modules", "hooks/post-index-change")
_LARGEST_INDEX_BYTES: Final = 64 * 1024 * 1024
_SUBMODULE: Final = 0o160000


def read_index(folder: str) -> bytes | None:
    """Return the index of the repository that a folder is in, with the names of its files; None if it cannot be read.

    Without a repository or an index it is empty.
    """
    folder = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(folder, ".git")):
        if folder == os.path.dirname(folder):
            return b""
        folder = os.path.dirname(folder)
    try:
        git = _git_folders(os.path.join(folder, ".git"))[0]
        if any(name.startswith("sharedindex.") for name in os.listdir(git)):
            return None
        with open(os.path.join(git, "index"), "rb") as file:
            index = file.read(_LARGEST_INDEX_BYTES + 1)
    except FileNotFoundError:
        return b""
    except (OSError, ValueError):
        return None
    # From version 4 on, names are shortened.
    is_plain = index[:4] == b"DIRC" and index[4:8] in (b"\0\0\0\2", b"\0\0\0\3")
    return index if is_plain and len(index) <= _LARGEST_INDEX_BYTES else None


def git_runs_no_program(folder: str) -> bool:
    """Whether reading commands of git in a folder run no program: its repository's plain configuration names none."""
    folder = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(folder, ".git")):
        # A folder of the project that looks like a bare repository is one for git, with a configuration of its own.
        is_bare = all(os.path.lexists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs"))
        if is_bare or folder == os.path.dirname(folder):
            return False
        folder = os.path.dirname(folder)
    try:
        places = _git_folders(os.path.join(folder, ".git"))
        more = (os.path.join(place, name) for place in places for name in _MORE)
        if any(map(os.path.lexists, more)) or any(map(_may_have_submodules, places)):
            return False
        with open(os.path.join(places[-1], "config"), "rb") as file:
            text = file.read(_LARGEST_CONFIG_BYTES + 1).lower()
    except (OSError, ValueError, struct_error):
        return False
    return len(text) <= _LARGEST_CONFIG_BYTES and not any(key.encode() in text for key in _GIT_KEYS)


def _may_have_submodules(git: str) -> bool:
    """Whether the index may hold a submodule: `git status` runs in it, by the configuration of a repository there."""
    if any(name.startswith("sharedindex.") for name in os.listdir(git)):
        return True
    try:
        with open(os.path.join(git, "index"), "rb") as file:
            index = file.read(_LARGEST_INDEX_BYTES + 1)
    except FileNotFoundError:
        return False
    if len(index) > _LARGEST_INDEX_BYTES or index[:4] != b"DIRC":
        return True
    # The mode of an entry, as it is stored. Only an index that has these bytes is read entry by entry.
    if _SUBMODULE.to_bytes(4) not in index:
        return False
    version, count = unpack(">II", index[4:12])
    if version not in (2, 3):  # later ones shorten the names
        return True
    start = 12
    for _ in range(count):
        mode, flags = unpack(">I", index[start + 24 : start + 28])[0], unpack(">H", index[start + 60 : start + 62])[0]
        if mode == _SUBMODULE:
            return True
        name = start + 62 + (2 if flags & 0x4000 else 0)
        end = index.index(b"\0", name)
        start += (end - start) // 8 * 8 + 8
    return False


def _git_folders(git: str) -> list[str]:
    """Return the folder of git's files; of a linked worktree its own one and the common one, with the configuration."""
    if not os.path.isfile(git):
        return [git]
    own = os.path.join(os.path.dirname(git), _one_line(git).removeprefix("gitdir: "))
    return [own, os.path.join(own, _one_line(os.path.join(own, "commondir")))]


def _one_line(path: str) -> str:
    """Raises: OSError, ValueError if it is not a short text of one line."""
    with open(path, encoding="utf-8") as file:
        text = file.read(8192).removesuffix("\n")
    if not text or "\n" in text or len(text) > 4096:
        raise ValueError(f"{path} is not one line")
    return text
