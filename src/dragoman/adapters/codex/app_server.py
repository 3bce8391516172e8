"""The program `codex app-server` and its JSON-RPC over standard input and output.

Owns the process, the ids of requests, and that every waiting request ends with the program. Its messages are lines of
JSON without the member `jsonrpc`; ids of its own requests are a space of their own. A line that cannot be read is
skipped, as the program does it with ours. Does not know what a message means.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman._version import __version__
from dragoman.adapters.codex.messages import CodexEnded, CodexQuestion, CodexRefused, Report
from dragoman.adapters.values import AdapterError
from dragoman.errors import AgentExited, ConfigError, ConnectionClosed
from dragoman.process.child import Patience
from dragoman.text.terminal import plain
from dragoman.transports.process import ProcessTransport
from dragoman.wire.ndjson import Framer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_log = logging.getLogger("dragoman.adapters")

# It reads its settings, a database and, over a slow network, its list of models.
_START_SECONDS: Final = 60.0
_LIMIT_BYTES: Final = 256 << 20  # of one line: images and long outputs are inside of it
_TAIL_LINES: Final = 12  # of standard error in a message
# It ends within 0.1 s of the end of its input, or after 5 s if it waits for the network.
_PATIENCE: Final = Patience(stdin_seconds=1.0, term_seconds=2.0)
# What it reports and no client can be shown.
_UNUSED: Final = (
    "account/rateLimits/updated",
    "app/list/updated",
    "deprecationNotice",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/readState/changed",
    "thread/status/changed",
    "turn/diff/updated",
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class AppServer:
    """A running `codex app-server`. `on_message` gets what it reports and asks, in order; `on_end` is called once."""

    def __init__(
        self,
        transport: ProcessTransport,
        on_message: Callable[[Report | CodexQuestion], None],
        on_end: Callable[[CodexEnded], None],
    ) -> None:
        self._transport = transport
        self._on_message = on_message
        self._on_end = on_end
        self._framer = Framer(_LIMIT_BYTES)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._behind: set[object] = set()
        """Those that do not keep up with what they are passed."""
        self._end: CodexEnded | None = None
        self._closing: asyncio.Task[None] | None = None
        transport.start(self)

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        env: Mapping[str, str],
        on_message: Callable[[Report | CodexQuestion], None],
        on_end: Callable[[CodexEnded], None],
    ) -> AppServer:
        """Start the program and greet it. Raises: AdapterError."""
        try:
            transport = await ProcessTransport.spawn(argv, env=dict(env), patience=_PATIENCE)
        except ConfigError as error:
            raise AdapterError(f"Codex cannot be started: {error}") from error
        server = cls(transport, on_message, on_end)
        client = {"name": "dragoman", "title": "Dragoman", "version": __version__}
        able = {"experimentalApi": True, "optOutNotificationMethods": list(_UNUSED)}
        try:
            await server.request("initialize", {"clientInfo": client, "capabilities": able}, _START_SECONDS)
        except TimeoutError as error:
            await server.close()
            raise AdapterError(
                f"`{' '.join(argv)}` did not answer in {_START_SECONDS:.0f} seconds; run it in a terminal to see why"
            ) from error
        except BaseException:
            await server.close()
            raise
        server.notify("initialized")
        return server

    @property
    def is_running(self) -> bool:
        return self._end is None

    @property
    def pid(self) -> int:
        return self._transport.pid

    @property
    def marker(self) -> str:
        """What everything that the program starts has in its environment."""
        return self._transport.marker

    async def request(self, method: str, params: Mapping[str, Any], seconds: float | None = None) -> dict[str, Any]:
        """Send a request and return the result. Raises: CodexRefused, CodexEnded, TimeoutError."""
        if self._end is not None:
            raise self._end
        self._last_id += 1
        own_id = self._last_id
        answer = self._waiting[own_id] = asyncio.get_running_loop().create_future()
        try:
            self._write({"method": method, "id": own_id, "params": params})
            self._set_flow()
            async with asyncio.timeout(seconds):
                result = await answer
        finally:
            self._waiting.pop(own_id, None)
            self._set_flow()
        return result if isinstance(result, dict) else {}

    def notify(self, method: str) -> None:
        self._write({"method": method})

    def answer(self, question_id: int | str, result: Mapping[str, Any]) -> None:
        """Answer a request of the program."""
        self._write({"id": question_id, "result": result})

    def refuse(self, question_id: int | str, message: str) -> None:
        """Answer a request of the program with an error."""
        self._write({"id": question_id, "error": {"code": -32601, "message": message}})

    def note_backlog(self, receiver: object, is_long: bool) -> None:
        """Take note that a receiver of messages is behind, or not any more: while one is, the program has to wait."""
        if is_long:
            self._behind.add(receiver)
        else:
            self._behind.discard(receiver)
        self._set_flow()

    async def close(self) -> None:
        """End the program and everything it started."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._transport.close()
        self._ended(CodexEnded("Codex was ended"))
        await self._transport.wait_closed()

    def _set_flow(self) -> None:
        # An answer that is awaited comes behind everything else, so reading goes on for it.
        if self._behind and not self._waiting:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _write(self, message: Mapping[str, Any]) -> None:
        self._transport.write(_encode(message) + b"\n")

    # What the transport calls

    def feed(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            if not isinstance(frame, bytes):
                _log.warning("a line of codex is too long to be read")
                continue
            try:
                message = _decode(frame)
            except (msgspec.DecodeError, RecursionError):
                _log.debug("a line of codex is not JSON: %r", frame[:200])
                continue
            if isinstance(message, dict):
                self._take(message)

    def end(self, reason: ConnectionClosed) -> None:
        self._ended(CodexEnded(_words(reason)))
        # The exit of the program ends its tree; that is awaited where the program is closed.
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())

    def drained(self) -> None:
        pass

    def _take(self, message: dict[str, Any]) -> None:
        method, own_id = message.get("method"), message.get("id")
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        try:
            if isinstance(method, str) and isinstance(own_id, (int, str)):
                self._on_message(CodexQuestion(own_id, method, params))
            elif isinstance(method, str):
                self._on_message(Report(method, params))
            elif isinstance(own_id, int):
                self._resolve(own_id, message)
        except Exception:  # one message that is not as expected must not end all sessions
            _log.exception("a message of codex could not be used: %s", method)

    def _resolve(self, own_id: int, message: dict[str, Any]) -> None:
        waiting = self._waiting.get(own_id)
        if waiting is None or waiting.done():
            return  # answered late, when it was no longer awaited
        error = message.get("error")
        if error is None:
            waiting.set_result(message.get("result"))
        else:
            text = error.get("message") if isinstance(error, dict) else None
            waiting.set_exception(CodexRefused(plain(str(text or error))))

    def _ended(self, reason: CodexEnded) -> None:
        if self._end is not None:
            return
        self._end = reason
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(reason)
        self._on_end(reason)


def _words(reason: ConnectionClosed) -> str:
    """Return what the user reads about the end of the program."""
    if not isinstance(reason, AgentExited):
        return f"Codex ended: {reason}"
    if reason.returncode is None:
        how = "ended; its exit code is not known"
    elif reason.returncode < 0:
        how = f"was ended by the signal {-reason.returncode}"
    else:
        how = f"ended with exit code {reason.returncode}"
    tail = "\n".join(plain(reason.stderr_tail).strip().split("\n")[-_TAIL_LINES:])
    return f"Codex {how}. The next prompt starts it again.{f' It wrote:{chr(10)}{tail}' if tail else ''}"
