"""The agent a command line names: `-a NAME`, a command after `--`, the default, or the built-in agent.

Used by every verb that connects to an agent. Owns the option they share and a short connection without a session.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.cli.command import CliOption
from dragoman.cli.exits import AGENT_DIED, CliError
from dragoman.cli.masked_streams import mask_keys, mask_stored_keys
from dragoman.cli.suggestions import agent_names

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.cli.command import CliCall
    from dragoman.client import RemoteAgent
    from dragoman.registry.agents import AgentEntry, Agents


AGENT: Final = CliOption(
    "--agent", "the agent, by its name (see dragoman agents list)", value="AGENT", short="-a", suggest=agent_names
)
URL: Final = CliOption("--url", "an agent or a host on another machine, by its URL (docs/remote.md)", value="URL")
TOKEN_ENV: Final = CliOption(
    "--token-env", "with --url: the variable that holds the token (default: DRAGOMAN_TOKEN)", value="NAME"
)
CA: Final = CliOption("--ca", "with --url: certificates to trust, a PEM file, for a host with its own", value="FILE")
BUILT_IN: Final = "dragoman"


class NamedAgent(NamedTuple):
    """An agent and the settings it was found in."""

    entry: AgentEntry
    agents: Agents


def find_agent(
    verb: str, name: str | None, command: tuple[str, ...] | None, cwd: str, *, is_sure: bool = False
) -> NamedAgent:
    """Find the agent that the command line names.

    Args:
        verb: the command, for hints.
        name: the agent's name.
        command: the words after `--`.
        cwd: the folder whose project counts.
        is_sure: a well-known agent that is not installed may be downloaded without a question (`--yes`).

    Raises:
        CliError: the command line names two agents, or the user does not confirm the download.
        ConfigError: there is no such agent, it cannot run yet, or a settings file is broken.
    """
    from dragoman.registry.agents import load_agents, resolve_command
    from dragoman.settings import find_project, load_settings
    from dragoman.settings.places import cache_dir, config_dir, data_dir

    if command is not None and name is not None:
        raise CliError("-a and a command after -- both name an agent", hint="use only one of them")
    if command == ():
        raise CliError("no command after --", hint=f"dragoman {verb} -- gemini --acp")
    settings = load_settings(config_dir(), find_project(Path(cwd)))
    agents = load_agents(settings, data_dir(), cache_dir())
    mask_stored_keys()
    if command is not None:
        return NamedAgent(resolve_command(command), agents)
    wanted = name or agents.default or BUILT_IN
    found = agents.look_up(wanted)
    if found is not None and found.needs_confirmation:
        from dragoman.cli.download_question import confirm_download

        entry = confirm_download(agents, found, is_sure=is_sure)
    else:
        entry = agents.find(wanted) if found is None or found.problem else found
    mask_keys(entry.env)
    if entry.package:
        from dragoman.cli.download_question import download_first

        download_first(entry)  # now, so that it takes nothing of the time that the agent has to answer
    return NamedAgent(entry, agents)


def with_url(call: CliCall) -> CliCall:
    """Return the call, with the program that connects to `--url` in the place of a command after `--`.

    Raises:
        CliError: the command line names two agents, or a token without a URL.
    """
    given = call.given
    if given.url is None:
        for flag, member in (("--token-env", "token_env"), ("--ca", "ca")):
            if getattr(given, member, None) is not None:
                raise CliError(f"{flag} goes with --url", hint=f"in the settings, an agent has its own {member}")
        return call
    if call.program is not None or given.agent is not None:
        raise CliError("--url and -a or a command after -- both name an agent", hint="use only one of them")
    from dragoman.cli.connect import check_url
    from dragoman.registry.elsewhere import connect_command

    ca = getattr(given, "ca", None) or ""
    if ca and not os.path.isfile(ca):
        raise CliError(f"--ca {ca}: no such file", hint="name a file with certificates in PEM form")
    return call._replace(program=connect_command(check_url(given.url), given.token_env or "", ca))


def program_of(verb: str, call: CliCall) -> tuple[str, ...]:
    """Return the command of the agent for a verb that only passes its messages on: after `--`, by `-a`, or by `--url`.

    Variables of the agent's entry are set for this program, which starts nothing else.

    Raises:
        CliError: the command line names no agent, or two.
    """
    call = with_url(call)
    if call.program is None and call.given.agent is not None:
        entry = find_agent(verb, call.given.agent, None, os.getcwd()).entry
        os.environ.update(entry.env)
        return entry.command
    if not call.program:
        raise CliError(f"{verb} needs the agent's command", hint=f"dragoman {verb} -- gemini --acp")
    if call.given.agent is not None:
        raise CliError("-a and a command after -- both name an agent", hint="use only one of them")
    return call.program


@asynccontextmanager
async def short_connection(entry: AgentEntry, cwd: str, *, terminal_login: bool = False) -> AsyncIterator[RemoteAgent]:
    """Connect to the agent for a few requests, without services and without a session.

    Raises:
        CliError: its program cannot be started.
    """
    from dragoman.cli.console import shown_log, write_note
    from dragoman.cli.spared import note_spared
    from dragoman.client import connect
    from dragoman.errors import ConfigError
    from dragoman.transports.process import ProcessTransport

    try:
        transport = await ProcessTransport.spawn(
            entry.command, cwd=cwd, env=entry.changed_env(os.environ), spare=entry.quirks.spare
        )
    except ConfigError as error:
        raise CliError(str(error), hint="see what is missing: dragoman agents doctor", exit_code=AGENT_DIED) from None
    with shown_log():
        async with connect(transport, terminal_login=terminal_login) as agent:
            yield agent
        note_spared(entry.quirks, transport.marker, write_note)


def folder(flag: str, path: str) -> str:
    """Return the absolute path of a folder.

    Raises:
        CliError: there is no such folder.
    """
    if not os.path.isdir(path):
        raise CliError(f"{flag} {path}: no such folder", hint="choose a folder that exists")
    return os.path.abspath(path)
