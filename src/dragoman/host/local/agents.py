"""The agents of this machine as sources of a host: by name, by command.

A host writes down how an agent is started as one text: `NAME`, `NAME ARGUMENT...` with further arguments, or
`-- PROGRAM ARGUMENT...`. It is resolved at each start, in the folder of the session, so that changed settings count.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.host.entry_source import EntrySource
from dragoman.process.child import Child
from dragoman.process.launch import launch
from dragoman.registry.agents import BUILT_IN, load_agents, resolve_command
from dragoman.settings import find_project, load_settings
from dragoman.settings.places import cache_dir, config_dir, data_dir
from dragoman.text.secrets import KEY_VARIABLES, remember_keys
from dragoman.transports.process import ProcessTransport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.registry.agents import AgentEntry
    from dragoman.rpc import Transport
    from dragoman.settings import EffectiveSettings

COMMAND_MARK: Final = "-- "
HOSTED_VARIABLE: Final = "DRAGOMAN_HOSTED"
"""Marks the processes of a host's agents, so that the next host finds what an earlier one left behind."""
# When memory runs out, an agent goes before the host, and the host before nothing of the user's.
_SOONER: Final = 300


def find_entry(
    text: str, cwd: str | None, env: Mapping[str, str] | None = None
) -> tuple[AgentEntry, EffectiveSettings]:
    """Find the agent that a text stands for.

    Args:
        text: As the log has it.
        cwd: The folder whose project counts; None for no project.
        env: Of the client, whose programs are searched; None for that of the host.

    Raises:
        ConfigError: there is none, or the user has to do something first.
    """
    settings = load_settings(config_dir(), None if cwd is None else find_project(Path(cwd)))
    if text.startswith(COMMAND_MARK):
        return resolve_command(_words(text.removeprefix(COMMAND_MARK))), settings
    name, *added = _words(text) or [""]
    entry = load_agents(settings, data_dir(), cache_dir(), environment=env).find(name)
    return (replace(entry, command=(*entry.command, *added)) if added else entry), settings


def default_agent(cwd: str) -> str:
    """Return the agent for a session that names none."""
    settings = load_settings(config_dir(), find_project(Path(cwd)))
    return load_agents(settings, data_dir(), cache_dir()).default or BUILT_IN


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"the command of the agent cannot be read ({error}): {text}") from None


def ledger_name(text: str) -> str:
    """Return the ledger's name of the agent that a text stands for: a command line, or a name without its arguments."""
    if text.startswith(COMMAND_MARK):
        return text.removeprefix(COMMAND_MARK)
    try:
        return _words(text)[0]
    except (ConfigError, IndexError):
        return text


class MachineAgent(EntrySource):
    """An agent that is a program of this machine."""

    def __init__(self, name: str, mark: str) -> None:
        """Make a source.

        Args:
            name: How it is started, as the log has it.
            mark: Of this host, for the processes of its agents.
        """
        self.name = name
        self._mark = mark
        self._entry: AgentEntry | None = None

    @property
    def entry(self) -> AgentEntry | None:
        """As it was last started; before that, as the user's own settings have it."""
        if self._entry is None:
            with suppress(ConfigError):
                self._entry = find_entry(self.name, None)[0]
        return self._entry

    async def start(self, cwd: str, env: Mapping[str, str] | None) -> Transport:
        entry = self._entry = find_entry(self.name, cwd, env)[0]
        whole = {**self.environment(env), HOSTED_VARIABLE: self._mark}
        # Of the variables only the keys: they are kept for as long as the host lives.
        remember_keys({name: whole[name] for name in KEY_VARIABLES if name in whole})
        from dragoman.process.sandbox.apart import keep_apart

        if entry.package:
            await _download(entry, whole)
        apart = keep_apart(entry.command, cwd, cwd=cwd, env=whole)
        launched = launch(
            apart.argv,
            cwd=cwd,
            env=whole,
            inherit_env=False,
            spare=entry.quirks.spare,
            starter=apart.starter,
        )
        yield_first(launched.pid)
        return ProcessTransport(Child(launched))


async def _download(entry: AgentEntry, environment: Mapping[str, str]) -> None:
    """Download the package of an agent before its start, which has a time limit. Raises: ConfigError."""
    import asyncio

    from dragoman.host.agents import unlimited
    from dragoman.registry.packages import InstallFailed, download
    from dragoman.settings.places import data_dir

    try:
        async with unlimited():
            await asyncio.to_thread(download, entry.command, entry.package, data_dir(), environment)
    except InstallFailed as error:
        raise ConfigError(f"{error}: {' | '.join(error.output)}") from error


def yield_first(pid: int) -> None:
    """Let this process be ended before the host when memory runs out."""
    with suppress(OSError, ValueError):
        with open("/proc/self/oom_score_adj", encoding="ascii") as file:
            own = int(file.read())
        with open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(min(1000, own + _SOONER)))
