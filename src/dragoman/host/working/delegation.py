"""The client that serves files and terminals of a session, if that was decided when the session was made.

Owns who it is, waiting for it while it is away, and which answers to `fs/*` are its: the others come from the host's
disk. `served_terminals.py` does the same for commands. Another client never takes its place by itself; `_dragoman/take`
does that. A client is recognised after a reconnect by the `client` of its `clientCapabilities._meta.dragoman`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from dragoman.client.services import ReadsFiles, WritesFiles
from dragoman.errors import ConnectionClosed, DragomanError, RequestError
from dragoman.schema import decode, encode, v1

if TYPE_CHECKING:
    from dragoman.client import Session
    from dragoman.host.clients.client_kind import ClientKind
    from dragoman.host.connection import HostConnection
    from dragoman.host.session import HostedSession

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
        """Let this client serve the session from here on."""
        self._client, self.kind, self.is_local = client, client.kind, client.visitor.is_local
        self.was_reported = False
        self._back.set()

    def came(self, client: HostConnection) -> None:
        """Take a client that was attached, if it says that it is the same one."""
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


class LocalFiles(ReadsFiles, WritesFiles, Protocol):
    """Files that can be read and written."""


class ServedFiles:
    """The files of one session."""

    def __init__(self, hosted: HostedSession, local: LocalFiles) -> None:
        self._hosted = hosted
        self._local = local

    async def read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> str | v1.ReadTextFileResponse:
        delegate = self._hosted.delegate
        if delegate is not None and delegate.kind.reads_files:
            found = await self._delegated(delegate, "fs/read_text_file", request)
            if found is not None:
                answer: v1.ReadTextFileResponse = decode(v1.ReadTextFileResponse, msgspec.json.encode(found))
                return answer
        return await self._local.read_text_file(request, session)

    async def write_text_file(self, request: v1.WriteTextFileRequest, session: Session) -> None:
        delegate = self._hosted.delegate
        if delegate is not None and delegate.kind.writes_files:
            found = await self._delegated(delegate, "fs/write_text_file", request)
            if found is not None:
                return
        await self._local.write_text_file(request, session)

    async def _delegated(self, delegate: Delegate, method: str, request: object) -> dict[str, Any] | None:
        """Return the client's answer; None if the host has to serve the same files.

        Raises:
            RequestError: the client refused, or is away and on another machine.
        """
        params: dict[str, Any] = msgspec.json.decode(encode(request))
        params.pop("sessionId", None)
        try:
            return await delegate.request(method, params) or {}
        except ClientAway as error:
            if not delegate.is_local:
                raise RequestError.internal_error(f"{error}, and its files are on another machine") from None
        if not delegate.was_reported:
            delegate.was_reported = True
            self._hosted.notice("The client is away: files are read from disk, without its unsaved text.")
        return None
