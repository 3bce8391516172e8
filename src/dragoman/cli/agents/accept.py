"""`dragoman agents accept`: shows exactly what a project proposes to run, asks the user, and stores the acceptance.

Also for a well-known agent that is not installed: it shows what would be downloaded.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.agents.context import load_agents_here, required_name
from dragoman.cli.agents.display import shown_command, shown_path, shown_word
from dragoman.cli.console import write_json, write_note
from dragoman.policy.paths import is_below
from dragoman.settings.acceptances import fingerprint, mcp_fingerprint
from dragoman.settings.hooks import Hook, project_files
from dragoman.text.visible import spelled

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dragoman.cli.command import CliCall
    from dragoman.registry.agents import AgentEntry, Agents
    from dragoman.settings import EffectiveSettings


def accept_proposal(call: CliCall) -> int:
    name = required_name(call.given.name, "accept", "dragoman agents accept NAME")
    agents = load_agents_here()
    settings = agents.settings
    if call.given.mcp:
        return _accept_mcp_server(settings, name, is_sure=call.given.yes)
    if call.given.hook:
        return _accept_hook(settings, name, is_sure=call.given.yes)
    entry = agents.look_up(name)
    if entry is not None and entry.source == "known" and entry.package:
        return _accept_download(agents, entry, is_sure=call.given.yes, as_json=call.given.json)
    is_proposal = entry is not None and entry.source == "project"
    is_default = settings.proposed_default_agent == name
    if entry is None or not (is_proposal or is_default):
        raise exits.CliError(
            f"the project proposes no agent called {name!r}", hint="dragoman agents list shows all agents"
        )
    _show_agent(entry, settings.root)
    if is_default:
        sys.stderr.write("It also becomes the default agent of this project.\n")
    _confirm(name, is_sure=call.given.yes)
    if is_proposal:
        settings.accept("agent", entry.name, entry.sha256)
    if is_default:
        settings.accept("default", name, fingerprint((name,)))
    write_note(f"{name} is accepted; you are asked again if its command changes")
    if call.given.json:
        write_json({"name": name, "project": str(settings.root), "sha256": entry.sha256 or None})
    return exits.OK


def _accept_download(agents: Agents, entry: AgentEntry, *, is_sure: bool, as_json: bool) -> int:
    sys.stderr.write(f"agent {entry.name} would download {entry.package} and run\n  {shown_command(entry.command)}\n")
    _confirm(entry.name, is_sure=is_sure)
    agents.confirm(entry)
    write_note(f"{entry.name} may be downloaded; you are asked again for another version")
    if as_json:
        write_json({"name": entry.name, "package": entry.package, "command": list(entry.command)})
    return exits.OK


def _accept_mcp_server(settings: EffectiveSettings, name: str, *, is_sure: bool) -> int:
    servers = settings.proposed_mcp_servers()
    if name not in servers or settings.project is None:
        raise exits.CliError(
            f"the project proposes no MCP server called {name!r}", hint=f"it proposes: {', '.join(servers) or 'none'}"
        )
    server = servers[name]
    sys.stderr.write(f"MCP server {shown_word(name)} of {shown_path(str(settings.project.path))} would ")
    if "url" in server:
        sys.stderr.write(f"be reached at\n  {shown_word(server['url'])}\n")
        _show_variables("headers", server.get("headers", {}))
    else:
        sys.stderr.write(f"run\n  {shown_command((server['command'], *server.get('args', ())))}\n")
        _show_variables("environment", server.get("env", {}))
    _show_variables("settings", {name: str(server[name]) for name in ("cwd", "oauth") if name in server})
    _confirm(name, is_sure=is_sure)
    settings.accept("mcp", name, mcp_fingerprint(server))
    write_note(f"{name} is accepted; you are asked again if anything of it changes")
    return exits.OK


def _accept_hook(settings: EffectiveSettings, name: str, *, is_sure: bool) -> int:
    proposed = settings.proposed_hooks()
    if name not in proposed or settings.project is None:
        raise exits.CliError(
            f"the project proposes no hook called {name!r}", hint=f"it proposes: {', '.join(proposed) or 'none'}"
        )
    hook = proposed[name]
    write = sys.stderr.write
    write(f"{shown_path(str(settings.project.path))} would, when the built-in agent works in this project, run\n")
    if isinstance(hook, Hook):
        concerns = f" (tools: {shown_word(hook.matcher)})" if hook.matcher else ""
        write(f"  {hook.moment}{concerns}: {spelled(hook.command)}\n")
    else:
        for moment, line in (("format", hook.format), ("check", hook.check)):
            if line:
                write(f"  {moment} {spelled(hook.files)}: {spelled(line)}\n")
    write("It runs outside the sandbox, with your rights.\n")
    files = project_files(hook, settings.root) if settings.root is not None else []
    if files:
        write(f"It names files of the project, so look at them, too: {', '.join(map(shown_path, files))}\n")
    write("You are not asked again if other files that it runs change.\n")
    _confirm(name, is_sure=is_sure)
    settings.accept_hook(hook)
    write_note(f"{name} is accepted; with another command, moment, tool or content of those files it is not")
    return exits.OK


def _show_agent(entry: AgentEntry, root: Path | None) -> None:
    write = sys.stderr.write
    write(f"agent {shown_word(entry.name)} ({shown_path(entry.where)}) would run\n  {shown_command(entry.command)}\n")
    _show_variables("environment", entry.env)
    if entry.sha256:
        write(f"sha256 {entry.sha256}\n")
    inside = [word for word in entry.command if _is_project_file(root, word)]
    if entry.source == "project" and inside:
        write(f"It runs files of the project ({shown_command(inside)}). You are not asked again if they change.\n")


def _is_project_file(root: Path | None, word: str) -> bool:
    if root is None or not word or word.startswith("-"):
        return False
    path = os.path.realpath(os.path.join(root, word))
    return is_below(path, os.path.realpath(root)) and os.path.isfile(path)


def _show_variables(label: str, variables: Mapping[str, str]) -> None:
    if variables:
        lines = [f"  {shown_word(name)}={shown_word(value)}\n" for name, value in sorted(variables.items())]
        sys.stderr.write(f"with {label}\n{''.join(lines)}")


def _confirm(name: str, *, is_sure: bool) -> None:
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise exits.CliError(
            "the question cannot be asked: stdin is not a terminal", hint="review the above, then accept it with --yes"
        )
    sys.stderr.write(f"Accept {shown_word(name)}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise exits.CliError(f"{name} is not accepted", exit_code=exits.CANCELLED)
