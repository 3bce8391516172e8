"""Runs the guard between this program's stdin and stdout and an agent's program.

Theory of operation
-------------------
*Room.* If one side does not read, the other is not read either. A side that floods us with requests and does not read
our answers is not read at all, and neither is anyone while the log is far behind.

*Versions.* The exchange speaks version 1. An editor whose `initialize` asks for version 2 is translated, which its
first line shows; the agent is not asked for version 2, because there less goes through its client.

*Ends.* When the editor closes its end, the agent gets the end of its stdin and may still answer; an agent that was
silent for the grace period is ended. When the agent ends, what the editor still waits for is answered with an error
that states the reason, and the program ends with the agent's exit code. A signal ends both. If this program is killed,
`dragoman.process` ends the agent and its commands; the log is complete up to the last record that was written.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from dragoman.errors import INTERNAL_ERROR, AgentExited, DragomanError
from dragoman.proxy.guard.exchange import GuardExchange
from dragoman.text.secrets import SplitMask, known_keys
from dragoman.text.terminal import one_line
from dragoman.transports._descriptors import private_copy
from dragoman.transports._outlet import Outlet
from dragoman.transports.stdio import StdioTransport
from dragoman.transports.translated import LineTranslation
from dragoman.wire import Framer, Request, read_message, write_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dragoman.errors import ConnectionClosed
    from dragoman.proxy.guard.plan import GuardPlan
    from dragoman.transports.fd import FdTransport
    from dragoman.transports.process import ProcessTransport
    from dragoman.versions import Lost, Side
    from dragoman.wire import Frame

_log = logging.getLogger("dragoman.proxy")

GRACE_SECONDS: Final = 10.0
"""How long an agent may take to end after its editor is gone, counted from its last output."""
_HIGH_BYTES: Final = 1 << 20
_FLOOD_BYTES: Final = 16 << 20
_MOST_RECORDS: Final = 20_000
_LOOK_SECONDS: Final = 0.05  # how often it is looked whether a full log has room again
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class RecordsLines(Protocol):
    """A recording of the conversation with the agent (`--record`)."""

    def frame(self, direction: Any, data: bytes) -> None:
        """Record a line."""

    def end(self, direction: Any) -> None:
        """Record the end of a direction."""

    def exit(self, code: int | None = None) -> None:
        """Record how the agent ended."""

    def close(self) -> None:
        """End the recording."""


async def run_guard(
    start: Callable[[Callable[[bytes], None]], Awaitable[ProcessTransport]],
    plan: GuardPlan,
    *,
    notes: Sequence[str] = (),
    recording: RecordsLines | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> int:
    """Run an agent behind this program's stdin and stdout until it ends; return its exit code.

    The standard streams and the signals of this program are taken over, so call it from the main thread and end the
    program afterwards. If the agent cannot be started, the editor's first request is answered with the reason, because
    editors show that and not stderr.

    Args:
        start: Starts the agent; called with a function for what it writes to stderr.
        plan: Rules, limits, additions.
        notes: Sentences for stderr at the start.
        recording: Gets the lines from and to the agent.
        grace_seconds: How long a silent agent may take to end after its editor is gone.

    Raises:
        DragomanError: The agent could not be started; the editor was answered.
    """
    relay = _Relay(plan, recording, grace_seconds)
    return await relay.run(start, notes)


class _End:
    """One side, as its transport sees it."""

    def __init__(self, relay: _Relay, side: Side) -> None:
        self._relay = relay
        self._side: Side = side

    def feed(self, data: bytes) -> None:
        self._relay.on_data(self._side, data)

    def end(self, reason: ConnectionClosed) -> None:
        self._relay.on_end(self._side, reason)

    def drained(self) -> None:
        self._relay.make_room()


class _Relay:
    def __init__(self, plan: GuardPlan, recording: RecordsLines | None, grace_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._plan = plan
        self._recording = recording
        self._grace_seconds = grace_seconds
        self._active_at = self._loop.time()
        self._over: asyncio.Future[int | None] = self._loop.create_future()
        self._exchange = GuardExchange(plan, self._to_editor, self._to_agent, self._say)
        self._framers: dict[Side, Framer] = {"client": Framer(), "agent": Framer()}
        self._translation: LineTranslation | None = None
        self._is_first = True
        self._ends: dict[Side, FdTransport] = {}
        self._out: dict[Side, list[bytes]] = {"client": [], "agent": []}  # of one piece of input, written together
        self._is_collecting = False
        self._looking: asyncio.TimerHandle | None = None
        self._mask = SplitMask(known_keys)
        self._is_shared = False
        self._log: Outlet | None = None
        self._why = "the editor closed the connection"

    async def run(
        self, start: Callable[[Callable[[bytes], None]], Awaitable[ProcessTransport]], notes: Sequence[str]
    ) -> int:
        self._open_log()
        for note in notes:
            self._say(note)
        try:
            agent = await start(self._on_stderr)
        except DragomanError as error:
            self._close_log()
            await answer_failure(str(error))
            raise
        client = StdioTransport()
        self._ends = {"agent": agent, "client": client}
        is_main = threading.current_thread() is threading.main_thread()
        for number in _SIGNALS if is_main else ():
            self._loop.add_signal_handler(number, self._stop, number)
        ended_by: int | None = None
        try:
            agent.start(_End(self, "agent"))
            client.start(_End(self, "client"))
            ended_by = await self._over
        finally:
            if self._looking is not None:
                self._looking.cancel()
            await self._exchange.close()
            if self._translation is not None:
                self._translation.stop()
            client.close()
            agent.close()
            await client.wait_closed()
            await agent.wait_closed()
            code = 128 + ended_by if ended_by is not None else _exit_code(agent.returncode)
            if self._recording is not None:
                self._recording.exit(agent.returncode)
                self._recording.close()
            self._plan.events.ended(self._why, code)
            self._close_log()
        return code

    # What the transports call

    def on_data(self, side: Side, data: bytes) -> None:
        self._active_at = self._loop.time()
        self._is_collecting = True
        try:
            self._take(side, self._framers[side].feed(data))
        finally:
            self._is_collecting = False
            self._write_out()
        self.make_room()

    def on_end(self, side: Side, reason: ConnectionClosed) -> None:
        self._take(side, self._framers[side].end())
        if side == "client":
            if self._translation is not None:
                self._translation.end("client")
            self._exchange.editor_ended()
            self._ends["agent"].end_writing()
            self._active_at = self._loop.time()
            self._wait_for_end()
            return
        self._why = _explained(reason)
        self._exchange.agent_ended(self._why)
        if not self._over.done():
            self._over.set_result(None)

    def _take(self, side: Side, lines: Sequence[Frame]) -> None:
        for line in lines:
            if side == "agent":
                if self._recording is not None and isinstance(line, bytes):
                    self._recording.frame("a2c", line)
                self._pass("agent", line, self._exchange.from_agent)
                continue
            if self._is_first:
                self._is_first = False
                self._begin_translation(line)
            if self._translation is None:
                self._pass("editor", line, self._exchange.from_editor)
            elif isinstance(line, bytes):
                self._translation.feed("client", line + b"\n")

    def _pass(self, side: str, line: Frame, take: Callable[[Frame], None]) -> None:
        """Let the exchange take a line. A mistake of ours must not end the conversation, nor let a line pass."""
        try:
            take(line)
        except Exception:
            _log.exception("the guard failed on a line of the %s; it is not passed on", side)

    def make_room(self) -> None:
        """Read a side while the other takes what it is sent, it takes our answers, and the log keeps up."""
        is_behind = self._exchange.waiting_records > _MOST_RECORDS
        others: dict[Side, Side] = {"client": "agent", "agent": "client"}
        for side, transport in self._ends.items():
            is_full = self._ends[others[side]].unsent_bytes > _HIGH_BYTES or transport.unsent_bytes > _FLOOD_BYTES
            if is_full or is_behind:
                transport.pause_reading()
            else:
                transport.resume_reading()
        if is_behind and self._looking is None:
            self._looking = self._loop.call_later(_LOOK_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._looking = None
        self.make_room()

    # Lines that leave

    def _to_editor(self, line: bytes) -> None:
        if self._translation is not None:
            self._translation.feed("agent", line)
        else:
            self._send("client", line)

    def _to_agent(self, line: bytes) -> None:
        if self._recording is not None:
            self._recording.frame("c2a", line[:-1])
        self._send("agent", line)

    def _send(self, side: Side, line: bytes) -> None:
        if self._is_collecting:
            self._out[side].append(line)
        elif side in self._ends:
            self._ends[side].write(line)

    def _write_out(self) -> None:
        for side, lines in self._out.items():
            if lines:
                self._ends[side].write(b"".join(lines))
                lines.clear()

    # Versions

    def _begin_translation(self, line: Frame) -> None:
        """Translate for an editor whose first request is an `initialize` of version 2."""
        message = read_message(line) if isinstance(line, bytes) else None
        if not isinstance(message, Request) or message.method != "initialize" or message.params is None:
            return
        with suppress(msgspec.MsgspecError):
            params = msgspec.json.decode(message.params, type=dict[str, Any])
            version = params.get("protocolVersion")
            if isinstance(version, int) and version >= 2 and isinstance(params.get("info"), dict):
                from dragoman.versions import translator

                made = translator("2", "1")
                self._translation = LineTranslation(made, self._deliver, self._on_loss, self._say)

    def _deliver(self, side: Side, line: bytes) -> None:
        if side == "client":
            self._send("client", line)
        else:
            self._pass("editor", line.removesuffix(b"\n"), self._exchange.from_editor)

    def _on_loss(self, lost: Lost) -> None:
        self._say(f"not translated: {lost.what}")

    # Ends

    def _wait_for_end(self) -> None:
        """End the agent if it was silent for the grace period after its editor closed the connection."""
        silent_seconds = self._loop.time() - self._active_at
        if self._over.done():
            return
        if silent_seconds >= self._grace_seconds:
            self._over.set_result(None)
        else:
            self._loop.call_later(self._grace_seconds - silent_seconds, self._wait_for_end)

    def _stop(self, number: int) -> None:
        self._why = f"signal {signal.Signals(number).name}"
        if not self._over.done():
            self._over.set_result(number)

    # stderr

    def _open_log(self) -> None:
        with suppress(OSError):  # closed when the program started
            copy, self._is_shared = private_copy(2, os.O_WRONLY)
            self._log = Outlet(copy)

    def _close_log(self) -> None:
        if self._log is None:
            return
        rest = self._mask.finish()
        if rest:
            self._log.write(rest)
        self._log.close()
        self._log = None
        if self._is_shared:
            os.set_blocking(2, True)

    def _on_stderr(self, data: bytes) -> None:
        self._active_at = self._loop.time()
        if self._log is not None:
            self._log.write(self._mask.feed(data))

    def _say(self, sentence: str) -> None:
        if self._log is not None:
            shown = known_keys.mask(one_line(sentence))
            self._log.write(f"dragoman guard: {shown}\n".encode(errors="replace"))


async def answer_failure(why: str) -> None:
    """Answer the editor's first request with the reason why there is no agent."""
    client = StdioTransport()
    over = asyncio.get_running_loop().create_future()
    client.start(_FailureEnd(client, why, over))
    await over
    client.close()
    await client.wait_closed()


class _FailureEnd:
    """The editor's side of a guard that has no agent."""

    def __init__(self, client: StdioTransport, why: str, over: asyncio.Future[None]) -> None:
        self._client = client
        self._why = why
        self._over = over
        self._framer = Framer()

    def feed(self, data: bytes) -> None:
        for line in self._framer.feed(data):
            message = read_message(line) if isinstance(line, bytes) else None
            if isinstance(message, Request):
                why = known_keys.mask(self._why)
                self._client.write(write_error(message.id, INTERNAL_ERROR, f"dragoman guard: {why}"))
                self.end(None)

    def end(self, reason: object) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def drained(self) -> None:
        pass


def _explained(reason: ConnectionClosed) -> str:
    """Why the agent is gone, for the editor."""
    if isinstance(reason, AgentExited):
        return known_keys.mask(f"dragoman guard: {reason}")
    return "dragoman guard: the agent closed the connection"


def _exit_code(returncode: int | None) -> int:
    if returncode is None:  # it was ended by us
        return 0
    return returncode if returncode >= 0 else 128 - returncode
