"""The project that a folder belongs to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PROJECT_FOLDER: Final = ".dragoman"


def find_project(start: Path, home: Path | None = None) -> Path:
    """Return the nearest folder at or above `start` that contains `.dragoman` or `.git`, else `start` itself.

    The home directory and the folders above it are never a project.

    Args:
        start: the folder to start from; links are resolved.
        home: the home directory, if it is not that of the current user.
    """
    place = Path(os.path.realpath(start))
    ending = {Path(os.path.realpath(home or Path.home())), Path(place.anchor)}
    for folder in (place, *place.parents):
        if folder in ending:
            break
        if (folder / PROJECT_FOLDER).is_dir() or (folder / ".git").exists():
            return folder
    return place


def project_key(project: str | os.PathLike[str]) -> str:
    """Return the name under which a project is stored in files: its real path, whichever links lead to it."""
    return os.path.realpath(project)
