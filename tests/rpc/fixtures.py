"""A peer under test in front of a raw line, so that a test decides every byte and its order."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dragoman.errors import ConnectionClosed, RequestError
from dragoman.rpc import Call, Limits, Observer, Peer
from dragoman.transports.memory import memory_pair

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

    from msgspec import Raw

    from dragoman.rpc import Transport


class RawEnd:
    """The other side of a connection, as lines."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.ended: asyncio.Future[ConnectionClosed] = asyncio.get_running_loop().create_future()
        self.has_room = asyncio.Event()
        self._partial = b""
        transport.start(self)

    def feed(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + bytes(data)).split(b"\n")
        for line in lines:
            self.lines.put_nowait(json.loads(line))

    def end(self, reason: ConnectionClosed) -> None:
        self.ended.set_result(reason)

    def drained(self) -> None:
        self.has_room.set()

    def send(self, *messages: object) -> None:
        """Writes messages in one piece: objects as JSON, bytes as they are."""
        self.transport.write(b"".join(m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages))

    def request(self, request_id: object, method: str, /, **params: object) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}

    def note(self, method: str, /, **params: object) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "method": method, "params": params}

    def result(self, request_id: object, result: object) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": request_id, "result": result}

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(60):
            return await self.lines.get()


class HotFrame(msgspec.Struct):
    method: Literal["hot"]
    params: dict[str, Any]


class RecordingRole:
    """Serves methods given as functions and writes down everything in the order it happened."""

    hot_mark = b'"method": "hot"'
    hot_decoder: msgspec.json.Decoder[Any] | None = msgspec.json.Decoder(HotFrame)

    def __init__(self, **methods: Callable[[Any, Call], Awaitable[object]]) -> None:
        self.methods = methods
        self.events: list[Any] = []
        self.changed = asyncio.Event()
        self.closed_by: ConnectionClosed | None = None
        self.peer: Peer
        self.cancelled_results: dict[str, object] = {}

    def on_hot(self, frames: list[HotFrame], lines: list[bytes]) -> None:
        self._note(*[("hot", frame.params["n"]) for frame in frames])

    def on_notification(self, method: str, params: Raw | None, line: bytes) -> None:
        self._note((method, msgspec.json.decode(params) if params is not None else None))

    def on_request(self, call: Call) -> Coroutine[Any, Any, object]:
        if call.method not in self.methods:
            raise RequestError.method_not_found(call.method)
        self._note((call.method, "began"))
        if call.method in self.cancelled_results:
            call.cancelled_result = lambda: self.cancelled_results[call.method]
        return self._serve(call)

    def on_close(self, reason: ConnectionClosed) -> None:
        self.closed_by = reason
        self._note(("closed", reason.reason))

    async def until(self, is_there: Callable[[list[Any]], object]) -> None:
        async with asyncio.timeout(60):
            while not is_there(self.events):
                self.changed.clear()
                await self.changed.wait()

    async def _serve(self, call: Call) -> object:
        params = None if call.params is None else msgspec.json.decode(call.params)
        return await self.methods[call.method](params, call)

    def _note(self, *events: object) -> None:
        self.events += events
        self.changed.set()


@asynccontextmanager
async def peer_and_line(
    role: RecordingRole | None = None, *, limits: Limits | None = None, observers: Sequence[Observer] = ()
) -> AsyncIterator[tuple[Peer, RawEnd, RecordingRole]]:
    role = role or RecordingRole()
    ours, theirs = memory_pair()
    peer = Peer(ours, role, limits=limits or Limits(), observers=observers)
    role.peer = peer
    line = RawEnd(theirs)
    peer.start()
    try:
        yield peer, line, role
    finally:
        await peer.close()
        theirs.close()
        await theirs.wait_closed()
