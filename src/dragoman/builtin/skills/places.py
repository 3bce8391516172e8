"""Where skills are: folders of the user and of the project, in the order in which they count.

1. The user's: `skills` in the configuration folder, `~/.agents/skills`, `~/.claude/skills`.
2. The project's: `.dragoman/skills`, `.agents/skills` and `.claude/skills`, in the working folder first and then in
   each folder above it up to the project's root.

Most users have no skills, so this module is all that a session without one needs. Blocks.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from dragoman.settings.project import PROJECT_FOLDER, find_project

FOLDER: Final = "skills"
OTHER_FOLDERS: Final = (".agents", ".claude")


class SkillPlace(Struct, frozen=True):
    """A folder that may hold skills. `root` is the project it belongs to, empty for the user's own."""

    folder: Path
    source: Literal["user", "project"]
    root: str = ""


def skill_places(cwd: str, config_dir: Path) -> list[SkillPlace]:
    """Return the folders with skills that exist, in their order."""
    home, here = Path.home(), Path(os.path.realpath(cwd))
    own = [config_dir / FOLDER, *(home / name / FOLDER for name in OTHER_FOLDERS)]
    places = [SkillPlace(folder, "user") for folder in own]
    project = find_project(here)
    for folder in (here, *here.parents):
        if not folder.is_relative_to(project):
            break
        theirs = (PROJECT_FOLDER, *OTHER_FOLDERS)
        places += [SkillPlace(folder / name / FOLDER, "project", str(project)) for name in theirs]
    found: dict[str, SkillPlace] = {}
    for place in places:
        if place.folder.is_dir():
            found.setdefault(os.path.realpath(place.folder), place)
    return list(found.values())
