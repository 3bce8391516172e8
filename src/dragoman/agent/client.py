"""The client at the other end, as an agent sees it.

Owns what the client sent about itself in `initialize`, and every request that goes to it: nothing it did not
advertise is sent. Does not know sessions or turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.errors import CapabilityError, LocalProtocolError, RequestError
from dragoman.schema import CLIENT_METHODS, v1
from dragoman.schema.gates import is_advertised

if TYPE_CHECKING:
    from dragoman.rpc import Peer
    from dragoman.schema import Method

T = TypeVar("T")


class ClientError(RequestError):
    """The client answered a request of the agent with an error, or the local replacement for that service failed.

    If a handler does not catch it, the client's own request is answered with an internal error: the code of a missing
    file must not become the answer to `session/prompt`.
    """


class RemoteClient:
    """The client: its name, its capabilities, and requests to it that the typed calls of a turn do not cover."""

    __slots__ = ("_elicitations", "_offered", "_peer", "_takes_unstable", "capabilities", "info")

    def __init__(self, peer: Peer, *, takes_unstable: bool) -> None:
        self._peer = peer
        self._takes_unstable = takes_unstable
        self.info: v1.Implementation | None = None
        self.capabilities = v1.ClientCapabilities()
        self._offered: dict[str, bool] = {}
        # The ids of pages that the user was sent to and has not finished.
        self._elicitations: set[str] = set()

    def offers(self, gate: str) -> bool:
        """Whether the client advertised `gate`, a dotted path in its capabilities such as `fs.readTextFile`."""
        offered = self._offered.get(gate)
        if offered is None:
            offered = self._offered[gate] = is_advertised(self.capabilities, gate)
        return offered

    @property
    def is_connected(self) -> bool:
        """Whether it can still be reached."""
        return self._peer.is_open

    async def request(self, method: str, params: object = None) -> Any:
        """Send a request to the client and return its result.

        Args:
            method: An extension (`_vendor/name`), whose result is plain JSON data, or a method of the protocol that a
                client serves, whose result has the type of the schema.
            params: The parameters; an empty object by default.

        Raises:
            LocalProtocolError: The name is neither.
            CapabilityError: The client did not advertise the method.
            ClientError: The client answered with an error.
            ConnectionClosed: The connection has ended.
        """
        if method.startswith("_"):
            return await self._ask(method, {} if params is None else params, Any)
        return await self._ask(method, params, self._allowed(method, "request").result)

    async def notify(self, method: str, params: object = None) -> None:
        """Send a notification to the client: an extension (`_vendor/name`) or one of the protocol.

        Raises:
            LocalProtocolError: The name is neither.
            CapabilityError: The client did not advertise the method.
            ConnectionClosed: The connection has ended.
        """
        if not method.startswith("_"):
            self._allowed(method, "notification")
        await self._peer.notify(method, {} if params is None else params)

    async def complete_elicitation(self, elicitation_id: str) -> None:
        """Report to the client that what the user was asked to do on a page is done (rule 318)."""
        self._elicitations.discard(elicitation_id)
        await self.notify("elicitation/complete", v1.CompleteElicitationNotification(elicitation_id))

    async def _ask(self, method: str, params: object, result_type: type[T]) -> T:
        """Send a request whose capability was checked before; for the calls of this package."""
        try:
            return await self._peer.request(method, params, result_type)
        except RequestError as error:
            raise ClientError(error.code, error.message, error.data) from error

    def _require(self, gate: str, what: str) -> None:
        """Raise CapabilityError unless the client advertised `gate`."""
        if not self.offers(gate):
            raise CapabilityError(f"{what} needs a client that advertises {gate}; this one does not")

    def _meet(self, params: v1.InitializeRequest) -> None:
        """Keep what the client sent in `initialize`; a repeated one replaces it (rule 48)."""
        self.info = params.client_info or None
        self.capabilities = params.client_capabilities or v1.ClientCapabilities()
        self._offered.clear()

    def _allowed(self, method: str, kind: str) -> Method:
        known = CLIENT_METHODS.get(method)
        if known is None or known.kind != kind or method == "session/update":
            raise LocalProtocolError(f"a client has no {kind} {method!r}; extension names begin with an underscore")
        if not known.is_stable and not self._takes_unstable:
            raise LocalProtocolError(f"{method} is not stable; create the agent with unstable=True to send it")
        if known.gate is not None:
            self._require(known.gate, method)
        return known
