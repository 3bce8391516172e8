"""The client that serves files and terminals of a session, if that was decided when the session was made.

Owns who it is, and waiting for it while it is away. Another client never takes its place by itself; `_dragoman/take`
does that. A client is recognised after a reconnect by the `client` of its `clientCapabilities._meta.dragoman`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConnectionClosed, DragomanError

if TYPE_CHECKING:
    from dragoman.host.clients.client_kind import ClientKind
    from dragoman.host.connection import HostConnection

AWAY_SECONDS: Final = 10.0


class ClientAway(DragomanError):
    """The client that serves a session did not come back in time."""


class Delegate:
    """The client that a session's files and terminals are delegated to."""

    def __init__(self, session: str, client: HostConnection, *, away_seconds: float = AWAY_SECONDS) -> None:
        self.kind: ClientKind = client.kind
        self.is_local = client.visitor.is_local
        self.was_reported = False
        """Whether its clients know that it is away."""
        self._session = session
        self._client: HostConnection | None = client
        self._away_seconds = away_seconds
        self._back = asyncio.Event()

    @property
    def is_here(self) -> bool:
        return self._client is not None

    def is_served_by(self, client: HostConnection) -> bool:
        return self._client is client

    def take(self, client: HostConnection) -> None:
        """This client serves the session from here on."""
        self._client, self.kind, self.is_local = client, client.kind, client.visitor.is_local
        self.was_reported = False
        self._back.set()

    def came(self, client: HostConnection) -> None:
        """A client was attached; it is the same one if it says so."""
        if self._client is None and client.kind.client is not None and client.kind.client == self.kind.client:
            self.take(client)

    def left(self, client: HostConnection) -> None:
        if self._client is client:
            self._client = None
            self._back.clear()

    async def request(self, method: str, params: dict[str, Any], *, may_repeat: bool = True) -> Any:
        """Ask the client, also after it came back.

        Args:
            method: A method of the protocol that clients answer.
            params: Without the session, whose id is the host's own here.
            may_repeat: Whether a request that was cut may be sent again.

        Raises:
            ClientAway: it did not come back in time.
            RequestError: it answered with an error.
        """
        while True:
            client = self._client
            if client is None:
                try:
                    async with asyncio.timeout(self._away_seconds):
                        await self._back.wait()
                except TimeoutError:
                    raise ClientAway("the client that serves this session is away") from None
                continue
            try:
                return await client.peer.request(method, {"sessionId": self._session, **params}, Any)
            except ConnectionClosed:
                self.left(client)
                if not may_repeat:
                    raise ClientAway("the client that serves this session went away") from None
