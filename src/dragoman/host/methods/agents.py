"""Methods about agents: which there are, log in to one, start one again, and what the host did in a turn."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import ConfigError, RequestError
from dragoman.host.clients.admission import admit_folder
from dragoman.host.clients.capabilities import auth_methods
from dragoman.host.clients.request_scope import RequestScope
from dragoman.host.methods.params import find_session, read_params
from dragoman.schema import decode, v1

if TYPE_CHECKING:
    from dragoman.host.agent_descriptions import AgentDescription
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.registry.agents import AgentEntry
    from dragoman.registry.presence import Readiness
    from dragoman.rpc import Call


async def list_agents(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the agents that a session can be opened with, and whether each can be started. Starts nothing."""
    cwd = read_params(call.params).get("cwd")
    if client.agent is not None:
        entries = [(client.agent, getattr(host.find_source(client.agent), "entry", None))]
    else:
        folder = None if cwd is None else admit_folder(str(cwd), client.visitor)
        try:
            entries = await asyncio.to_thread(host.agent_entries, folder)
        except (ConfigError, OSError) as error:
            raise RequestError(-32603, str(error), {"reason": "settings"}) from None
    return {"agents": await asyncio.to_thread(_described, host, entries, cwd)}


def _described(host: Host, entries: list[tuple[str, AgentEntry | None]], cwd: object) -> list[dict[str, Any]]:
    from dragoman.registry.known import recognise
    from dragoman.registry.presence import program_version, readiness

    try:
        default = host.default_agent(cwd if isinstance(cwd, str) else os.path.expanduser("~"))
    except RequestError:
        default = None
    found = []
    for name, entry in entries:
        row: dict[str, Any] = {"name": name, "title": name, "isDefault": name == default}
        if entry is None or entry.is_scripted:  # it runs in this process, or calls no model
            found.append({**row, "state": "ready"})
            continue
        known = None if entry.source == "built-in" else recognise(entry.name, entry.command)
        ready, version = _built_in() if entry.source == "built-in" else readiness(entry), program_version(entry)
        row |= {"title": name if known is None else known.title, "state": ready.state}
        row |= {"version": version} if version else {}
        found.append({**row, **({"how": ready.how} if ready.how else {})})
    order = ("ready", "login", "unknown", "missing")
    return sorted(found, key=lambda row: (not row["isDefault"], order.index(row["state"])))


def _built_in() -> Readiness:
    """Return whether the built-in agent has a model: a setting, a stored key, or a variable with a key."""
    from dragoman.builtin.models.providers import has_key
    from dragoman.registry.presence import Readiness
    from dragoman.settings import load_settings
    from dragoman.settings.credentials import Credentials
    from dragoman.settings.places import config_dir

    try:
        has_model = has_key(os.environ) or bool(load_settings(config_dir()).model or Credentials(config_dir()).keys())
    except (ConfigError, OSError) as error:
        return Readiness("unknown", str(error))
    how = "it needs the key of a model: dragoman login, or a variable such as ANTHROPIC_API_KEY"
    return Readiness("ready") if has_model else Readiness("login", how)


async def report(host: Host, client: HostConnection, call: Call) -> object:
    """Answer what the host decided and did in the turn of a prompt."""
    params = read_params(call.params)
    session = await host.find(str(params.get("sessionId", "")), client.visitor)
    if session is None:
        return {"report": None}
    return {"report": session.agent.reports.find(str(params.get("promptId", "")))}


async def restart_agent(host: Host, client: HostConnection, call: Call) -> object:
    """End the agent of a session, which ends its turn, and start it again with the session."""
    session = await find_session(host, client, read_params(call.params))
    session.env = session.env if client.env is None else client.env
    await session.agent.restart()
    return {}


async def list_login_methods(host: Host, client: HostConnection, call: Call) -> object:
    """Answer how a user can log in to an agent; one that was never started is started for it."""
    agent = host.require_agent(read_params(call.params).get("agent"), client.visitor)
    described = await host.describe_agents(agent, client.env)
    known = {agent: described[agent]}
    methods = auth_methods(client.kind, known, agent, is_local=client.visitor.is_local)
    return {"authMethods": methods, "commands": _login_commands(agent, described[agent])}


def _login_commands(agent: str, described: AgentDescription | None) -> list[dict[str, Any]]:
    """Return the methods that need a terminal of this machine, as what a user types there.

    An agent that offers no method, or could not be started, has one command, which shows what is wrong.
    """
    from dragoman.client.login import login_methods
    from dragoman.process.own_program import shell_words

    if described is None or not described.auth_methods:
        return [{"name": agent, "command": shell_words("login", "-a", agent)}]
    methods: list[Any] = [decode(v1.AuthMethod, msgspec.json.encode(method)) for method in described.auth_methods]
    offered = login_methods(methods, ("agent",))  # `dragoman login` finds the words of the command again
    return [
        {"id": method.id, "name": method.name, "command": shell_words("login", "-a", agent, method.id)}
        for method in offered
        if method.kind in ("terminal", "environment")
    ]


async def log_in(host: Host, client: HostConnection, call: Call) -> object:
    """Log in to an agent by a method that the agent carries out itself, with a key of the user if it takes one."""
    from dragoman.client.login import passed_key

    params = read_params(call.params)
    agent, method = host.require_agent(params.get("agent"), client.visitor), str(params.get("method", ""))
    if not host.may_log_in(client.visitor):
        raise RequestError.method_not_found(call.method)
    scope, key = RequestScope(client, call.id), passed_key(params.get("_meta"))
    await host.logins.log_in(agent, method, scope, is_local=client.visitor.is_local, key=key)
    return {}
