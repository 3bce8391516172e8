"""Extension methods of clients (`_vendor/name`), forwarded to the agent that they are for.

The agent is that of the session which the params name, or the one that the connection is bound to. Methods of the host
itself (`_dragoman/...`) never come here.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import ConnectionClosed, RequestError
from dragoman.host.clients.request_scope import RequestScope

if TYPE_CHECKING:
    from msgspec import Raw

    from dragoman.client import RemoteAgent
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Call


class ExtensionCalls:
    """The extension methods of one client."""

    def __init__(self, host: Host, client: HostConnection) -> None:
        self._host = host
        self._client = client

    async def request(self, call: Call) -> object:
        """Raises: RequestError if there is no agent for it."""
        params = _read(call.params)
        session = await self._session(params)
        if session is None and (self._client.agent is None or "sessionId" in params):
            raise RequestError.method_not_found(call.method)
        self._client.require("prompt", "" if session is None else session.id)
        return await self._forward(call, params, session)

    def notify(self, method: str, params: Raw) -> None:
        """Forward a notification to an agent that runs; ignore it otherwise."""
        found = _read(params)
        id = found.get("sessionId")
        # One that is not in memory has no agent that runs.
        session = self._host.find_live(id, self._client.visitor) if isinstance(id, str) else None
        run = None if session is None else session.agent.run
        if session is None and self._client.agent is not None and "sessionId" not in found:
            run = self._host.running_agent(self._client.agent, self._client.visitor)
        if run is not None and self._client.may("prompt", "" if session is None else session.id):
            _ = self._client.run(self._send(run.agent, method, self._for_agent(found, session)))

    async def _forward(self, call: Call, params: dict[str, Any], session: HostedSession | None) -> object:
        params = self._for_agent(params, session)
        if session is not None:
            return await (await session.agent.ensure()).agent.request(call.method, params)
        name = self._client.agent or ""
        run = self._host.running_agent(name, self._client.visitor)
        if run is not None:
            return await run.agent.request(call.method, params)
        async with self._host.logins.short_agent(name, RequestScope(self._client, call.id)) as started:
            return await started.request(call.method, params)

    async def _send(self, agent: RemoteAgent, method: str, params: dict[str, Any]) -> None:
        with suppress(ConnectionClosed):  # it would have been ignored
            await agent.notify(method, params)

    async def _session(self, params: dict[str, Any]) -> HostedSession | None:
        id = params.get("sessionId")
        return await self._host.find(id, self._client.visitor) if isinstance(id, str) else None

    def _for_agent(self, params: dict[str, Any], session: HostedSession | None) -> dict[str, Any]:
        return params if session is None else {**params, "sessionId": session.agent_session}


def _read(params: Raw | None) -> dict[str, Any]:
    found = msgspec.json.decode(params or b"{}")
    if not isinstance(found, dict):
        raise RequestError.invalid_params("the params of an extension method must be an object")
    return found
