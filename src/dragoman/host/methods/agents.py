"""Methods about agents: log in to one, start one again, and what the host did in a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import RequestError
from dragoman.host.clients.capabilities import auth_methods
from dragoman.host.clients.request_scope import RequestScope
from dragoman.host.methods.params import find_session, read_params

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.rpc import Call


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
    return {"authMethods": auth_methods(client.kind, known, agent, is_local=client.visitor.is_local)}


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
