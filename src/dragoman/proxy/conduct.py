"""Runs a proxy chain: an agent with links in front of it, behind this program's stdin and stdout.

Theory of operation
-------------------
`chain_router.py` decides where each message goes; here are the processes, room and ends.

*Room.* Links are always read, so that none of them waits for another one: what they send is little more than what they
were sent. If one of the programs does not read, the client and the agent, where messages come from, are not read until
it does. A program that leaves too much unread ends the chain, so memory is bounded.

*Ends.* The chain is one thing: when a link or the agent ends, by itself or killed, what the client waits for is
answered with an error that names it, and all others are ended. No link is restarted or left out. When the client closes
its end, what it waits for may still be answered; then everything is ended. If this program is killed,
`dragoman.process` ends its children.

*Inside of another chain* this program is a link itself (`chain_link.py`): its agent is then the successor there.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.proxy.chain_link import ChainLink
from dragoman.proxy.chain_router import ChainRouter
from dragoman.text.secrets import SplitMask, known_keys
from dragoman.text.terminal import one_line
from dragoman.transports._descriptors import private_copy
from dragoman.transports._outlet import Outlet
from dragoman.transports.process import ProcessTransport
from dragoman.transports.stdio import StdioTransport
from dragoman.wire import Framer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.errors import ConnectionClosed
    from dragoman.rpc.transport import Transport

GRACE_SECONDS: Final = 10.0
"""How long the chain may be silent after the client is gone, while something is still to be answered."""
INITIALIZE_SECONDS: Final = 60.0
"""How long a link may take to pass `initialize` on."""
BROKEN: Final = 4
"""The exit code of a chain that a link ended or broke."""
_HIGH_BYTES: Final = 1 << 20
_LIMIT_BYTES: Final = 64 << 20
_MOST_NOTES: Final = 100
_LAST_WORDS: Final = 400
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_CLIENT: Final = 0


async def run_chain(
    links: Sequence[Sequence[str]],
    agent: Sequence[str] | None,
    *,
    grace_seconds: float = GRACE_SECONDS,
    initialize_seconds: float = INITIALIZE_SECONDS,
) -> int:
    """Run a chain behind this program's stdin and stdout until it ends; return the exit code.

    That is the agent's if the agent ended (128 + n for signal n), 4 if a link ended or broke the rules, and 0 if the
    client closed the connection. The standard streams and the signals of this program are taken over, so call it from
    the main thread and end the program afterwards.

    Args:
        links: The commands of the links, the first one next to the client.
        agent: The agent's command; None if this chain is a link of another one.

    Raises:
        ConfigError: A command cannot be used.
        DragomanError: The system could not start one more program.
    """
    chain = _Chain(links, agent, grace_seconds, initialize_seconds)
    return await chain.run()


class _End:
    """One program of the chain, as its transport sees it."""

    def __init__(self, chain: _Chain, number: int) -> None:
        self._chain = chain
        self._number = number
        self._framer = Framer()

    def feed(self, data: bytes) -> None:
        for line in self._framer.feed(data):
            self._chain.router.feed(self._number, line)
        self._chain.note_activity()

    def end(self, reason: ConnectionClosed) -> None:
        for line in self._framer.end():
            self._chain.router.feed(self._number, line)
        self._chain.on_end(self._number, reason)

    def drained(self) -> None:
        self._chain.make_room()


class _Chain:
    def __init__(
        self,
        links: Sequence[Sequence[str]],
        agent: Sequence[str] | None,
        grace_seconds: float,
        initialize_seconds: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._commands = [*links, *([] if agent is None else [agent])]
        self._is_nested = agent is None
        self._grace_seconds = grace_seconds
        self._initialize_seconds = initialize_seconds
        names = [f"link {number} ({os.path.basename(command[0])})" for number, command in enumerate(links, 1)]
        self._names = ["the client", *names, "the next program" if agent is None else "the agent"]
        self.router = ChainRouter(names, self._names[-1], self._send, self._on_broken, self._say)
        self._transports: list[Transport] = []
        self._over: asyncio.Future[int] = self._loop.create_future()
        self._is_client_gone = False
        self._active_at = self._loop.time()
        self._last_greeting: tuple[str, int] | None = None
        self._notes = 0
        self._log: Outlet | None = None
        self._masks: list[SplitMask] = []
        self._is_shared = False

    async def run(self) -> int:
        self._open_log()
        children: list[ProcessTransport] = []
        timer: asyncio.TimerHandle | None = None
        try:
            # The programs come first: if one cannot be started, the streams of this program are unchanged.
            for command in self._commands:
                children.append(await ProcessTransport.spawn(command, on_stderr=self._stderr()))
            connection = StdioTransport()
            if self._is_nested:
                link = ChainLink(connection, on_noise=self._say)
                self._transports = [link.client, *children, link.successor]
            else:
                self._transports = [connection, *children]
            is_main = threading.current_thread() is threading.main_thread()
            for received in _SIGNALS if is_main else ():
                self._loop.add_signal_handler(received, self._finish, 128 + received)
            for number, transport in enumerate(self._transports):
                transport.start(_End(self, number))
            timer = self._loop.call_later(self._initialize_seconds, self._look_at_greeting)
            return await self._over
        finally:
            if timer is not None:
                timer.cancel()
            for transport in self._transports or children:
                transport.close()
            await asyncio.gather(*(transport.wait_closed() for transport in self._transports or children))
            self._close_log()

    # What the transports and the router call

    def _send(self, number: int, line: bytes) -> None:
        if self._over.done() and number != _CLIENT:
            return
        self._transports[number].write(line)
        if self._transports[number].unsent_bytes > _LIMIT_BYTES:
            self._end_with(f"{self._names[number]} does not read: {_LIMIT_BYTES} bytes wait for it", BROKEN)

    def note_activity(self) -> None:
        self._active_at = self._loop.time()
        self.make_room()
        if self._is_client_gone and not self.router.is_waiting:
            self._finish(0)

    def make_room(self) -> None:
        """Read the client and the agent while every program takes what it is sent."""
        is_full = any(transport.unsent_bytes > _HIGH_BYTES for transport in self._transports)
        for transport in (self._transports[0], self._transports[-1]):
            if is_full:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def on_end(self, number: int, reason: ConnectionClosed) -> None:
        if self._over.done():
            return
        if number == _CLIENT:
            self._is_client_gone = True
            self._active_at = self._loop.time()
            if self.router.is_waiting and not self._is_nested:
                self._wait_for_answers()
            else:
                self._finish(0)
            return
        is_agent = number == len(self._transports) - 1
        code = getattr(reason, "returncode", None)
        if self._is_client_gone and (code == 0 or is_agent):
            self._finish(0 if code is None else _exit_code(code))
            return
        last = one_line(getattr(reason, "stderr_tail", "").strip())[-_LAST_WORDS:]
        ended = "was ended" if code is None else f"ended with signal {-code}" if code < 0 else f"ended with code {code}"
        why = f"{self._names[number]} {ended}" + (f"; its last words on stderr: {last}" if last else "")
        self._end_with(why, _exit_code(code) if is_agent else BROKEN)

    def _on_broken(self, why: str) -> None:
        self._say(why)
        self._finish(BROKEN)

    def _end_with(self, why: str, code: int) -> None:
        if self._over.done():
            return
        self._finish(code)
        self._say(why)
        self.router.end(why)

    def _finish(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)

    def _wait_for_answers(self) -> None:
        """End the chain if it was silent for the grace period after its client closed the connection."""
        silent_seconds = self._loop.time() - self._active_at
        if self._over.done():
            return
        if silent_seconds >= self._grace_seconds:
            self._finish(0)
        else:
            self._loop.call_later(self._grace_seconds - silent_seconds, self._wait_for_answers)

    def _look_at_greeting(self) -> None:
        """End the chain if a link has had `initialize` since the last look and did not pass it on."""
        if self._over.done():
            return
        now = self.router.greeting
        if now is not None and now == self._last_greeting:
            seconds = f"{self._initialize_seconds:g} seconds"
            self._end_with(f"{now[0]} did not pass initialize on within {seconds}", BROKEN)
            return
        self._last_greeting = now
        self._loop.call_later(self._initialize_seconds, self._look_at_greeting)

    # stderr

    def _open_log(self) -> None:
        with suppress(OSError):  # closed when the program started
            copy, self._is_shared = private_copy(2, os.O_WRONLY)
            self._log = Outlet(copy)

    def _close_log(self) -> None:
        if self._log is None:
            return
        for mask in self._masks:
            rest = mask.finish()
            if rest:
                self._log.write(rest)
        self._log.close()
        if self._is_shared:
            os.set_blocking(2, True)

    def _stderr(self) -> Any:
        mask = SplitMask(known_keys)
        self._masks.append(mask)

        def passed_on(data: bytes) -> None:
            if self._log is not None:
                self._log.write(mask.feed(data))

        return passed_on

    def _say(self, sentence: str) -> None:
        self._notes += 1
        if self._log is None or self._notes > _MOST_NOTES:
            return
        end = "; further notes are left out" if self._notes == _MOST_NOTES else ""
        self._log.write(f"dragoman conduct: {one_line(sentence)}{end}\n".encode(errors="replace"))


def _exit_code(returncode: int | None) -> int:
    if returncode is None:  # it was ended by us
        return BROKEN
    return returncode if returncode >= 0 else 128 - returncode
