"""A client of the local host without an event loop: a blocking socket, lines of JSON, no roles.

A second prompt in a warm session must cost little more than the agent's own time, and loading asyncio and the client
role takes longer than all of that. So this imports what Python has loaded anyway, and the C parts of `socket` and
`json`. Owns the connection and the ids of requests; what is asked is up to the caller.
"""

import os
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM
from _socket import socket as Socket  # noqa: N812 - `socket` itself loads `selectors` and `enum`, a fifth of our time

from dragoman.host.environment import METHOD, block_for
from dragoman.host.local.lines import read_line, write_line

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from dragoman.host.local.place import HostPlace, HostPlaces
    from dragoman.rpc import Observer

    Message = dict[str, Any]

_READ_BYTES = 256 * 1024
# As the agents' side has it: a longer line is a mistake.
_LINE_BYTES = 64 * 1024 * 1024


class HostLost(Exception):
    """The connection to the host ended.

    Attributes:
        is_fresh: Nothing was received on it, so that the host may just have ended in order.
    """

    def __init__(self, message: str, *, is_fresh: bool) -> None:
        super().__init__(message)
        self.is_fresh = is_fresh


class HostRefused(Exception):
    """The host answered with an error."""

    def __init__(self, error: "dict[str, Any]") -> None:
        super().__init__(str(error.get("message")))
        self.code = int(error.get("code") or 0)
        data = error.get("data")
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}

    @property
    def reason(self) -> str:
        return str(self.data.get("reason", ""))


class ThinClient:
    """A connection to a host."""

    def __init__(self, sock: Socket, place: "HostPlace") -> None:
        self.place = place
        self.hello: dict[str, Any] = {}
        """What the host is: its version and build."""
        self._sock = sock
        self._buffer = bytearray()
        self._lines: list[bytes] = []
        self._again: list[Message] = []
        self._number = 0
        self._has_received = False
        self.observers: Sequence[Observer] = ()
        """See every line."""

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def set_timeout(self, seconds: float | None) -> None:
        """Set how long `read` waits before it raises `TimeoutError`."""
        self._sock.settimeout(seconds)

    # Sending

    def request(self, method: str, **params: object) -> int:
        """Send a request; gives its id."""
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def notify(self, method: str, **params: object) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, id: object, result: object) -> None:
        self.send({"jsonrpc": "2.0", "id": id, "result": result})

    def refuse(self, id: object, code: int, message: str) -> None:
        self.send({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})

    def send(self, message: "Message", *, is_observed: bool = True) -> None:
        line = write_line(message)
        for observer in self.observers if is_observed else ():
            observer.sent(line[:-1])
        try:
            self._sock.sendall(line)
        except (BrokenPipeError, ConnectionResetError):
            raise self._lost() from None

    # Receiving

    def read(self) -> "Message":
        """Read the next message.

        Raises:
            HostLost: the connection has ended.
            TimeoutError: none came in time.
        """
        if self._again:
            return self._again.pop()
        while not self._lines:
            try:
                data = self._sock.recv(_READ_BYTES)
            except ConnectionResetError:
                raise self._lost() from None
            if not data:
                raise self._lost()
            self._has_received = True
            self._buffer += data
            if len(self._buffer) > _LINE_BYTES:
                raise HostLost("the host sent a line without an end", is_fresh=False)
            cut = self._buffer.rfind(b"\n")
            if cut >= 0:
                self._lines = bytes(self._buffer[:cut]).split(b"\n")
                self._lines.reverse()
                del self._buffer[: cut + 1]
        line = self._lines.pop()
        for observer in self.observers:
            observer.received(line)
        message: Message = read_line(line)
        return message

    def put_back(self, message: "Message") -> None:
        """Let a message that was read be the next one again."""
        self._again.append(message)

    @property
    def has_lines(self) -> bool:
        """Whether `read` has a message without waiting for the socket."""
        return bool(self._again or self._lines)

    def result(self, id: int, on_other: "Callable[[Message], None] | None" = None) -> "Any":
        """Wait for the answer to a request; other messages are passed to `on_other`.

        Raises:
            HostRefused: the answer is an error.
            HostLost, TimeoutError: there is no answer.
        """
        while True:
            message = self.read()
            if message.get("id") == id and "method" not in message:
                if "error" in message:
                    raise HostRefused(message["error"])
                return message.get("result")
            if on_other is not None:
                on_other(message)

    def call(self, method: str, **params: object) -> "Any":
        """Send a request and wait for its answer."""
        return self.result(self.request(method, **params))

    def _lost(self) -> HostLost:
        return HostLost("the host ended the connection", is_fresh=not self._has_received)


def connect_to(place: "HostPlace") -> ThinClient | None:
    """Connect to the host at a place; None if none listens there."""
    sock = Socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
    try:
        sock.connect(place.socket)
    except OSError:
        sock.close()
        return None
    except BaseException:
        sock.close()
        raise
    return ThinClient(sock, place)


def connect_any(places: "HostPlaces") -> ThinClient | None:
    """Connect to the host of this user, wherever it is; None if none runs."""
    for place in places.places:
        if os.path.lexists(place.socket):
            client = connect_to(place)
            if client is not None:
                return client
    return None


def begin(client: ThinClient, *, role: str | None = None, forms: bool = False, unstable: bool = False) -> int:
    """Send `initialize`, without waiting for the answer; gives the id of the request.

    Args:
        role: `observer` for a client that only looks.
        forms: Whether forms can be shown.
        unstable: Whether unstable methods are used.
    """
    from dragoman.host.local.build import hello

    own = hello() if role is None else {**hello(), "role": role}
    if unstable:
        own["unstable"] = True
    capabilities: dict[str, Any] = {"_meta": {"dragoman": own}, "session": {"configOptions": {"boolean": {}}}}
    if forms:
        capabilities["elicitation"] = {"form": {}}
    info = {"name": "dragoman", "title": "dragoman", "version": str(own["version"])}
    return client.request("initialize", protocolVersion=1, clientInfo=info, clientCapabilities=capabilities)


def begun(client: ThinClient, id: int) -> "dict[str, Any]":
    """Read the answer to `initialize`: what the host is, as `hello` has it. Then the environment is sent."""
    answer = client.result(id)
    capabilities = answer.get("agentCapabilities") if isinstance(answer, dict) else None
    meta = capabilities.get("_meta") if isinstance(capabilities, dict) else None
    found = meta.get("dragoman") if isinstance(meta, dict) else None
    client.hello = found if isinstance(found, dict) else {}
    block = block_for(client.hello)
    if block:  # some observers record what they see
        client.send({"jsonrpc": "2.0", "method": METHOD, "params": {"block": block}}, is_observed=False)
    return client.hello
