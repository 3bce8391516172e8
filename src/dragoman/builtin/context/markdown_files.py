"""Markdown files of a folder of the user or of a project: templates of commands, and agents.

Owns which files count and how they are read safely. A project's files are written by other people: a link that leads
out of the project is not followed. Blocks while it reads.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.workspace import FileLimits, Workspace, WorkspaceError

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_MOST: Final = 100  # longer lists are not read to their end
_LARGEST_BYTES: Final = 64 * 1024


class MarkdownFile(Struct, frozen=True):
    """One file. `problem` states why it cannot be read; its text is empty then."""

    name: str
    path: Path
    text: str = ""
    problem: str = ""


def markdown_files(folder: Path, root: Path | None = None) -> Iterator[MarkdownFile]:
    """Return the files `NAME.md` of a folder by name.

    Args:
        root: the project that the folder belongs to; None for the user's own, whose files may be links to any place.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".md"))[:_MOST]
        workspace = Workspace([root or folder], limits=FileLimits(file_bytes=_LARGEST_BYTES)) if names else None
    except (OSError, WorkspaceError):
        return
    for file in names:
        name, path = file.removesuffix(".md"), folder / file
        if workspace is None or not NAME.fullmatch(name):
            continue
        try:
            text = workspace.read_text(path) if root else _read_own(path)
        except (OSError, WorkspaceError) as error:
            yield MarkdownFile(name, path, problem=str(error))
        else:
            yield MarkdownFile(name, path, text)


def _read_own(path: Path) -> str:
    real = Path(os.path.realpath(path))
    return Workspace([real.parent], limits=FileLimits(file_bytes=_LARGEST_BYTES)).read_text(real)
