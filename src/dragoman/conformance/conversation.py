"""Both directions of a connection as the judge sees them: every line is kept as it came, every wait is bounded.

Owns the log, the reading of lines into messages, and waiting for one. It sends anything, right or wrong, and does not
depend on the methods of the protocol; which side the judge plays is decided by the probes built on this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from dragoman.conformance.case import Fail
from dragoman.text.terminal import shorten
from dragoman.trace.entry import End, Frame

if TYPE_CHECKING:
    from dragoman.errors import ConnectionClosed
    from dragoman.rpc import Transport
    from dragoman.trace.entry import Entry

Direction: TypeAlias = Literal["c2a", "a2c"]
Test: TypeAlias = Callable[["WireMessage"], bool]

# A longer line closes the connection, so that it does not fill the memory; the protocol's own limit is 32 MiB.
LINE_BYTES = 256 * 1024 * 1024
EXCERPT_CHARACTERS = 160  # of a line, in messages and reports


class Silence(Fail):
    """What was waited for did not come in time."""


class Gone(Fail):
    """The connection ended while something was waited for."""


class WireMessage:
    """One line the judged program wrote: its place in the log and, if it is a JSON object, its members."""

    __slots__ = ("body", "index", "line", "t")

    def __init__(self, index: int, t: float, line: bytes) -> None:
        self.index = index
        """Its position among everything the program wrote."""
        self.t = t
        self.line = line
        try:
            body = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            body = None
        self.body: dict[str, Any] = body if isinstance(body, dict) else {}

    @property
    def method(self) -> Any:
        return self.body.get("method")

    @property
    def id(self) -> Any:
        return self.body.get("id")

    @property
    def params(self) -> dict[str, Any]:
        """Its params if they are an object, else an empty one."""
        params = self.body.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def is_request(self) -> bool:
        return "method" in self.body and "id" in self.body

    @property
    def is_notification(self) -> bool:
        return "method" in self.body and "id" not in self.body

    @property
    def is_response(self) -> bool:
        return "method" not in self.body and ("result" in self.body or "error" in self.body)

    @property
    def is_error(self) -> bool:
        return "error" in self.body

    @property
    def result(self) -> Any:
        return self.body.get("result")

    @property
    def fields(self) -> dict[str, Any]:
        """The result if it is an object, else an empty one."""
        return self.result if isinstance(self.result, dict) else {}

    @property
    def error(self) -> dict[str, Any]:
        error = self.body.get("error")
        return error if isinstance(error, dict) else {}

    @property
    def code(self) -> Any:
        """The code of the error; None for a success."""
        return self.error.get("code")

    def answers(self, id: object) -> bool:
        """Whether it is the response to the request `id`, the type of the id included (rule 20)."""
        return self.is_response and type(self.id) is type(id) and self.id == id

    def __repr__(self) -> str:
        return shorten(self.line.decode(errors="replace"), EXCERPT_CHARACTERS)


def as_json(value: object) -> str:
    """Return a value as it would be written in a message, for texts."""
    return msgspec.json.encode(value).decode()


class Conversation:
    """A transport that logs everything. `outgoing` is the direction of what the judge sends."""

    def __init__(self, transport: Transport, outgoing: Direction) -> None:
        self.entries: list[Entry] = []
        self.incoming: list[WireMessage] = []
        self.ended: ConnectionClosed | None = None
        self.on_message: Callable[[WireMessage], None] | None = None
        self._transport = transport
        self._outgoing: Direction = outgoing
        self._answers: Direction = "a2c" if outgoing == "c2a" else "c2a"
        self._began = monotonic()
        self._rest = bytearray()
        self._unfinished = b""
        self._waiting: list[tuple[Test, asyncio.Future[WireMessage]]] = []
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._next_id = 0
        self._asked: list[object] = []

    def start(self) -> None:
        """Start reading; `on_message` is called for every message, in order."""
        self._transport.start(self)

    @property
    def now(self) -> float:
        """Seconds since the conversation began."""
        return monotonic() - self._began

    @property
    def is_over(self) -> bool:
        return self._over.done()

    # Sending

    def send_bytes(self, data: bytes) -> None:
        """Write exactly these bytes. A line is logged when it is complete, or when nothing more will be sent."""
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        self.entries += [Frame(self.now, self._outgoing, line) for line in lines]
        self._transport.write(data)

    def _log_unfinished(self) -> None:
        if self._unfinished:
            self.entries.append(Frame(self.now, self._outgoing, self._unfinished, b""))
            self._unfinished = b""

    def send(self, body: object) -> None:
        """Write one JSON value on a line of its own."""
        self.send_bytes(msgspec.json.encode(body) + b"\n")

    def request(self, method: str, params: object = msgspec.UNSET, *, id: object = msgspec.UNSET) -> Any:
        """Send a request and return its id; without `id` a fresh number is used, without `params` there are none."""
        if id is msgspec.UNSET:
            self._next_id += 1
            id = self._next_id
        self._asked.append(id)
        self.send({"jsonrpc": "2.0", "id": id, "method": method, **_params(params)})
        return id

    def notify(self, method: str, params: object = msgspec.UNSET) -> None:
        self.send({"jsonrpc": "2.0", "method": method, **_params(params)})

    def reply(self, request: WireMessage, result: object) -> None:
        self.send({"jsonrpc": "2.0", "id": request.id, "result": result})

    def reply_error(self, request: WireMessage, code: int, message: str, data: object = msgspec.UNSET) -> None:
        error: dict[str, object] = {"code": code, "message": message}
        if data is not msgspec.UNSET:
            error["data"] = data
        self.send({"jsonrpc": "2.0", "id": request.id, "error": error})

    # Waiting

    @property
    def mark(self) -> int:
        """The present moment: `since(mark)` and `wait_for(..., since=mark)` see what comes from here on."""
        return len(self.incoming)

    @property
    def is_answered(self) -> bool:
        """Whether every request of the judge has its answer."""
        return all(any(message.answers(id) for message in self.incoming) for id in self._asked)

    def since(self, mark: int, test: Test | None = None) -> list[WireMessage]:
        """Return what came since the mark and passes the test."""
        return [message for message in self.incoming[mark:] if test is None or test(message)]

    def answers_to(self, id: object, mark: int = 0) -> list[WireMessage]:
        """Return every answer to one request since the mark; there should be one."""
        return self.since(mark, lambda message: message.answers(id))

    async def wait_for(self, test: Test, what: str, within_seconds: float, *, since: int = 0) -> WireMessage:
        """Wait for the first message since the mark that passes the test.

        Raises: Silence, Gone (both are failures of the judged program, if the case does not catch them).
        """
        found = next((message for message in self.incoming[since:] if test(message)), None)
        if found is not None:
            return found
        if self.ended is not None:
            raise Gone(f"the connection ended ({shorten(str(self.ended), EXCERPT_CHARACTERS)}) before {what}")
        future: asyncio.Future[WireMessage] = asyncio.get_running_loop().create_future()
        waiting = (test, future)
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(within_seconds):
                return await future
        except TimeoutError:
            raise Silence(f"no {what} within {within_seconds:g} s") from None
        except Gone as gone:
            raise Gone(f"{gone.message} before {what}") from None
        finally:
            self._waiting.remove(waiting)

    async def wait_over(self, within_seconds: float) -> bool:
        """Whether the other side ended the connection in time."""
        await asyncio.wait({self._over}, timeout=within_seconds)
        return self._over.done()

    async def close(self) -> None:
        """End the connection and wait until everything behind it is released."""
        self._log_unfinished()
        is_logged = any(isinstance(entry, End) and entry.dir == self._outgoing for entry in self.entries)
        if self.ended is None and not is_logged:
            self.entries.append(End(self.now, self._outgoing))
        self._transport.close()
        await self._transport.wait_closed()

    # What the transport calls

    def feed(self, data: bytes) -> None:
        self._rest += data
        if b"\n" not in data:
            if len(self._rest) > LINE_BYTES:
                self._rest.clear()
                self._transport.close()
            return
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            self._take(line, b"\n")

    def end(self, reason: ConnectionClosed) -> None:
        if self._rest:
            self._take(bytes(self._rest), b"")
        self.ended = reason
        self.entries.append(End(self.now, self._answers))
        if not self._over.done():
            self._over.set_result(None)
        for _, future in list(self._waiting):
            if not future.done():
                future.set_exception(Gone(f"the connection ended ({shorten(str(reason), EXCERPT_CHARACTERS)})"))

    def drained(self) -> None:
        pass

    def _take(self, line: bytes, eol: bytes) -> None:
        t = self.now
        self.entries.append(Frame(t, self._answers, line, eol))
        message = WireMessage(len(self.incoming), t, line)
        self.incoming.append(message)
        for test, future in list(self._waiting):
            if not future.done() and test(message):
                future.set_result(message)
        if self.on_message is not None:
            self.on_message(message)


def _params(params: object) -> dict[str, object]:
    return {} if params is msgspec.UNSET else {"params": params}
