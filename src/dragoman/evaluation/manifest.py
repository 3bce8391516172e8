"""What a folder contains, by path, and how two such lists differ.

Owns which files a run may leave behind without having changed the project (caches of interpreters and test runners).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_CACHES: Final = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", "node_modules"})
_GIT: Final = ".git"


def list_files(folder: Path) -> dict[str, str]:
    """Return path -> what is there, for every file and link of a work folder but those of `.git` and of caches."""
    found: dict[str, str] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _CACHES and name != _GIT)
        for name in (*files, *(folder for folder in folders if os.path.islink(os.path.join(place, folder)))):
            path = os.path.join(place, name)
            if not name.endswith(".pyc"):
                found[os.path.relpath(path, folder).replace(os.sep, "/")] = _content(path)
    return found


def list_git(folder: Path) -> dict[str, str]:
    """Return path -> what is there, for what decides about history and behaviour of a repository: refs, hooks,
    settings.
    """
    base = folder / _GIT
    found: dict[str, str] = {}
    for name in ("HEAD", "config", "packed-refs"):
        if (base / name).exists():
            found[name] = _content(str(base / name))
    for part in ("refs/heads", "refs/tags", "hooks", "info"):
        for path in sorted((base / part).rglob("*")):
            if path.is_file() or path.is_symlink():
                found[str(path.relative_to(base))] = _content(str(path))
    return found


def _content(path: str) -> str:
    try:
        if os.path.islink(path):
            return f"link to {os.readlink(path)}"
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            return "special file"
        data = Path(path).read_bytes()
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return f"{'x' if mode & stat.S_IXUSR else '-'} {hashlib.sha256(data).hexdigest()}"


def changed_paths(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the paths whose content, kind or existence differs."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def outside(paths: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Return the paths that no pattern covers; `*` stays within one name, `**` crosses folders."""
    compiled = [_compiled(pattern) for pattern in patterns]
    return [path for path in paths if not any(pattern.fullmatch(path) for pattern in compiled)]


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    forms = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(forms.get(piece, re.escape(piece)) for piece in pieces), re.DOTALL)
