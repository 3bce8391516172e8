"""The declarations of agents: Markdown files with front matter, in the user's folder and in a project's.

Owns the members of a file and what is wrong with one. A project's file is written by other people. It cannot take the
name of an agent that the user knows, it cannot choose the model, and like every declaration it can only bound what a
run may do. A wrong file is left out and reported. Blocks while it reads.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.builtin.context.front_matter import read_front_matter
from dragoman.builtin.context.markdown_files import NAME, markdown_files
from dragoman.builtin.subagents.declaration import BUILT_IN, FOLDER, AgentDeclaration, Declared, find_agent
from dragoman.policy.modes import MODES
from dragoman.settings.project import PROJECT_FOLDER, find_project
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dragoman.builtin.context.front_matter import FrontMatter
    from dragoman.builtin.subagents.declaration import Source

MOST_STEPS: Final = 200
_MOST_DIGITS: Final = 9
_MEMBERS: Final = frozenset(
    (
        *("name", "description", "model", "mode", "permission-mode", "permissionmode"),
        *("tools", "disallowed-tools", "disallowedtools"),
        *("steps", "max-steps", "maxsteps", "max-turns", "maxturns"),
    )
)
# Members of others that change nothing about what a run does.
_WITHOUT_MEANING: Final = frozenset(("color", "hidden", "display-name", "kind", "temperature", "top-p", "variant"))
# What others call a mode. `subagent` and `all` are not modes of permission: they say where an agent is offered.
_MODES: Final = {
    "subagent": "",
    "all": "",
    "default": "",
    "inherit": "",
    "acceptedits": "edit",
    **{mode: mode for mode in MODES},
}


class _Wrong(Exception):
    """A file cannot be used; the message says why."""


def read_agents(cwd: str, config_dir: Path, external: Iterable[AgentDeclaration] = ()) -> Declared:
    """Return every agent for work in `cwd`.

    Args:
        external: other ACP agents that the user's settings allow.
    """
    agents = {declared.name: declared for declared in BUILT_IN}
    problems: list[str] = []
    for declared in (*_read(config_dir / FOLDER, "user", None, problems), *external):
        if declared.name in agents and agents[declared.name].source == "user":
            problems.append(f"the subagent {declared.name} of the settings is left out: {agents[declared.name].path}")
            continue
        agents[declared.name] = declared  # a user may replace a built-in agent
    here = Path(os.path.realpath(cwd))
    for folder in dict.fromkeys((here, find_project(here))):
        for declared in _read(folder / PROJECT_FOLDER / FOLDER, "project", folder, problems):
            name = declared.name if find_agent(declared.name, agents) is None else f"project:{declared.name}"
            agents.setdefault(name, _renamed(declared, name))
    return Declared(agents, tuple(problems))


def _renamed(declared: AgentDeclaration, name: str) -> AgentDeclaration:
    from msgspec.structs import replace

    return replace(declared, name=name)


def _read(folder: Path, source: Source, root: Path | None, problems: list[str]) -> Iterator[AgentDeclaration]:
    for file in markdown_files(folder, root):
        where = str(file.path)
        if file.problem:
            problems.append(f"{where} is left out: {file.problem}")
            continue
        matter = read_front_matter(file.text)
        problems += [f"{where}: {problem}" for problem in matter.problems]
        try:
            declared, notes = _declaration(file.name, matter, source, where)
        except _Wrong as wrong:
            problems.append(f"{where} is left out: {wrong}")
        else:
            problems += [f"{where}: {note}" for note in notes]
            yield declared


def _declaration(file_name: str, matter: FrontMatter, source: Source, where: str) -> tuple[AgentDeclaration, list[str]]:
    """Raises: _Wrong."""
    notes: list[str] = []
    name = matter.text("name") or file_name
    if not NAME.fullmatch(name):
        raise _Wrong(f"the name {name!r} must consist of letters, digits, '.', '_' and '-'")
    description = " ".join(matter.text("description").split())
    if not description:
        raise _Wrong("it has no description; write when to use the agent: `description: ...`")
    if not matter.body:
        raise _Wrong("it has no text after the front matter; write the agent's instructions there")
    for key in matter.members:
        if key not in _MEMBERS and key not in _WITHOUT_MEANING:
            notes.append(f"the member {key!r} has no meaning here and is ignored")
    declared = AgentDeclaration(
        name,
        description,
        matter.body,
        tools=_tools(matter),
        denied_tools=matter.names("disallowed-tools") or matter.names("disallowedtools") or (),
        model=_model(matter, source, notes),
        mode=_mode(matter),
        steps=_steps(matter),
        source=source,
        path=where,
    )
    return declared, notes


def _tools(matter: FrontMatter) -> tuple[str, ...] | None:
    tools = matter.names("tools")
    return None if tools is None or "*" in tools else tools


def _model(matter: FrontMatter, source: Source, notes: list[str]) -> str:
    model = matter.text("model")
    if model.lower() in ("", "inherit"):
        return ""
    if source == "project":
        notes.append(f"a project's file cannot choose the model; {model} is ignored")
        return ""
    if ":" not in model:
        notes.append(f"the model {model!r} is not PROVIDER:MODEL; the agent uses the session's model")
        return ""
    return model


def _mode(matter: FrontMatter) -> str:
    """Return the mode. One that is not known might have bounded the agent, so that it cannot be ignored."""
    for key in ("mode", "permission-mode", "permissionmode"):
        mode = matter.text(key)
        if mode and mode.lower() not in _MODES:
            raise _Wrong(f"there is no mode {mode!r}; the modes are {', '.join(MODES)}")
        if mode:
            return _MODES[mode.lower()]
    return ""


def _steps(matter: FrontMatter) -> int | None:
    for key in ("steps", "max-steps", "maxsteps", "max-turns", "maxturns"):
        text = matter.text(key)
        if not text:
            continue
        # The length first: Python refuses to read a number of thousands of digits.
        if not text.isdecimal() or len(text) > _MOST_DIGITS or not 1 <= int(text) <= MOST_STEPS:
            raise _Wrong(f"{key} must be a number from 1 to {MOST_STEPS}, not {shorten(text, 40)!r}")
        return int(text)
    return None
