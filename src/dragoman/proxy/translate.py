"""Runs an agent of one version of the protocol behind a client of another one.

Theory of operation
-------------------
Towards the editor this is an agent on stdin and stdout; behind it a child process is the real one. Each line goes
through a translator, which may answer either side.

*Room.* If one side does not read, the other is not read either; a side that floods us with requests and does not read
our answers is not read at all.

*Ends.* When the client closes its end, the agent gets the end of its stdin and may still answer; an agent that was
silent for the grace period is ended. When the agent ends, what the client still waits for is answered with an error,
and the program ends with the agent's exit code. A signal ends both. If this program is killed, `dragoman.process`
ends the agent.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.text.secrets import SplitMask, known_keys
from dragoman.transports._descriptors import private_copy
from dragoman.transports._outlet import Outlet
from dragoman.transports.process import ProcessTransport
from dragoman.transports.stdio import StdioTransport
from dragoman.transports.translated import LineTranslation
from dragoman.versions.frames import OTHER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.errors import ConnectionClosed
    from dragoman.transports.fd import FdTransport
    from dragoman.versions import Lost, Side, Translator

GRACE_SECONDS: Final = 10.0
"""How long an agent may take to end after its client is gone, counted from its last output."""
_HIGH_BYTES: Final = 1 << 20
_FLOOD_BYTES: Final = 16 << 20
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def run_translation(
    command: Sequence[str], translator: Translator, *, notes: Sequence[str] = (), grace_seconds: float = GRACE_SECONDS
) -> int:
    """Run `command` behind this program's stdin and stdout until it ends; return its exit code.

    The code is 128 + n for signal n, as in a shell. The standard streams and the signals of this program are taken
    over, so call it from the main thread and end the program afterwards.

    Args:
        command: The agent's command.
        notes: Sentences for stderr at the start.

    Raises:
        ConfigError: The command cannot be used.
        DragomanError: The system could not start one more program.
    """
    relay = _Relay(translator, grace_seconds)
    return await relay.run(command, notes)


class _End:
    """One side, as its transport sees it."""

    def __init__(self, relay: _Relay, side: Side) -> None:
        self._relay = relay
        self._side: Side = side

    def feed(self, data: bytes) -> None:
        self._relay.on_data(self._side, data)

    def end(self, reason: ConnectionClosed) -> None:
        self._relay.on_end(self._side)

    def drained(self) -> None:
        self._relay.make_room()


class _Relay:
    def __init__(self, translator: Translator, grace_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._grace_seconds = grace_seconds
        self._active_at = self._loop.time()
        self._over: asyncio.Future[int | None] = self._loop.create_future()
        self._lines = LineTranslation(translator, self._deliver, self._on_loss, self._say)
        self._ends: dict[Side, FdTransport] = {}
        self._mask = SplitMask(known_keys)
        self._is_shared = False
        self._log: Outlet | None = None

    async def run(self, command: Sequence[str], notes: Sequence[str]) -> int:
        self._open_log()
        for note in notes:
            self._say(note)
        # The agent comes first: if it cannot be started, the streams of this program are unchanged.
        agent = await ProcessTransport.spawn(command, on_stderr=self._on_stderr)
        client = StdioTransport()
        self._ends = {"agent": agent, "client": client}
        is_main = threading.current_thread() is threading.main_thread()
        for number in _SIGNALS if is_main else ():
            self._loop.add_signal_handler(number, self._stop, number)
        try:
            agent.start(_End(self, "agent"))
            client.start(_End(self, "client"))
            ended_by = await self._over
        finally:
            self._lines.stop()
            client.close()
            agent.close()
            await client.wait_closed()
            await agent.wait_closed()
            self._close_log()
        if ended_by is not None:
            return 128 + ended_by
        return _exit_code(agent.returncode)

    # What the transports call

    def on_data(self, side: Side, data: bytes) -> None:
        self._active_at = self._loop.time()
        self._lines.feed(side, data)
        self.make_room()

    def on_end(self, side: Side) -> None:
        self._lines.end(side)
        if side == "client":
            self._ends["agent"].end_writing()
            self._active_at = self._loop.time()
            self._wait_for_end()
        elif not self._over.done():
            self._over.set_result(None)

    def make_room(self) -> None:
        """Read a side while the other one takes what it is sent, and while it takes our answers itself."""
        for side, transport in self._ends.items():
            is_full = self._ends[OTHER[side]].unsent_bytes > _HIGH_BYTES or transport.unsent_bytes > _FLOOD_BYTES
            if is_full:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def _deliver(self, side: Side, line: bytes) -> None:
        self._ends[side].write(line)

    def _wait_for_end(self) -> None:
        """End the agent if it was silent for the grace period after its client closed the connection."""
        silent_seconds = self._loop.time() - self._active_at
        if self._over.done():
            return
        if silent_seconds >= self._grace_seconds:
            self._over.set_result(None)
        else:
            self._loop.call_later(self._grace_seconds - silent_seconds, self._wait_for_end)

    def _stop(self, number: int) -> None:
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
        if self._is_shared:
            os.set_blocking(2, True)

    def _on_stderr(self, data: bytes) -> None:
        self._active_at = self._loop.time()
        if self._log is not None:
            self._log.write(self._mask.feed(data))

    def _on_loss(self, lost: Lost) -> None:
        self._say(f"not translated: {lost.what}")

    def _say(self, sentence: str) -> None:
        if self._log is not None:
            self._log.write(f"dragoman: {sentence}\n".encode(errors="replace"))


def _exit_code(returncode: int | None) -> int:
    if returncode is None:  # it was ended by us
        return 0
    return returncode if returncode >= 0 else 128 - returncode
