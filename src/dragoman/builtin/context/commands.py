"""Slash commands: prompts that begin with `/NAME`.

Owns which commands exist, how a prompt names one, and the template files of the user and the project; what a command is
and how a template is expanded is in `command.py`, what the agent's own commands do in `own_commands.py`. A template is
only text for the model: it runs nothing and permits nothing, and a project's template is marked as such. Blocks while
it reads files.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from msgspec import UNSET

from dragoman.builtin.context.command import Command
from dragoman.builtin.context.own_commands import OWN
from dragoman.builtin.skills.places import skill_places
from dragoman.schema import v1
from dragoman.settings.project import PROJECT_FOLDER, find_project

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_log = logging.getLogger("dragoman.builtin")

FOLDER: Final = "commands"
_DESCRIPTION_CHARACTERS: Final = 120
# A path such as /etc/hosts is not a command: its name contains another slash.
_CALL: Final = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_.:-]*)(?:\s+(.*))?", re.DOTALL)


def read_commands(cwd: str, config_dir: Path) -> dict[str, Command]:
    """Return every command for work in `cwd`.

    A template never replaces a command of the agent, and a project's template never one of the user: it is named
    `project:NAME` then.
    """
    found = {command.name: command for command in OWN}
    for command in _templates(config_dir / FOLDER, "user"):
        if command.name in found:
            _log.warning("the template %s has the name of a command of the agent and is left out", command.name)
        else:
            found[command.name] = command
    here = Path(os.path.realpath(cwd))
    for folder in dict.fromkeys((here, find_project(here))):
        for command in _templates(folder / PROJECT_FOLDER / FOLDER, "project", root=folder):
            name = f"project:{command.name}" if command.name in found else command.name
            found.setdefault(name, Command(name, command.description, command.hint, command.body, "project"))
    if skill_places(cwd, config_dir):
        from dragoman.builtin.skills.loading import skill_commands  # most users have no skills

        found |= skill_commands(cwd, config_dir, found)
    return found


def find_command(commands: Mapping[str, Command], name: str) -> Command | None:
    """Return the command of a name, that of a skill with its text; None if there is none."""
    command = commands.get(name)
    if command is None or command.skill is None or command.source == "mcp":
        return command
    from dragoman.builtin.skills.loading import with_text

    return with_text(command)


def invoked(text: str) -> tuple[str, str] | None:
    """Return name and arguments if the text begins with a command."""
    called = _CALL.fullmatch(text.rstrip())
    return None if called is None else (called[1], (called[2] or "").strip())


def commands_update(commands: Mapping[str, Command]) -> v1.AvailableCommandsUpdate:
    """Return the update that lists the commands for a client."""
    return v1.AvailableCommandsUpdate(
        [
            v1.AvailableCommand(
                command.name, command.shown, v1.UnstructuredCommandInput(command.hint) if command.hint else UNSET
            )
            for command in commands.values()
        ]
    )


def _templates(folder: Path, source: Literal["user", "project"], root: Path | None = None) -> Iterator[Command]:
    """Return the templates of a folder by name. A link that leads out of a project is not followed."""
    if not folder.is_dir():
        return
    from dragoman.builtin.context.front_matter import read_front_matter  # most users have no templates
    from dragoman.builtin.context.markdown_files import markdown_files

    for file in markdown_files(folder, root):
        if file.problem:
            _log.warning("a command is left out: %s", file.problem)
            continue
        matter = read_front_matter(file.text)
        if matter.body:
            described = " ".join(matter.text("description").split())
            description = described or matter.body.splitlines()[0].strip("# ")
            hint = " ".join(matter.text("argument-hint").split())
            yield Command(file.name, description[:_DESCRIPTION_CHARACTERS], hint, matter.body, source)
