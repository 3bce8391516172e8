"""`/skills`: the skills there are, where each comes from, and what is wrong with files.

Loaded when the command is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.text.terminal import sentence

if TYPE_CHECKING:
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.skills.skill import Skill


async def show_skills(arguments: str, session: OpenSession) -> str:
    """Read the skills again and list them."""
    if session.servers is not None:
        await session.servers.ready()
    found = await session.skills.reread()
    lines = [_described(skill, session) for skill in session.skills.known().values()] or ["There are no skills."]
    if found is not None and found.hidden:
        lines += [
            "",
            "Hidden by one of the same name:",
            *(f"- `{skill.name}` ({skill.origin})" for skill in found.hidden),
        ]
    if found is not None and found.problems:
        lines += ["", "Not as they should be:", *(f"- {sentence(problem)}" for problem in found.problems)]
    places = f"{session.settings.config_dir / 'skills'}, ~/.agents/skills, ~/.claude/skills"
    theirs = ".dragoman/skills, .agents/skills and .claude/skills of the project"
    return "\n".join([*lines, "", f"A skill is a folder with a SKILL.md in {places}, or in {theirs}."])


def _described(skill: Skill, session: OpenSession) -> str:
    facts = [skill.origin]
    command = session.commands.get(skill.name)
    is_command = command is not None and command.skill is not None
    if skill.is_for_user and not is_command:
        facts.append(f"/{skill.name} is another command")
    if not skill.is_for_model:
        facts.append("only you start it")
    elif not is_command:
        facts.append("only the model loads it")
    if skill.license:
        facts.append(f"license {skill.license}")
    if skill.allowed_tools:
        facts.append(f"its allowed-tools permit nothing here: {skill.allowed_tools}")
    shown = f"/{' '.join(filter(None, (skill.name, skill.hint)))}" if is_command else skill.name
    return f"- `{sentence(shown)}` {sentence(skill.description)} ({'; '.join(map(sentence, facts))})"
