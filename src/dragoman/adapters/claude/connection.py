"""The line to one running `claude`: a process, messages in both directions, and requests with their answers.

Owns the process, framing, and matching answers to requests. What the messages mean is for `live_session.py`.

Theory of operation. Each line is a JSON object. Requests go both ways and have ids: ours are answered by the program
(`request`), the program's are passed on like every other message, and are answered with `answer`. The end of the
process ends everything that waits: an unknown session, for example, is reported by a result and an exit, never by an
answer. Reading pauses while more messages wait than a client takes, so that a slow client slows the program and does
not fill this one's memory.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.adapters.values import AdapterError
from dragoman.errors import AgentExited, ConnectionClosed
from dragoman.text.terminal import plain
from dragoman.transports.process import ProcessTransport
from dragoman.wire.ndjson import Framer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_log = logging.getLogger("dragoman.adapters")

# A message can hold a whole file, or images.
_LINE_BYTES: Final = 128 << 20
_TAIL_LINES: Final = 12
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class ClaudeConnection:
    """A running program.

    Args:
        on_message: called with each message that is not an answer, in order.
        on_end: called once when the program has ended by itself, with the reason for the user.
    """

    def __init__(self, on_message: Callable[[dict[str, Any]], None], on_end: Callable[[AdapterError], None]) -> None:
        self._on_message = on_message
        self._on_end = on_end
        self._framer = Framer(_LINE_BYTES)
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._transport: ProcessTransport | None = None
        self.failure: AdapterError | None = None
        """Why the program has ended."""
        self.last_error = ""
        """What the last failed result reports; a program that ends at once explains itself there."""

    async def start(self, argv: Sequence[str], cwd: str, env: Mapping[str, str | None]) -> None:
        """Start the program. Raises: ConfigError, DragomanError."""
        self._transport = await ProcessTransport.spawn(argv, cwd=cwd, env=env)
        self._transport.start(self)

    @property
    def is_running(self) -> bool:
        return self._transport is not None and self.failure is None

    @property
    def pid(self) -> int | None:
        return None if self._transport is None else self._transport.pid

    async def request(self, subtype: str, *, timeout_seconds: float, **members: Any) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises:
            AdapterError: the program refused it, has ended, or does not answer.
        """
        request_id = str(uuid.uuid4())
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        try:
            self.send({"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **members}})
            async with asyncio.timeout(timeout_seconds):
                return await answer
        except TimeoutError:
            raise AdapterError(f"claude did not answer the request {subtype!r} in {timeout_seconds:.0f} s") from None
        finally:
            self._waiting.pop(request_id, None)

    def answer(self, request_id: str, response: dict[str, Any]) -> None:
        """Answer a request of the program. Nothing happens if it has ended."""
        self._answer({"subtype": "success", "request_id": request_id, "response": response})

    def refuse(self, request_id: str, why: str) -> None:
        """Answer a request of the program with an error."""
        self._answer({"subtype": "error", "request_id": request_id, "error": why})

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Raises: AdapterError if the program has ended."""
        if self.failure is not None:
            raise self.failure
        if self._transport is None:
            raise AdapterError("claude is not running")
        self._transport.write(_encode(message) + b"\n")

    def pause(self) -> None:
        """Read no more until `resume`."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    async def close(self) -> None:
        """End the program and everything it started."""
        if self.failure is None:
            self._fail(AdapterError("the session was closed"))
        if self._transport is not None:
            self._transport.close()
            await self._transport.wait_closed()

    # The transport's receiver

    def feed(self, data: bytes) -> None:
        for line in self._framer.feed(data):
            self._take(line)

    def end(self, reason: ConnectionClosed) -> None:
        for line in self._framer.end():
            self._take(line)
        if self.failure is None:
            failure = AdapterError(self._explain(reason))
            self._fail(failure)
            self._on_end(failure)

    def drained(self) -> None:
        pass

    def _take(self, line: Any) -> None:
        if not isinstance(line, bytes):
            _log.warning("claude sent a line that is too long or not complete; it is left out")
            return
        try:
            message = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            _log.warning("claude wrote a line that is not a JSON object: %r", line[:200])
            return
        if message.get("type") == "control_response":
            self._resolve(message.get("response"))
            return
        if message.get("type") == "result" and message.get("is_error") is True and message.get("errors"):
            self.last_error = "; ".join(str(error) for error in message["errors"])
        try:
            self._on_message(message)
        except Exception:  # a message that is not as expected must not end the connection
            _log.exception("a message of claude could not be handled")

    def _resolve(self, response: Any) -> None:
        if not isinstance(response, dict):
            return
        waiting = self._waiting.get(str(response.get("request_id")))
        if waiting is None or waiting.done():
            return
        if response.get("subtype") == "success":
            given = response.get("response")
            waiting.set_result(given if isinstance(given, dict) else {})
        else:
            waiting.set_exception(AdapterError(f"Claude Code: {plain(str(response.get('error')))}"))

    def _answer(self, response: dict[str, Any]) -> None:
        if self.is_running:
            self.send({"type": "control_response", "response": response})

    def _fail(self, failure: AdapterError) -> None:
        self.failure = failure
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(failure)

    def _explain(self, reason: ConnectionClosed) -> str:
        tail = ""
        how = "ended"
        if isinstance(reason, AgentExited):
            tail = "\n".join(plain(reason.stderr_tail).strip().split("\n")[-_TAIL_LINES:])
            if reason.returncode is not None:
                code = reason.returncode
                how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        why = plain(self.last_error) or tail
        return f"claude {how}: {why}" if why else f"claude {how}, without saying why"
