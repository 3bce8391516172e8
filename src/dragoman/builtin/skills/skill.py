"""A skill, and how its `SKILL.md` is read: the open format, with the members of Claude Code that have a meaning here.

Owns the members and what is wrong with a file. `allowed-tools` is kept for display only: no skill permits anything.
Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.builtin.context.front_matter import read_front_matter
from dragoman.text.terminal import sentence, shorten

if TYPE_CHECKING:
    from dragoman.builtin.context.front_matter import FrontMatter

Source: TypeAlias = Literal["user", "project", "mcp"]

FILE: Final = "SKILL.md"
NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
# The limits of the open format.
NAME_CHARACTERS: Final = 64
DESCRIPTION_CHARACTERS: Final = 1024
COMPATIBILITY_CHARACTERS: Final = 500
# What others call the folder of a skill in its text.
_FOLDER_PLACE: Final = re.compile(r"\$\{CLAUDE_SKILL_DIR\}|\$CLAUDE_SKILL_DIR\b")


class SkillError(Exception):
    """A `SKILL.md` cannot be used; the message says why."""


class Skill(Struct, frozen=True):
    """One skill. Its text is read again when it is loaded."""

    name: str
    description: str
    source: Source
    path: str
    """Of its `SKILL.md`; the URI if a server offers it."""
    folder: str = ""
    """Empty if a server offers it."""
    root: str = ""
    """The project that it belongs to; empty for the user's own."""
    server: str = ""
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    hint: str = ""
    """What to write behind `/NAME`."""
    is_for_model: bool = True
    is_for_user: bool = True

    @property
    def origin(self) -> str:
        """Where it comes from, for users."""
        return f"MCP server {self.server}" if self.source == "mcp" else f"{self.source}, {self.path}"


class SkillText(Struct, frozen=True):
    """A `SKILL.md` that was read: the skill, its instructions, and what is odd about it."""

    skill: Skill
    body: str
    notes: tuple[str, ...] = ()


def read_skill(
    text: str, folder_name: str, source: Source, path: str, *, folder: str = "", root: str = ""
) -> SkillText:
    """Read a `SKILL.md`. Raises: SkillError that says what to change."""
    matter = read_front_matter(text)
    name = matter.text("name") or folder_name
    check_name(name)
    if name != folder_name:
        raise SkillError(f"its name {name!r} is not that of its folder, {folder_name!r}; give both the same name")
    description = sentence(matter.text("description"))
    if not description:
        raise SkillError("it has no description; write what it does and when to use it: `description: ...`")
    if not matter.body:
        raise SkillError("it has no text after the front matter; write its instructions there")
    notes = list(matter.problems)
    skill = Skill(
        name,
        _bounded("description", description, DESCRIPTION_CHARACTERS, notes),
        source,
        path,
        folder,
        root,
        license=shorten(sentence(matter.text("license")), COMPATIBILITY_CHARACTERS),
        compatibility=_bounded(
            "compatibility", sentence(matter.text("compatibility")), COMPATIBILITY_CHARACTERS, notes
        ),
        allowed_tools=shorten(sentence(matter.text("allowed-tools")), COMPATIBILITY_CHARACTERS),
        hint=sentence(matter.text("argument-hint")),
        is_for_model=not _flag(matter, "disable-model-invocation", default=False),
        is_for_user=_flag(matter, "user-invocable", default=True),
    )
    body = _FOLDER_PLACE.sub(lambda place: folder, matter.body) if folder else matter.body
    return SkillText(skill, body, tuple(notes))


def check_name(name: str) -> None:
    """Raises: SkillError if a skill cannot have this name."""
    if len(name) > NAME_CHARACTERS:
        raise SkillError(f"its name has {len(name)} characters, more than {NAME_CHARACTERS}; shorten it")
    if not NAME.fullmatch(name):
        raise SkillError(f"its name {name!r} must consist of a-z and 0-9, with single hyphens between them")


def _flag(matter: FrontMatter, key: str, *, default: bool) -> bool:
    found = matter.flag(key)
    return default if found is None else found


def _bounded(what: str, text: str, most: int, notes: list[str]) -> str:
    if len(text) > most:
        notes.append(f"its {what} has {len(text)} characters and is cut after {most}")
    return shorten(text, most)
