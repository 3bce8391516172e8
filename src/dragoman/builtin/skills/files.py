"""The skills of the user and the project, read from their folders.

Owns the limits, and that a project's files, which other people write, are read safely: a link that leads out of the
project is not followed. Of two skills of one name the first counts, in the order of `places.py`. Blocks.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.builtin.skills.places import skill_places
from dragoman.builtin.skills.skill import FILE, Skill, SkillError, SkillText, read_skill
from dragoman.workspace import FileLimits, Workspace, WorkspaceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.builtin.skills.places import SkillPlace
    from dragoman.builtin.skills.skill import Source

MOST_SKILLS: Final = 200  # of all places together; each costs some tokens in every request
_MOST_ENTRIES: Final = 1000  # a folder with more names is not a folder of skills
_LARGEST_BYTES: Final = 128 * 1024
_MOST_FILES: Final = 60
_DEEPEST: Final = 4


class FoundSkills(Struct, frozen=True):
    """The skills by name, what is wrong with files, and those that another one of the same name hides."""

    skills: dict[str, Skill] = {}
    problems: tuple[str, ...] = ()
    hidden: tuple[Skill, ...] = ()


def find_skills(cwd: str, config_dir: Path) -> FoundSkills:
    """Return every skill for work in `cwd`."""
    skills: dict[str, Skill] = {}
    hidden: list[Skill] = []
    problems: list[str] = []
    for place in skill_places(cwd, config_dir):
        for folder in _folders(place, problems):
            if len(skills) == MOST_SKILLS:
                problems.append(f"there are more than {MOST_SKILLS} skills; {folder} and those after it are left out")
                return FoundSkills(skills, tuple(problems), tuple(hidden))
            try:
                found = read_in(folder, place.source, place.root)
            except SkillError as error:
                problems.append(f"{folder / FILE} is left out: {error}")
                continue
            problems += [f"{found.skill.path}: {note}" for note in found.notes]
            if found.skill.name in skills:
                hidden.append(found.skill)
            else:
                skills[found.skill.name] = found.skill
    return FoundSkills(skills, tuple(problems), tuple(hidden))


def read_in(folder: Path, source: Source, root: str = "") -> SkillText:
    """Read the `SKILL.md` of a folder. Raises: SkillError."""
    path = folder / FILE
    try:
        # The user's own skills may be links to any place.
        real = Path(os.path.realpath(path)) if not root else path
        workspace = Workspace([root or real.parent], limits=FileLimits(file_bytes=_LARGEST_BYTES))
        text = workspace.read_text(real)
    except (OSError, WorkspaceError) as error:
        raise SkillError(str(error)) from error
    return read_skill(text, folder.name, source, str(path), folder=str(folder), root=root)


def files_of(folder: str) -> tuple[list[str], bool]:
    """Return the other files of a skill, relative to its folder, and whether there are more. Links are not followed."""
    found: list[str] = []
    for here, folders, names in os.walk(folder):
        depth = 0 if here == folder else os.path.relpath(here, folder).count(os.sep) + 1
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < _DEEPEST else []
        for name in sorted(names):
            path = os.path.relpath(os.path.join(here, name), folder)
            if path == FILE or name.startswith("."):
                continue
            if len(found) == _MOST_FILES:
                return found, True
            found.append(path)
    return found, False


def _folders(place: SkillPlace, problems: list[str]) -> Iterator[Path]:
    """Yield the folders of a place that hold a `SKILL.md`, by name."""
    try:
        with os.scandir(place.folder) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except OSError as error:
        problems.append(f"{place.folder} cannot be read: {error.strerror or error}")
        return
    if len(names) > _MOST_ENTRIES:
        problems.append(f"{place.folder} has {len(names)} entries; only the first {_MOST_ENTRIES} are looked at")
    for name in names[:_MOST_ENTRIES]:
        folder = place.folder / name
        if os.path.lexists(folder / FILE):
            yield folder
