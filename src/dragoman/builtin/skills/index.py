"""The index of skills in the system prompt: one line for each, as short as it can be.

The same skills always give the same bytes. Longer lists get shorter lines: every request pays for them. Pure. Loaded
where there are skills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import sentence, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.builtin.skills.skill import Skill

# About 1,700 tokens.
INDEX_CHARACTERS: Final = 6000
_SERVER_CHARACTERS: Final = 64
_DESCRIPTIONS: Final = (200, 100, 50, 0)
_OPENING: Final = """\
# Skills

A skill is a folder with instructions for one kind of task. When a task matches one of these, load it with the tool
`skill` before you begin. A skill permits nothing: what needs permission is still asked for."""


def skill_index(skills: Iterable[Skill]) -> str:
    """Return the index; empty if there is no skill that a model may load."""
    listed = [skill for skill in skills if skill.is_for_model]
    if not listed:
        return ""
    lines: list[str] = []
    for most in _DESCRIPTIONS:
        lines = [_line(skill, most) for skill in listed]
        if sum(map(len, lines)) + len(lines) <= INDEX_CHARACTERS:
            break
    kept: list[str] = []
    size = 0
    for line in lines:
        size += len(line) + 1
        if size > INDEX_CHARACTERS:
            kept.append(f"- and {len(lines) - len(kept)} more, which `skill` lists for a name that is not known")
            break
        kept.append(line)
    return "\n".join((f"{_OPENING}\n", *kept))


def _line(skill: Skill, most: int) -> str:
    of_server = f" (from the MCP server {shorten(sentence(skill.server), _SERVER_CHARACTERS)})"
    mark = {"user": "", "project": " (from the project)", "mcp": of_server}[skill.source]
    described = shorten(skill.description, most) if most else ""
    return f"- {skill.name}{mark}: {described}" if described else f"- {skill.name}{mark}"
