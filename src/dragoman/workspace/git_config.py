"""Whether git can be run in a folder without running programs that the repository there names. Every doubt counts."""

from __future__ import annotations

import os
from typing import Final

# Words of keys in a repository's configuration that let git run a program. More files than needed are refused this way.
_GIT_KEYS: Final = (
    *("fsmonitor", "external", "textconv", "filter", "pager", "sshcommand", "hookspath", "attributesfile", "gpg"),
    *("include", "command", "showsignature", "worktree"),
)
_LARGEST_CONFIG_BYTES: Final = 1024 * 1024


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
        # `git status` also runs in submodules, by their configurations.
        more = (os.path.join(place, name) for place in places for name in ("config.worktree", "modules"))
        if any(map(os.path.lexists, more)):
            return False
        with open(os.path.join(places[-1], "config"), "rb") as file:
            text = file.read(_LARGEST_CONFIG_BYTES + 1).lower()
    except (OSError, ValueError):
        return False
    return len(text) <= _LARGEST_CONFIG_BYTES and not any(key.encode() in text for key in _GIT_KEYS)


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
