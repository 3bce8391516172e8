"""`dragoman mcp add` and `remove`: write an MCP server into the user's settings, or a proposal into the project's.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.agents.display import shown_path
from dragoman.cli.console import write_note
from dragoman.cli.mcp.context import load_servers_here, required_name
from dragoman.settings.edit import edit_settings

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.settings import EffectiveSettings

_EXAMPLE = "dragoman mcp add docs --url https://docs.example/mcp, or: dragoman mcp add files -- mcp-files --read-only"


def add_server(call: CliCall) -> int:
    """Write an entry. Raises: CliError, ConfigError."""
    from dragoman.settings.servers import wrong_agent_name

    given = call.given
    name = required_name(given.server, "add", _EXAMPLE)
    if wrong_agent_name(name) or ":" in name:
        raise exits.CliError(f"a server cannot be called {name!r}", hint="use a short name without a colon")
    servers = load_servers_here()
    entry = _entry(call)
    path = _file(servers.settings, in_project=given.project)
    with edit_settings(path, is_shared=given.project) as settings:
        entries = settings.setdefault("mcp_servers", {})
        if name in entries and not given.replace:
            raise exits.CliError(
                f"{name} is already in {path}", hint="overwrite it with --replace, or choose another name"
            )
        entries[name] = entry
    where = shown_path(str(path))
    if given.project:
        write_note(f"{name} is proposed in {where}; each user accepts it with: dragoman agents accept --mcp {name}")
    else:
        write_note(f"{name} was added to {where}; try it with: dragoman mcp test {name}")
    return exits.OK


def remove_server(call: CliCall) -> int:
    """Remove an entry. A stored login stays: `logout` removes it. Raises: CliError, ConfigError."""
    from dragoman.builtin.mcp.config import ServerSpec

    given = call.given
    name = required_name(given.server, "remove", "dragoman mcp remove docs")
    servers = load_servers_here()
    found = servers.find(name)
    if found.source == "project" and not given.project:
        raise exits.CliError(f"{name} comes from the project", hint="remove it there with --project")
    path = _file(servers.settings, in_project=given.project)
    with edit_settings(path, is_shared=given.project) as settings:
        if settings.get("mcp_servers", {}).pop(name, None) is None:
            raise exits.CliError(f"{name} is not in {path}", hint="see: dragoman mcp list")
    write_note(f"{name} was removed from {shown_path(str(path))}")
    where = ServerSpec(name, url=found.entry.get("url", "")).where
    if not given.project and servers.tokens.get(where).tokens:
        write_note(f"its login is still stored; remove it with: dragoman mcp logout {where}")
    return exits.OK


def _file(settings: EffectiveSettings, *, in_project: bool) -> Path:
    from dragoman.settings.file import project_file

    if not in_project:
        return settings.user.path
    if settings.root is None:
        raise exits.CliError("there is no project here", hint="run it in the folder of the project")
    path = project_file(settings.root)
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(settings.root)):
        where, leads_to = shown_path(str(path)), shown_path(str(real))
        raise exits.CliError(f"{where} is a link that leads out of the project", hint=f"look at it: {leads_to}")
    return path


def _entry(call: CliCall) -> dict[str, Any]:
    """Return the entry that the command line describes. Raises: CliError."""
    given = call.given
    if bool(call.program) == bool(given.url):
        raise exits.CliError("mcp add needs either a command after -- or --url", hint=_EXAMPLE)
    if call.program:
        wrong = [flag for flag, value in (("--header", given.header), ("--transport", given.transport)) if value]
        if wrong or _oauth(given):
            raise exits.CliError(f"{wrong[0] if wrong else 'OAuth'} is for a server with --url", hint=_EXAMPLE)
        entry: dict[str, Any] = {"command": call.program[0], "args": list(call.program[1:])}
        if given.env:
            entry["env"] = dict(_pair("--env", text) for text in given.env)
        return entry
    if given.env:
        raise exits.CliError("--env is for a server with a command", hint="use --header for an address")
    if not given.url.startswith(("http://", "https://")):
        raise exits.CliError(f"--url {given.url}: this is not an http or https address", hint=_EXAMPLE)
    entry = {"type": given.transport or "http", "url": given.url}
    if given.header:
        entry["headers"] = dict(_pair("--header", text) for text in given.header)
    oauth = _oauth(given)
    if oauth:
        entry["oauth"] = oauth
    return entry


def _oauth(given: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if given.client_id:
        found["clientId"] = given.client_id
    if given.client_secret_env:
        found["clientSecretEnv"] = given.client_secret_env
    if given.scope:
        found["scopes"] = list(given.scope)
    if given.callback_port:
        if not given.callback_port.isdigit() or not 0 < int(given.callback_port) < 65536:
            raise exits.CliError(f"--callback-port {given.callback_port}: not a port", hint="use 1024 to 65535")
        found["callbackPort"] = int(given.callback_port)
    return found


def _pair(flag: str, text: str) -> tuple[str, str]:
    """Read NAME=VALUE, or for a header also `Name: value`."""
    for mark in ("=", ":") if flag == "--env" else (":", "="):
        name, found, value = text.partition(mark)
        if found and name.strip() and " " not in name.strip():
            return name.strip(), value.strip()
    raise exits.CliError(f"{flag} takes NAME=VALUE, not {text.partition('=')[0]!r}", hint="see dragoman mcp --help")
