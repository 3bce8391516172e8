"""A program between an editor on stdin and stdout and the programs behind it.

Theory of operation
-------------------
Number 0 is the editor, the highest number is the agent, and what is between them are links of a chain. What is done
with the lines is decided by a `Middle`; here are streams, room, ends, signals and stderr.

*Lines.* The lines of one piece of input are taken one after the other, and what is sent meanwhile is written together
afterwards. A mistake of ours in one of them must not end the conversation, nor let the line pass.

*Room.* The editor and the agent are read while all others take what they are sent, while they take our answers
themselves, and while the middle keeps up. Links are always read, so that none of them waits for another one.

*Ends.* When the editor closes its end, what it waits for may still be answered, until the programs were silent for the
grace period. The exit code of this program is that of the agent, unless the middle or a signal ended it. If this
program is killed, `dragoman.process` ends its children.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from dragoman.text.secrets import SplitMask, known_keys
from dragoman.text.terminal import one_line
from dragoman.transports._descriptors import private_copy
from dragoman.transports._outlet import Outlet
from dragoman.transports.process import ProcessTransport
from dragoman.wire import Framer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dragoman.errors import ConnectionClosed
    from dragoman.rpc.transport import Transport
    from dragoman.wire import Frame

    OnStderr = Callable[[bytes], None]

_log = logging.getLogger("dragoman.proxy")

EDITOR: Final = 0
GRACE_SECONDS: Final = 10.0
"""How long the programs may be silent after the editor is gone."""
_HIGH_BYTES: Final = 1 << 20
_FLOOD_BYTES: Final = 16 << 20  # of our own answers, to a side that sends requests and does not read
_LOOK_SECONDS: Final = 0.05  # how often it is looked whether a middle that was behind has caught up
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Middle(Protocol):
    """What is done with the lines between programs; without input and output."""

    @property
    def is_waiting(self) -> bool:
        """Whether something is still to come after the editor is gone."""

    @property
    def is_behind(self) -> bool:
        """Whether nothing more should be read now, because a log has to catch up."""

    def feed(self, number: int, line: Frame) -> None:
        """Take a line of one of the programs."""

    def ended(self, number: int, reason: ConnectionClosed) -> None:
        """Note that one of the programs sends nothing more."""

    async def close(self) -> None:
        """Send what is still to be sent, and release everything."""


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


class HowEnded(NamedTuple):
    """How it ended: the exit code for this program, and the signal that ended it, if one did."""

    code: int
    signal: signal.Signals | None = None


async def run_between(
    start: Callable[[Between], Awaitable[Sequence[Transport]]],
    make: Callable[[Between], Middle],
    *,
    name: str,
    notes: Sequence[str] = (),
    most_notes: int | None = None,
    recording: RecordsLines | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> HowEnded:
    """Run until the agent or the middle ends it, the editor is gone, or a signal arrives.

    The standard streams and the signals of this program are taken over, so call it from the main thread and end the
    program afterwards.

    Args:
        start: Starts the programs and returns their transports, the editor's first. It opens the editor's last: if a
            program cannot be started, the streams of this one are unchanged.
        make: Makes the middle, when all programs run.
        name: Begins each sentence on stderr.
        notes: Sentences for stderr at the start.
        most_notes: How many sentences are written to stderr.
        recording: Gets the lines from and to the agent.

    Raises:
        DragomanError: A program could not be started.
    """
    between = Between(name, most_notes, recording, grace_seconds)
    return await between.run(start, make, notes)


class _End:
    """One program, as its transport sees it."""

    def __init__(self, between: Between, number: int) -> None:
        self._between = between
        self._number = number
        self._framer = Framer()

    def feed(self, data: bytes) -> None:
        self._between.take(self._number, self._framer.feed(data))

    def end(self, reason: ConnectionClosed) -> None:
        self._between.take(self._number, self._framer.end())
        self._between.on_end(self._number, reason)

    def drained(self) -> None:
        self._between.make_room()


class Between:
    """The program around a middle, which sends, reports and finishes through it."""

    def __init__(self, name: str, most_notes: int | None, recording: RecordsLines | None, grace_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._name = name
        self._notes_left = most_notes
        self._recording = recording
        self._grace_seconds = grace_seconds
        self._active_at = self._loop.time()
        self._over: asyncio.Future[HowEnded | None] = self._loop.create_future()
        self._middle: Middle
        self._transports: Sequence[Transport] = ()
        self._out: list[list[bytes]] = []  # of one piece of input, by the number of its receiver
        self._is_collecting = False
        self._is_editor_gone = False
        self._looking: asyncio.TimerHandle | None = None
        self._log: Outlet | None = None
        self._is_shared = False
        self._masks: list[SplitMask] = []

    async def run(
        self,
        start: Callable[[Between], Awaitable[Sequence[Transport]]],
        make: Callable[[Between], Middle],
        notes: Sequence[str],
    ) -> HowEnded:
        """See `run_between`."""
        self._open_log()
        try:
            for note in notes:
                self.say(note)
            self._transports = await start(self)
            self._out = [[] for _ in self._transports]
            middle = self._middle = make(self)
            if threading.current_thread() is threading.main_thread():
                for received in _SIGNALS:
                    self._loop.add_signal_handler(received, self._finish_by, received)
            try:
                # The agent first: a middle may answer the editor's first line at once.
                for number in reversed(range(len(self._transports))):
                    self._transports[number].start(_End(self, number))
                ending = await self._over
            finally:
                if self._looking is not None:
                    self._looking.cancel()
                await middle.close()
                for transport in self._transports:
                    transport.close()
                await asyncio.gather(*(transport.wait_closed() for transport in self._transports))
            agent = self._transports[-1]
            returncode = agent.returncode if isinstance(agent, ProcessTransport) else None
            if self._recording is not None:
                self._recording.exit(returncode)
                self._recording.close()
            # An agent without an exit code was ended by us.
            return ending or HowEnded(0 if returncode is None else exit_code(returncode))
        finally:
            self._close_log()

    # What a middle calls

    def send(self, number: int, line: bytes) -> None:
        """Send a line to one of the programs."""
        if self._recording is not None and number != EDITOR:
            self._recording.frame("c2a", line[:-1])
        if self._is_collecting:
            self._out[number].append(line)
        else:
            self._transports[number].write(line)

    def unsent_bytes(self, number: int) -> int:
        """Return how much waits for a program to read it."""
        return self._transports[number].unsent_bytes

    def end_input(self, number: int) -> None:
        """Close the stdin of a program; it may still write."""
        transport = self._transports[number]
        if isinstance(transport, ProcessTransport):
            transport.end_writing()

    async def end_commands(self, number: int, since: float) -> None:
        """End what a program started at or after a moment of `time.monotonic`, and leave everything older alone."""
        transport = self._transports[number]
        if isinstance(transport, ProcessTransport):
            await transport.end_commands(since)

    def finish(self, code: int | None = None) -> None:
        """End everything; the exit code is that of the agent if none is given. The first call counts."""
        if not self._over.done():
            self._over.set_result(None if code is None else HowEnded(code))

    @property
    def is_over(self) -> bool:
        """Whether it has been decided how this ends."""
        return self._over.done()

    def say(self, sentence: str) -> None:
        """Show the user a sentence, on stderr."""
        if self._log is None or self._notes_left == 0:
            return
        shown = known_keys.mask(one_line(sentence))
        if self._notes_left is not None:
            self._notes_left -= 1
            shown += "" if self._notes_left else "; further notes are left out"
        self._log.write(f"{self._name}: {shown}\n".encode(errors="replace"))

    def stderr(self) -> OnStderr:
        """Return a function for what one program writes to stderr."""
        mask = SplitMask(known_keys)  # for each its own: a key may be split between two writes
        self._masks.append(mask)

        def pass_on(data: bytes) -> None:
            self._active_at = self._loop.time()
            if self._log is not None:
                self._log.write(mask.feed(data))

        return pass_on

    # What the transports call

    def take(self, number: int, lines: Sequence[Frame]) -> None:
        """Let the middle take lines of a program, and write what it sent."""
        self._active_at = self._loop.time()
        is_recorded = self._recording is not None and number != EDITOR
        self._is_collecting = True
        for line in lines:
            if is_recorded and isinstance(line, bytes):
                self._recording.frame("a2c", line)  # type: ignore[union-attr]  # it is recorded
            try:
                self._middle.feed(number, line)
            except Exception:
                _log.exception("%s failed on a line of program %d; it is not passed on", self._name, number)
        self._is_collecting = False
        for receiver, sent in enumerate(self._out):
            if sent:
                self._transports[receiver].write(b"".join(sent))
                sent.clear()
        self.make_room()
        if self._is_editor_gone and not self._middle.is_waiting:
            self.finish(0)

    def on_end(self, number: int, reason: ConnectionClosed) -> None:
        """End the conversation, or wait for its last answers, after a program closed its connection."""
        if self._over.done():
            return
        if number == EDITOR:
            self._is_editor_gone = True
        self._middle.ended(number, reason)
        if number != EDITOR:
            self.finish()
        elif not self._middle.is_waiting:
            self.finish(0)
        else:
            self._active_at = self._loop.time()
            self._wait_for_end()

    def make_room(self) -> None:
        """Read the editor and the agent, or stop reading them."""
        transports, is_behind = self._transports, self._middle.is_behind
        for side in (transports[EDITOR], transports[-1]):
            is_full = is_behind or side.unsent_bytes > _FLOOD_BYTES
            if is_full or any(other.unsent_bytes > _HIGH_BYTES for other in transports if other is not side):
                side.pause_reading()
            else:
                side.resume_reading()
        if is_behind and self._looking is None:
            self._looking = self._loop.call_later(_LOOK_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._looking = None
        self.make_room()

    # Ends

    def _wait_for_end(self) -> None:
        """End everything if it was silent for the grace period after the editor closed the connection."""
        silent_seconds = self._loop.time() - self._active_at
        if silent_seconds >= self._grace_seconds:
            # A chain ends as one thing; of a pair it is the agent that is ended.
            self.finish(0 if len(self._transports) > 2 else None)
        elif not self._over.done():
            self._loop.call_later(self._grace_seconds - silent_seconds, self._wait_for_end)

    def _finish_by(self, received: signal.Signals) -> None:
        if not self._over.done():
            self._over.set_result(HowEnded(128 + received, received))

    # stderr

    def _open_log(self) -> None:
        with suppress(OSError):  # closed when the program started
            copy, self._is_shared = private_copy(2, os.O_WRONLY)
            self._log = Outlet(copy)

    def _close_log(self) -> None:
        log, self._log = self._log, None
        if log is None:
            return
        for mask in self._masks:
            rest = mask.finish()
            if rest:
                log.write(rest)
        log.close()
        if self._is_shared:
            os.set_blocking(2, True)


async def spawn(commands: Sequence[Sequence[str]], between: Between) -> list[ProcessTransport]:
    """Start all programs or none.

    Raises:
        ConfigError: A command cannot be used.
        DragomanError: The system could not start one more program.
    """
    spawned: list[ProcessTransport] = []
    try:
        for command in commands:
            spawned.append(await ProcessTransport.spawn(command, on_stderr=between.stderr()))
    except BaseException:
        for transport in spawned:
            transport.close()
        await asyncio.gather(*(transport.wait_closed() for transport in spawned))
        raise
    return spawned


def exit_code(returncode: int) -> int:
    """Return the exit code of this program for that of another one: 128 + n for signal n, as in a shell."""
    return returncode if returncode >= 0 else 128 - returncode
