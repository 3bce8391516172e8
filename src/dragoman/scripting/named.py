"""Agents started by their names.

Owns when a word is a name: it is alone, and has no path in it. Which agents there are is known to `dragoman.registry`;
a name that no agent has is taken for a program, as `dragoman.client.spawn` takes it.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from dragoman.client.connect import spawn as spawn_program
from dragoman.client.services import withhold_files

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from typing import Unpack

    from dragoman.client import ClientOptions, RemoteAgent
    from dragoman.process import Spare
    from dragoman.registry import AgentEntry

    Words = Sequence[str | os.PathLike[str]]


@asynccontextmanager
async def spawn(
    *command: str | os.PathLike[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    spare: Spare = (),
    on_stderr: Callable[[bytes], None] | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncIterator[RemoteAgent]:
    """Start an agent and connect to it. At exit the program is ended, with every process it started.

    Args:
        command: the agent's name (`"gemini"`; `dragoman agents list` shows all), or its program and arguments.
        cwd: the folder it is started in; this program's folder if None.
        env: variables that are added to this program's environment; None removes one.
        spare: daemons of the agent that are left running, by words of their command line.
        on_stderr: called with what the agent writes to stderr.
        options: services, name, limits, observers; see `dragoman.client.ClientOptions`.

    Raises:
        ConfigError: there is no such agent or program, or it cannot be started; the message says what to do.
        AgentExited: the program ended; a ConnectionClosed.
        RemoteProtocolError: the agent speaks another version of the protocol.
        ConnectionClosed: the agent ended before it answered, or did not answer in time.
    """
    entry = find_named(command, cwd)
    if entry is not None:
        command = entry.command
        env = {**entry.changed_env(os.environ), **(env or {})}
        spare = spare if callable(spare) else (*spare, *entry.quirks.spare)
        options = _withhold(options, entry.quirks.withhold)
    async with spawn_program(*command, cwd=cwd, env=env, spare=spare, on_stderr=on_stderr, **options) as agent:
        yield agent


def find_named(command: Words, cwd: str | os.PathLike[str] | None = None) -> AgentEntry | None:
    """Return the agent that a command names; None if it is a program.

    Args:
        command: the words; only a single one can be a name.
        cwd: a folder of the project whose agents count, too.

    Raises:
        ConfigError: there is neither an agent nor a program of this name, or the user has to do something first.
    """
    name = command[0] if len(command) == 1 else None
    if not isinstance(name, str) or not name or os.sep in name:
        return None
    import shutil
    from pathlib import Path

    from dragoman.registry.agents import load_agents
    from dragoman.settings import find_project, load_settings
    from dragoman.settings.places import cache_dir, config_dir, data_dir

    settings = load_settings(config_dir(), find_project(Path(cwd or ".").absolute()))
    agents = load_agents(settings, data_dir(), cache_dir())
    if agents.look_up(name) is None and shutil.which(name) is not None:
        return None
    return agents.find(name)


def _withhold(options: ClientOptions, withheld: frozenset[str]) -> ClientOptions:
    """Return the options without the services that the agent is known not to handle."""
    found: Any = dict(options)
    if "terminal" in withheld:
        found["terminals"] = None
    found["files"] = withhold_files(found.get("files"), withheld)
    kept: ClientOptions = found
    return kept
