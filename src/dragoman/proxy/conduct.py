"""A proxy chain: an agent with links in front of it, behind this program's stdin and stdout.

Theory of operation
-------------------
`chain_router.py` decides where each message goes, `between.py` has streams, room and signals; here is how it ends.

*Room.* What links send is little more than what they were sent, so they are always read. A program that leaves too much
unread ends the chain, so memory is bounded.

*Ends.* The chain is one thing: when a link or the agent ends, by itself or killed, what the client waits for is
answered with an error that names it, and all others are ended. No link is restarted or left out. When the client closes
its end, what it waits for may still be answered; then everything is ended.

*Inside of another chain* this program is a link itself (`chain_link.py`): its agent is then the successor there.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from dragoman.errors import AgentExited
from dragoman.proxy.between import EDITOR, GRACE_SECONDS, exit_code, run_between, spawn
from dragoman.proxy.chain_link import ChainLink
from dragoman.proxy.chain_router import ChainRouter
from dragoman.text.terminal import one_line
from dragoman.transports.stdio import StdioTransport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.errors import ConnectionClosed
    from dragoman.proxy.between import Between
    from dragoman.rpc.transport import Transport
    from dragoman.wire import Frame, Id

INITIALIZE_SECONDS: Final = 60.0
"""How long a link may take to pass `initialize` on."""
BROKEN: Final = 4
"""The exit code of a chain that a link ended or broke."""
_LIMIT_BYTES: Final = 64 << 20
_MOST_NOTES: Final = 100
_LAST_WORDS: Final = 400


async def run_chain(
    links: Sequence[Sequence[str]],
    agent: Sequence[str] | None,
    *,
    grace_seconds: float = GRACE_SECONDS,
    initialize_seconds: float = INITIALIZE_SECONDS,
) -> int:
    """Run a chain behind this program's stdin and stdout until it ends; return the exit code.

    That is the agent's if the agent ended (128 + n for signal n), 4 if a link ended or broke the rules, and 0 if the
    client closed the connection. See `run_between` for the streams and signals of this program.

    Args:
        links: The commands of the links, the first one next to the client.
        agent: The agent's command; None if this chain is a link of another one.

    Raises:
        ConfigError: A command cannot be used.
        DragomanError: The system could not start one more program.
    """
    names = [f"link {number} ({os.path.basename(command[0])})" for number, command in enumerate(links, 1)]
    names = ["the client", *names, "the next program" if agent is None else "the agent"]

    async def start(between: Between) -> Sequence[Transport]:
        children = await spawn([*links, *([] if agent is None else [agent])], between)
        connection = StdioTransport()
        if agent is not None:
            return [connection, *children]
        link = ChainLink(connection, on_noise=between.say)
        return [link.client, *children, link.successor]

    ending = await run_between(
        start,
        lambda between: _ChainMiddle(names, between, initialize_seconds, is_nested=agent is None),
        name="dragoman conduct",
        most_notes=_MOST_NOTES,
        grace_seconds=grace_seconds,
    )
    return ending.code


class _ChainMiddle:
    """The router of a chain, and when the chain ends."""

    is_behind = False

    def __init__(self, names: Sequence[str], between: Between, initialize_seconds: float, *, is_nested: bool) -> None:
        self._names = names
        self._between = between
        self._initialize_seconds = initialize_seconds
        self._is_nested = is_nested
        self._is_client_gone = False
        self._router = ChainRouter(names[1:-1], names[-1], self._send, self._on_broken, between.say)
        self._last_greeting: tuple[str, Id] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(initialize_seconds, self._look_at_greeting)

    @property
    def is_waiting(self) -> bool:
        return self._router.is_waiting and not self._is_nested

    def feed(self, number: int, line: Frame) -> None:
        self._router.feed(number, line)

    def ended(self, number: int, reason: ConnectionClosed) -> None:
        if number == EDITOR:
            self._is_client_gone = True
            return
        is_agent = number == len(self._names) - 1
        code = reason.returncode if isinstance(reason, AgentExited) else None
        if self._is_client_gone and (code == 0 or is_agent):
            self._between.finish(0 if code is None else exit_code(code))
            return
        last = one_line(reason.stderr_tail.strip())[-_LAST_WORDS:] if isinstance(reason, AgentExited) else ""
        ended = "was ended" if code is None else f"ended with signal {-code}" if code < 0 else f"ended with code {code}"
        why = f"{self._names[number]} {ended}" + (f"; its last words on stderr: {last}" if last else "")
        self._end_with(why, exit_code(code) if is_agent and code is not None else BROKEN)

    async def close(self) -> None:
        self._timer.cancel()

    def _send(self, number: int, line: bytes) -> None:
        if self._between.is_over and number != EDITOR:
            return
        self._between.send(number, line)
        if self._between.unsent_bytes(number) > _LIMIT_BYTES:
            self._end_with(f"{self._names[number]} does not read: {_LIMIT_BYTES} bytes wait for it", BROKEN)

    def _on_broken(self, why: str) -> None:
        self._between.say(why)
        self._between.finish(BROKEN)

    def _end_with(self, why: str, code: int) -> None:
        if self._between.is_over:
            return
        self._between.finish(code)
        self._between.say(why)
        self._router.end(why)

    def _look_at_greeting(self) -> None:
        """End the chain if a link has had `initialize` since the last look and did not pass it on."""
        now = self._router.greeting
        if now is not None and now == self._last_greeting:
            seconds = f"{self._initialize_seconds:g} seconds"
            self._end_with(f"{now[0]} did not pass initialize on within {seconds}", BROKEN)
            return
        self._last_greeting = now
        self._timer = self._loop.call_later(self._initialize_seconds, self._look_at_greeting)
