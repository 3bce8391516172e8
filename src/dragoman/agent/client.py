"""The client at the other end, as an agent sees it.

Owns what the client said about itself at `initialize` and every request that goes to it: nothing it did not
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
    """The client refused or failed what the agent asked of it, or the local stand-in for that service did.

    Not caught by the handler it is a fault of the handler and answered as such: the code of a missing file must not
    become the answer to `session/prompt`.
    """


class RemoteClient:
    """What the client is and can do, and the way to ask it for something the typed calls do not cover."""

    __slots__ = ("_elicitations", "_offered", "_peer", "_takes_unstable", "capabilities", "info")

    def __init__(self, peer: Peer, *, takes_unstable: bool) -> None:
        self._peer = peer
        self._takes_unstable = takes_unstable
        self.info: v1.Implementation | None = None
        self.capabilities = v1.ClientCapabilities()
        self._offered: dict[str, bool] = {}
        # The ids of pages the user was sent to and that are not done with.
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
        """The client's answer to an extension request (`_vendor/name`, builtins) or to a client method (typed).

        Raises: LocalProtocolError for a name that is neither, CapabilityError for what the client did not
        advertise, ClientError when it answers with an error, ConnectionClosed.
        """
        if method.startswith("_"):
            return await self._ask(method, {} if params is None else params, Any)
        return await self._ask(method, params, self._allowed(method, "request").result)

    async def notify(self, method: str, params: object = None) -> None:
        """Sends an extension notification (`_vendor/name`) or one of the client's (`elicitation/complete`).

        Raises: LocalProtocolError for a name that is neither, CapabilityError, ConnectionClosed.
        """
        if not method.startswith("_"):
            self._allowed(method, "notification")
        await self._peer.notify(method, {} if params is None else params)

    async def complete_elicitation(self, elicitation_id: str) -> None:
        """Tells the client that what the user was asked to do on a page is done (rule 318)."""
        self._elicitations.discard(elicitation_id)
        await self.notify("elicitation/complete", v1.CompleteElicitationNotification(elicitation_id))

    async def _ask(self, method: str, params: object, result_type: type[T]) -> T:
        """Sends a request whose right to be sent was checked before; the way of this package's own calls."""
        try:
            return await self._peer.request(method, params, result_type)
        except RequestError as error:
            raise ClientError(error.code, error.message, error.data) from error

    def _require(self, gate: str, what: str) -> None:
        """Raises CapabilityError unless the client advertised `gate`."""
        if not self.offers(gate):
            raise CapabilityError(f"{what} needs a client that advertises {gate}; this one does not")

    def _meet(self, params: v1.InitializeRequest) -> None:
        """Takes what the client says of itself; a repeated `initialize` replaces it (rule 48)."""
        self.info = params.client_info or None
        self.capabilities = params.client_capabilities or v1.ClientCapabilities()
        self._offered.clear()

    def _allowed(self, method: str, kind: str) -> Method:
        known = CLIENT_METHODS.get(method)
        if known is None or known.kind != kind or method == "session/update":
            raise LocalProtocolError(f"{method!r} is no {kind} of a client; extension names begin with an underscore")
        if not known.is_stable and not self._takes_unstable:
            raise LocalProtocolError(f"{method} is not stable; create the agent with unstable=True to send it")
        if known.gate is not None:
            self._require(known.gate, method)
        return known
