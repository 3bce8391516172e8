"""The branch that a folder is on, read from git's files: no program is started for a word in a list."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 4096


def branch_of(folder: str) -> str:
    """Return the name of the branch, the beginning of the commit without one, or nothing outside of a repository."""
    place = Path(os.path.abspath(folder))
    for above in (place, *place.parents):
        git = above / ".git"
        try:
            if git.is_file():  # a linked worktree, or a submodule
                git = above / _first_line(git).removeprefix("gitdir:").strip()
            if git.is_dir():
                head = _first_line(git / "HEAD")
                return head.removeprefix("ref:").strip().removeprefix("refs/heads/") if "ref:" in head else head[:8]
        except OSError:
            return ""
    return ""


def _first_line(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace").partition("\n")[0].strip()
