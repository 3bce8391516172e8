"""`dragoman agents add`, `remove` and `accept`: what the user decides about agents, written to the user's files."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.agents.paths import here, needed, say, shown_command, shown_path, shown_word
from dragoman.cli.console import write_json
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dragoman.cli.command import CliCall
    from dragoman.registry.agents import AgentEntry, Agents


def add_agent(call: CliCall) -> int:
    """Writes an entry into the user's settings, or only makes an agent the default."""
    name = needed(call.given.name, "add", "dragoman agents add mine -- my-agent --acp")
    agents = here()
    if call.program is None and call.given.default:
        make_default(agents, agents.find(name).name)
        return exits.OK
    if not call.program:
        raise exits.CliError(
            "agents add needs the agent's command", hint=f"dragoman agents add {name} -- my-agent --acp"
        )
    _check_name(name, agents, may_replace=call.given.replace)
    entry: dict[str, Any] = {"command": call.program[0], "args": list(call.program[1:])}
    if call.given.env:
        entry["env"] = dict(map(_variable, call.given.env))
    settings = _raw_settings(agents.user.path)
    settings.setdefault("agent_servers", {})[name] = entry
    if call.given.default:
        settings["default_agent"] = name
    _write_settings(agents.user.path, settings)
    default = ", the default from now on" if call.given.default else ""
    say(f"{name} is in {shown_path(str(agents.user.path))}{default}; try it with: dragoman agents doctor {name}")
    return exits.OK


def make_default(agents: Agents, name: str) -> None:
    settings = _raw_settings(agents.user.path)
    settings["default_agent"] = name
    _write_settings(agents.user.path, settings)
    say(f"{name} is the default from now on ({shown_path(str(agents.user.path))})")


def remove_agent(call: CliCall) -> int:
    """Takes an agent away where it is the user's to take: settings, then what was installed, then what was accepted."""
    name = needed(call.given.name, "remove", "dragoman agents remove mine")
    agents = here()
    if name in agents.user.servers:
        settings = _raw_settings(agents.user.path)
        del settings["agent_servers"][name]
        if settings.get("default_agent") == name:
            del settings["default_agent"]
        _write_settings(agents.user.path, settings)
        say(f"{name} is removed from {shown_path(str(agents.user.path))}")
        return exits.OK
    with agents.installed.locked():
        was_installed = agents.installed.remove(name)
    if was_installed:
        say(f"{name} is removed from {shown_path(str(agents.installed.root))}")
        return exits.OK
    if agents.root is not None and agents.accepted.remove(agents.root, "agent", name):
        say(f"{name} of this project is not accepted any more")
        return exits.OK
    entry = agents.look_up(name)
    if entry is None:
        agents.find(name)
    assert entry is not None
    raise exits.CliError(f"{name} is not dragoman's to remove", hint=f"it comes from {shown_path(entry.where)}")


def accept_proposal(call: CliCall) -> int:
    """Shows what the project wants to run, exactly, and remembers a yes to that."""
    name = needed(call.given.name, "accept", "dragoman agents accept NAME")
    agents = here()
    if call.given.mcp:
        return _accept_mcp(agents, name, is_sure=call.given.yes)
    entry = agents.look_up(name)
    is_proposal = entry is not None and entry.source == "project"
    is_default = agents.proposed_default == name
    if entry is None or not (is_proposal or is_default):
        raise exits.CliError(
            f"no project's agent waits under the name {name!r}", hint="dragoman agents list shows what there is"
        )
    assert agents.root is not None
    _show_proposal(agents, entry)
    if is_default:
        sys.stderr.write("It also becomes the agent of this project when none is named.\n")
    _confirm(name, is_sure=call.given.yes)
    if is_proposal:
        agents.accepted.add(agents.root, "agent", entry.name, entry.sha256)
    if is_default:
        from dragoman.registry.proposals import fingerprint

        agents.accepted.add(agents.root, "default", name, fingerprint((name,)))
    say(f"{name} is accepted; if its command changes you are asked again")
    if call.given.json:
        write_json({"name": name, "project": str(agents.root), "sha256": entry.sha256 or None})
    return exits.OK


def _accept_mcp(agents: Agents, name: str, *, is_sure: bool) -> int:
    from dragoman.registry.proposals import mcp_fingerprint

    servers = agents.proposed_mcp_servers()
    if name not in servers or agents.root is None or agents.project is None:
        raise exits.CliError(
            f"no project's MCP server waits under the name {name!r}", hint=f"known are {', '.join(servers) or 'none'}"
        )
    server = servers[name]
    sys.stderr.write(f"MCP server {shown_word(name)} of {shown_path(str(agents.project.path))} would ")
    if "url" in server:
        sys.stderr.write(f"be reached at\n  {shown_word(server['url'])}\n")
        _show_variables("headers", server.get("headers", {}))
    else:
        sys.stderr.write(f"run\n  {shown_command((server['command'], *server.get('args', ())))}\n")
        _show_variables("environment", server.get("env", {}))
    _confirm(name, is_sure=is_sure)
    agents.accepted.add(agents.root, "mcp", name, mcp_fingerprint(server))
    say(f"{name} is accepted; if anything of it changes you are asked again")
    return exits.OK


def _show_proposal(agents: Agents, entry: AgentEntry) -> None:
    write = sys.stderr.write
    write(f"agent {shown_word(entry.name)} ({shown_path(entry.where)}) would run\n  {shown_command(entry.command)}\n")
    _show_variables("environment", entry.env)
    if entry.sha256:
        write(f"sha256 {entry.sha256}\n")
    inside = [word for word in entry.command if _is_inside(agents.root, word)]
    if entry.source == "project" and inside:
        write(
            f"It runs files of the project ({shown_command(inside)}), whose content can change without asking again.\n"
        )


def _is_inside(root: Path | None, word: str) -> bool:
    if root is None or not word or word.startswith("-"):
        return False
    path = os.path.realpath(os.path.join(root, word))
    return path.startswith(f"{os.path.realpath(root)}{os.sep}") and os.path.isfile(path)


def _show_variables(label: str, variables: Mapping[str, str]) -> None:
    if variables:
        lines = [f"  {shown_word(name)}={shown_word(value)}\n" for name, value in sorted(variables.items())]
        sys.stderr.write(f"with {label}\n{''.join(lines)}")


def _confirm(name: str, *, is_sure: bool) -> None:
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise exits.CliError("nobody can be asked here", hint="look at it above, then say it with --yes")
    sys.stderr.write(f"Accept {shown_word(name)}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise exits.CliError(f"{name} is not accepted", exit_code=exits.CANCELLED)


def _check_name(name: str, agents: Agents, *, may_replace: bool) -> None:
    from dragoman.registry.agents import SCRIPTED
    from dragoman.registry.servers import wrong_name

    if why := wrong_name(name):
        raise exits.CliError(why, hint="choose another name")
    if name.casefold() == SCRIPTED:
        raise exits.CliError(f"the name {name!r} is dragoman's own", hint="choose another name")
    if name in agents.user.servers and not may_replace:
        raise exits.CliError(
            f"{name} is already in {agents.user.path}", hint="write over it with --replace, or choose another name"
        )


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise exits.CliError(f"--env takes NAME=VALUE, not {text!r}", hint="see dragoman agents --help")
    return name, value


def _raw_settings(path: Path) -> dict[str, Any]:
    """The file as it is, so that what we do not know stays in it; it was read and checked before."""
    from dragoman.registry.documents import read_document

    document = read_document(path)
    return {} if document is None else dict(document.value)


def _write_settings(path: Path, settings: dict[str, Any]) -> None:
    from dragoman.registry.documents import write_document

    try:
        write_document(path, settings)
    except ConfigError as error:
        raise exits.CliError(str(error)) from error
