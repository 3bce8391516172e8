"""A link of a proxy chain: one connection to the conductor, as two transports, to the client and to the successor.

Theory of operation
-------------------
The conductor sends what comes from the client's side as it is, and what comes from the successor wrapped in
`proxy/successor`; a link does the same. `ChainLink` unwraps and wraps, so that a program between two connections
becomes a link when it uses `link.client` and `link.successor` in their place. `proxy/initialize` is read as
`initialize` of the client's side.

*Ids.* Requests of the conductor keep their ids on both sides, because they differ. Requests to it get ids of ours,
because those of the two sides may be equal. `$/cancel_request` names a request of its own connection: it is sent to the
side whose request it is, and one of a side gets the id that its request has on the connection.

*The first request* decides: `initialize` without `proxy/` means that this program was started as an agent, which it is
not. It is refused with that reason.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET

from dragoman.errors import INVALID_PARAMS, INVALID_REQUEST
from dragoman.proxy.chain_frames import (
    CANCEL_REQUEST,
    INITIALIZES,
    PLAIN,
    SUCCESSORS,
    cancelled_id,
    spelling_of,
    unwrap,
    wrap,
    write_response,
)
from dragoman.wire import (
    Framer,
    Malformed,
    Notification,
    Request,
    Response,
    read_message,
    refuse,
    write_error,
    write_notification,
    write_request,
)
from dragoman.wire.open_requests import OpenRequests

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

    from dragoman.errors import ConnectionClosed
    from dragoman.rpc.transport import Receiver, Transport
    from dragoman.wire import Frame, Id

LinkSide: TypeAlias = Literal["client", "successor"]
_FLOOD_BYTES: Final = 16 << 20
_MOST_OPEN: Final = 20_000  # a conductor passes on 10,000 of each neighbour
"""A conductor that does not take so much is not read either, until it does."""
_NOT_A_LINK: Final = "this program is a link of a proxy chain: start it with `dragoman conduct`, in front of an agent"


class LinkEnd:
    """One side of a link, as a transport of plain messages. Both sides share one connection."""

    def __init__(self, link: ChainLink, side: LinkSide) -> None:
        self._link = link
        self._side: LinkSide = side
        self._framer = Framer()
        self.receiver: Receiver | None = None

    def start(self, receiver: Receiver) -> None:
        """Let data flow to `receiver`; it does when both sides are started."""
        self.receiver = receiver
        self._link.start_if_complete()

    def write(self, data: bytes) -> None:
        """Send lines to this side."""
        for line in self._framer.feed(data):
            self._link.send(self._side, line)

    @property
    def unsent_bytes(self) -> int:
        """What was written to either side and has not left yet."""
        return self._link.connection.unsent_bytes

    def pause_reading(self) -> None:
        """Stop feeding both sides."""
        self._link.pause(self._side)

    def resume_reading(self) -> None:
        """Feed again, unless the other side is paused."""
        self._link.resume(self._side)

    def end_writing(self) -> None:
        """Do nothing: the other side may still be written to."""

    def close(self) -> None:
        """Release the connection, of both sides."""
        self._link.connection.close()

    async def wait_closed(self) -> None:
        """Return when it is released."""
        await self._link.connection.wait_closed()


class ChainLink:
    """The two sides of a link.

    Args:
        connection: Leads to the conductor, such as a `StdioTransport`.
        on_noise: Called with a sentence about a line that is not a message.
    """

    def __init__(self, connection: Transport, *, on_noise: Callable[[str], None] = lambda text: None) -> None:
        self.connection = connection
        self.client = LinkEnd(self, "client")
        self.successor = LinkEnd(self, "successor")
        self._ends: dict[LinkSide, LinkEnd] = {"client": self.client, "successor": self.successor}
        self._on_noise = on_noise
        self._framer = Framer()
        self._spelling = PLAIN
        self._is_link = False
        self._asked: OpenRequests[tuple[LinkSide, Id]] = OpenRequests(_MOST_OPEN)
        """Requests to the conductor by our ids: which side asked, and its own id."""
        self._asks: dict[LinkSide, OpenRequests[Id]] = {
            "client": OpenRequests(_MOST_OPEN),
            "successor": OpenRequests(_MOST_OPEN),
        }
        """Requests of each side: our id."""
        self._open: OpenRequests[LinkSide] = OpenRequests(_MOST_OPEN)
        """Requests of the conductor that are not answered: which side they came from."""
        self._paused: set[str] = set()

    # For the two sides

    def start_if_complete(self) -> None:
        """Begin to read when both sides have a receiver."""
        if self.client.receiver is not None and self.successor.receiver is not None:
            self.connection.start(self)

    def pause(self, who: str) -> None:
        """Stop reading: one side does not want to be fed."""
        self._paused.add(who)
        self.connection.pause_reading()

    def resume(self, who: str) -> None:
        """Read again, unless another one still does not want to be fed."""
        self._paused.discard(who)
        if not self._paused:
            self.connection.resume_reading()

    def send(self, side: LinkSide, line: Frame) -> None:
        """Send a line of this program to one side."""
        message = read_message(line) if isinstance(line, bytes) else refuse(line)
        match message:
            case Request():
                own_id = self._asked.open_own((side, message.id))
                self._asks[side].open(message.id, own_id)
                self._write(side, own_id, message.method, message.params)
            case Notification(method="$/cancel_request"):
                request_id = cancelled_id(message.params)
                own_id = None if request_id is UNSET else self._asks[side].get(request_id)
                if own_id is not None:
                    params = msgspec.json.encode({"requestId": own_id})
                    self.connection.write(write_notification(CANCEL_REQUEST, params))
            case Notification():
                self._write(side, None, message.method, message.params)
            case Response():
                if self._open.get(message.id) == side:
                    self._open.close(message.id)
                    self.connection.write(write_response(message, message.id))
            case _:
                self._on_noise(f"a line for the {side} is not a message: {message.why}")

    def _write(self, side: LinkSide, request_id: Id, method: str, params: Raw | None) -> None:
        body = None if params is None else bytes(params)
        if side == "successor":
            method, body = f"{self._spelling}successor", wrap(method, body)
        line = write_notification(method, body) if request_id is None else write_request(request_id, method, body)
        self.connection.write(line)

    # Receiver: what the connection calls

    def feed(self, data: bytes) -> None:
        """Take bytes of the conductor."""
        lines: dict[LinkSide, list[bytes]] = {"client": [], "successor": []}
        last: LinkSide | None = None
        for frame in self._framer.feed(data):
            found = self._read(frame)
            if found is None:
                continue
            side, line = found
            if last is not None and side != last:  # the order between the sides is kept
                self._feed(last, lines[last])
            lines[side].append(line)
            last = side
        if last is not None:
            self._feed(last, lines[last])
        if self.connection.unsent_bytes > _FLOOD_BYTES:
            self.pause("flood")

    def _feed(self, side: LinkSide, lines: list[bytes]) -> None:
        receiver = self._ends[side].receiver
        if receiver is not None and lines:
            receiver.feed(b"".join(lines))
        lines.clear()

    def end(self, reason: ConnectionClosed) -> None:
        """End both sides: the conductor is gone."""
        for side in (self.client, self.successor):
            if side.receiver is not None:
                side.receiver.end(reason)

    def drained(self) -> None:
        """Feed both sides again: there is room for more."""
        self.resume("flood")
        for side in (self.client, self.successor):
            if side.receiver is not None:
                side.receiver.drained()

    def _read(self, frame: Frame) -> tuple[LinkSide, bytes] | None:
        """Return the side that a line of the conductor is from, and the plain line."""
        message = read_message(frame) if isinstance(frame, bytes) else refuse(frame)
        match message:
            case Request():
                return self._read_request(message)
            case Notification(method="$/cancel_request"):
                request_id = cancelled_id(message.params)
                side = None if request_id is UNSET else self._open.get(request_id)
                return None if side is None else (side, write_notification(CANCEL_REQUEST, _bytes(message.params)))
            case Notification():
                if message.method not in SUCCESSORS:
                    return "client", write_notification(message.method, _bytes(message.params))
                inner = unwrap(message.params)
                return None if inner is None else ("successor", write_notification(inner.method, inner.params))
            case Response():
                asked = self._asked.close(message.id)
                if asked is None:
                    return None
                asker, request_id = asked
                self._asks[asker].close(request_id)
                return asker, write_response(message, request_id)
            case _:
                self._complain(message)
                return None

    def _read_request(self, request: Request) -> tuple[LinkSide, bytes] | None:
        method, params = request.method, _bytes(request.params)
        side: LinkSide = "client"
        if method in INITIALIZES:
            self._spelling, self._is_link = spelling_of(method), True
            method = "initialize"
        elif not self._is_link:
            why = _NOT_A_LINK if method == "initialize" else "proxy/initialize must come first"
            self.connection.write(write_error(request.id, INVALID_REQUEST, why))
            return None
        elif method in SUCCESSORS:
            inner = unwrap(request.params)
            if inner is None:
                why = f"{method} needs a method and its params"
                self.connection.write(write_error(request.id, INVALID_PARAMS, why))
                return None
            side, (method, params) = "successor", inner
        refusal = self._open.refusal(request.id)
        if refusal is not None:
            self.connection.write(write_error(request.id, *refusal))
            return None
        self._open.open(request.id, side)
        return side, write_request(request.id, method, params)

    def _complain(self, bad: Malformed) -> None:
        self._on_noise(f"the conductor sent a line that is not a message: {bad.why}")
        if bad.kind == "request":
            self.connection.write(write_error(None if bad.id is UNSET else bad.id, bad.code, bad.why))


def _bytes(params: Raw | None) -> bytes | None:
    return None if params is None else bytes(params)


Look: TypeAlias = "Callable[[bytes], bytes | None]"
"""Gets a line without its end, and returns the one to pass on, or None for none."""


class PassThrough:
    """A link that passes everything on, looking at each line if it is asked to.

    Args:
        link: The two sides.
        from_client: Called with each line of the client's side; what it returns is sent to the successor.
        from_successor: The same for the other direction.
    """

    def __init__(self, link: ChainLink, from_client: Look | None = None, from_successor: Look | None = None) -> None:
        self._link = link
        self.ended: asyncio.Future[ConnectionClosed] = asyncio.get_running_loop().create_future()
        link.client.start(_Side(self, link.successor, from_client))
        link.successor.start(_Side(self, link.client, from_successor))

    def end(self, reason: ConnectionClosed) -> None:
        """End the relaying: the conductor is gone."""
        if not self.ended.done():
            self.ended.set_result(reason)


class _Side:
    """The receiver of one side."""

    def __init__(self, owner: PassThrough, other: LinkEnd, look: Look | None) -> None:
        self._owner = owner
        self._other = other
        self._look = look
        self._framer = Framer()

    def feed(self, data: bytes) -> None:
        if self._look is None:
            self._other.write(data)
            return
        for frame in self._framer.feed(data):
            line = self._look(frame) if isinstance(frame, bytes) else None
            if line is not None:
                self._other.write(line + b"\n")

    def end(self, reason: ConnectionClosed) -> None:
        self._owner.end(reason)

    def drained(self) -> None:
        pass


async def run_link(from_client: Look | None = None, from_successor: Look | None = None) -> None:
    """Be a link on this program's stdin and stdout until the conductor is gone.

    Args:
        from_client: Called with each line of the client's side; what it returns is sent to the successor.
        from_successor: The same for the other direction.
    """
    from dragoman.transports.stdio import StdioTransport

    connection = StdioTransport()
    through = PassThrough(ChainLink(connection), from_client, from_successor)
    try:
        await through.ended
    finally:
        connection.close()
        await connection.wait_closed()
