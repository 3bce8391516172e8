"""The methods that show what host and agent of a session sent each other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dragoman.errors import RequestError
from dragoman.host.agents import command_of
from dragoman.host.methods.params import find_session, read_params
from dragoman.host.working.agent_traffic import MOST_FRAMES, session_secrets
from dragoman.host.working.uploads import UploadRefused

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.rpc import Call


async def answer_traffic(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with lines between host and agent of a session, each judged; with `wait`, once there are new ones."""
    params = read_params(call.params)
    session = await find_session(host, client, params)
    connection, after = _number(params, "connection", 0), _number(params, "after", 0)
    before = None if params.get("before") is None else _number(params, "before", 0)
    limit, only = _number(params, "limit", MOST_FRAMES), params.get("only")
    if not 1 <= limit <= MOST_FRAMES:
        raise RequestError.invalid_params(f"limit must be 1 to {MOST_FRAMES}", path="$.limit")
    if only not in (None, "broken"):
        raise RequestError.invalid_params("only can be broken", path="$.only")
    traffic = session.agent.traffic
    if params.get("wait") is True:
        await traffic.wait(connection, after)
    secrets = session_secrets(session.agent.env, session.servers)
    # Checking decodes every message: a thousand of them would hold up the sessions of others.
    answer = await asyncio.to_thread(
        traffic.answer, connection, after, secrets, before=before, limit=limit, only_broken=only == "broken"
    )
    source = host.find_source(session.record.agent)
    return {**answer, "agent": session.record.agent, "command": list(command_of(source)), "state": session.state}


async def save_traffic(host: Host, client: HostConnection, call: Call) -> object:
    """Keep the lines of a session as a recording, keys masked; the client gets it as an attachment."""
    session = await find_session(host, client, read_params(call.params))
    secrets = session_secrets(session.agent.env, session.servers)
    command = command_of(host.find_source(session.record.agent))
    content = await asyncio.to_thread(session.agent.traffic.recording, list(command), secrets)
    visitor = client.visitor
    try:
        upload = await host.uploads.put(
            content, "application/x-ndjson", user=visitor.principal, device=visitor.device or visitor.principal
        )
    except UploadRefused as refused:
        raise RequestError(-32603, str(refused), {"reason": "refused"}) from None
    return upload.document()


def _number(params: dict[str, Any], name: str, otherwise: int) -> int:
    found = params.get(name, otherwise)
    if not isinstance(found, int) or isinstance(found, bool):
        raise RequestError.invalid_params(f"{name} must be an integer", path=f"$.{name}")
    return found
