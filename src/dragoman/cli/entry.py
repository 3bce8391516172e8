"""Which agent a command line means: `-a NAME`, a command after `--`, the default, or ours; and a short talk with it.

Owns the way from words to an entry of the registry for every verb that talks to an agent, and the options they share.
"""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.cli.command import Option
from dragoman.cli.exits import AGENT_DIED, Failure
from dragoman.cli.suggestions import agent_names

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.client import RemoteAgent
    from dragoman.registry.agents import AgentEntry, Agents


AGENT: Final = Option(
    "--agent", "the agent, by its name (see dragoman agents list)", value="AGENT", short="-a", suggest=agent_names
)
BUILT_IN: Final = "dragoman"


class Named(NamedTuple):
    """An agent and the settings it was found in."""

    entry: AgentEntry
    agents: Agents


def find_agent(verb: str, name: str | None, command: tuple[str, ...] | None, cwd: str) -> Named:
    """The agent meant.

    Raises:
        Failure: two are named.
        ConfigError: there is no such agent, something has to be done before it can run, or a file is broken.
    """
    from dragoman.registry.agents import load_agents, resolve_command
    from dragoman.settings import find_project, load_settings
    from dragoman.settings.places import cache_dir, config_dir, data_dir

    if command is not None and name is not None:
        raise Failure("-a and a command after -- both name an agent", hint="give one of them")
    if command == ():
        raise Failure("no command after --", hint=f"dragoman {verb} -- gemini --acp")
    settings = load_settings(config_dir(), find_project(Path(cwd)))
    agents = load_agents(settings, data_dir(), cache_dir())
    if command is not None:
        return Named(resolve_command(command), agents)
    return Named(_default(agents) if name is None else agents.find(name), agents)


def _default(agents: Agents) -> AgentEntry:
    """The configured default agent, else the built-in one."""
    from dragoman.registry.agents import AgentEntry

    if agents.default is not None:
        return agents.find(agents.default)
    command = (sys.executable, "-m", "dragoman", "agent")
    return AgentEntry(name=BUILT_IN, command=command, source="built-in", where="dragoman agent")


def is_built_in(entry: AgentEntry) -> bool:
    """Whether it is our own coding agent, which takes its model on its command line."""
    return entry.source == "built-in" and entry.name == BUILT_IN


@asynccontextmanager
async def talk(entry: AgentEntry, cwd: str, *, terminal_login: bool = False) -> AsyncIterator[RemoteAgent]:
    """The agent for a few questions: no services, no session.

    Raises:
        Failure: its program cannot be started.
    """
    from dragoman.cli.console import shown_log
    from dragoman.client import connect
    from dragoman.errors import ConfigError
    from dragoman.transports.process import ProcessTransport

    try:
        transport = await ProcessTransport.spawn(entry.command, cwd=cwd, env=entry.env, spare=entry.quirks.spare)
    except ConfigError as error:
        raise Failure(str(error), hint="dragoman agents doctor says what is missing", exit_code=AGENT_DIED) from None
    with shown_log():
        async with connect(transport, terminal_login=terminal_login) as agent:
            yield agent


def folder(flag: str, path: str) -> str:
    """A folder that was named, made absolute.

    Raises:
        Failure: there is none.
    """
    if not os.path.isdir(path):
        raise Failure(f"{flag} {path}: no such folder", hint="name a folder that exists")
    return os.path.abspath(path)
