"""What does not work on this machine although the client opens: folders that cannot be written, a full disk. Blocks."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

from dragoman.settings.places import config_dir, data_dir, state_dir

if TYPE_CHECKING:
    from pathlib import Path

_LITTLE_BYTES: Final = 20 * 1024 * 1024


def problems_here(folder: str) -> list[str]:
    """Sentences for the user, each with what it means for the work."""
    found = []
    if os.path.isdir(folder) and not os.access(folder, os.W_OK):
        found.append("this project cannot be written: the agent can read it and change nothing")
    for place, loss in (
        (config_dir(), "settings and rules cannot be changed"),
        (data_dir(), "sessions and chosen models cannot be kept"),
        (state_dir(), "drafts and logs cannot be kept"),
    ):
        nearest = _existing(place)
        if not os.access(nearest, os.W_OK):
            found.append(f"{nearest} cannot be written: {loss}")
        elif _is_full(nearest):
            found.append(f"the disk of {nearest} is full: {loss}")
    return found


def _existing(place: Path) -> Path:
    while not place.exists() and place != place.parent:
        place = place.parent
    return place


def _is_full(place: Path) -> bool:
    try:
        return shutil.disk_usage(place).free < _LITTLE_BYTES
    except OSError:
        return False
