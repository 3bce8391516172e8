"""What a host offers to the agents it runs: files and terminals next to them, and questions to the clients.

The capabilities that are announced are those of the host, always the same, because an agent learns them once and
clients come and go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.schema import decode, encode, v1

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.client import ClientOptions, Session
    from dragoman.host.questions import Method
    from dragoman.host.session import HostedSession


class HostServices:
    """Makes the services of each session."""

    def __init__(self, extra: Callable[[HostedSession, AsksClients], ClientOptions] | None = None) -> None:
        """Prepare services.

        Args:
            extra: Further options for a session's agent: files, terminals, and a permission service that judges by
                rules before it asks the clients.
        """
        self._extra = extra

    def options(self, session: HostedSession) -> ClientOptions:
        """The options of the connection to a session's agent."""
        asks = AsksClients(session)
        options: ClientOptions = {"name": "dragoman", "title": "Dragoman", "permission": asks, "elicitation": asks}
        if self._extra is not None:
            options = {**options, **self._extra(session, asks)}
        return options


class AsksClients:
    """Answers the agent's questions by asking the clients of its session."""

    def __init__(self, session: HostedSession) -> None:
        self._session = session

    async def __call__(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> str | v1.RequestPermissionOutcome | None:
        answer = await self._ask("session/request_permission", request)
        outcome: v1.RequestPermissionOutcome = decode(v1.RequestPermissionResponse, msgspec.json.encode(answer)).outcome
        return outcome

    async def form(
        self, request: v1.ElicitationFormMode, session: Session | None
    ) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation:
        return await self._elicit(request)

    async def url(
        self, request: v1.ElicitationUrlMode, session: Session | None
    ) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation:
        return await self._elicit(request)

    async def _elicit(self, request: object) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation:
        answer = await self._ask("elicitation/create", request)
        action = answer.get("action")
        if action == "accept":
            return v1.AcceptElicitation(answer.get("content") or {})
        return v1.DeclineElicitation() if action == "decline" else v1.CancelElicitation()

    async def _ask(self, method: Method, request: object) -> dict[str, Any]:
        params: dict[str, Any] = msgspec.json.decode(encode(request))
        params.pop("sessionId", None)
        return await self._session.ask(method, params)
