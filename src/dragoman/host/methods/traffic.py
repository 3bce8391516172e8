"""The method that shows what host and agent of a session sent each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.errors import RequestError
from dragoman.host.agents import command_of
from dragoman.host.methods.params import find_session, read_params
from dragoman.host.working.agent_traffic import session_secrets

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.rpc import Call


async def answer_traffic(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the last lines between host and agent of a session; with `wait`, once there are new ones."""
    params = read_params(call.params)
    session = await find_session(host, client, params)
    connection, after = params.get("connection", 0), params.get("after", 0)
    if not isinstance(connection, int) or not isinstance(after, int):
        raise RequestError.invalid_params("connection and after must be integers")
    traffic = session.agent.traffic
    if params.get("wait") is True:
        await traffic.wait(connection, after)
    answer = traffic.answer(connection, after, session_secrets(session.agent.env, session.servers))
    source = host.find_source(session.record.agent)
    return {**answer, "agent": session.record.agent, "command": list(command_of(source)), "state": session.state}
