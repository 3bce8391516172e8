"""The terminal client that only appends lines: for screen readers, `TERM=dumb`, and wherever a cursor is in the way.

Owns stdin and stdout; what lines mean is in `lines/`. Nothing is rewritten, there are no timers on the screen, and the
terminal's own cursor stays where the user types.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import threading
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Final

from dragoman.text.colour import Painter
from dragoman.tui.lines.client import LineClient, leaving_words
from dragoman.tui.terminal.terminal_facts import ascii_signs
from dragoman.view.appended import AppendedLines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from dragoman.tui.attachments import Chip
    from dragoman.tui.interface import Opening
    from dragoman.tui.lines.client import LineTranscript

KEYS: Final = (
    ("y, a, n, NUMBER", "answer the question that is open: once, always, no, or a row of it"),
    ("w WHY, v", "reject it and say why; see it again"),
    ("Ctrl+C", "stop what runs; else clear the line; else, twice, leave"),
    ("Ctrl+D", "leave; the work goes on"),
)
_TWICE_SECONDS: Final = 2.0
"""So soon after the first Ctrl+C the second one leaves."""


class PlainTerminal:
    """A terminal that gives lines from stdin, and gets lines appended to stdout."""

    has_status = False
    answers_by_line = True
    has_input = False
    keys: Sequence[tuple[str, str]] = KEYS

    def __init__(self, paint: Painter, *, is_ascii: bool = False) -> None:
        self.paint = paint
        self._is_ascii = is_ascii
        self._kept = ""  # the lines of a prompt that goes on
        self._asked_about: tuple[str | None] | None = None  # the turn that the user was asked about

    def write(self, lines: Sequence[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        sys.stdout.write(ascii_signs(text) if self._is_ascii else text)
        sys.stdout.flush()

    def write_sequence(self, sequence: str) -> None:
        # Past the filter of stdout, which removes what acts on a terminal.
        if sys.stdout.isatty():
            with suppress(OSError):
                os.write(sys.stdout.fileno(), sequence.encode())

    def width(self) -> int:
        return shutil.get_terminal_size().columns

    def transcript(self) -> LineTranscript:
        return AppendedLines(self.width(), self.paint)

    def give_back(self, text: str) -> bool:
        return False

    def attach(self, chip: Chip) -> bool:
        return False

    def changed(self) -> None:
        pass

    def handed_over(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()  # no line is read while one is taken

    async def read(self, client: LineClient) -> None:
        """Take lines until the user leaves."""
        while (line := await self._line()) is not None:
            if line.endswith("\\"):
                self._kept += line[:-1] + "\n"
                continue
            raw, self._kept = self._kept + line, ""
            words = leaving_words(raw.strip())
            if words is not None:
                if await self._may_leave(client, words):
                    return
            # An empty line keeps the value of a field, and takes the best row of the welcome.
            elif raw.strip() or client.answers.is_filling or client.is_choosing:
                await client.take(raw)

    async def _may_leave(self, client: LineClient, words: str) -> bool:
        """Return whether the client is left now; says once for each turn that it goes on, and how to stop it."""
        conversation = client.conversation
        if words == "stop":
            await conversation.stop_and_wait()
            return True
        if words not in ("", "detach"):
            client.write("note: /exit leaves, /exit stop stops the turn and leaves")
            return False
        if words or not client.runs_on or self._asked_about == (conversation.turn_id,):
            return True
        self._asked_about = (conversation.turn_id,)
        client.write("note: the turn is still running: /exit stop stops it and leaves, /exit again lets it go on")
        return False

    def clear(self) -> bool:
        """Drop the lines of a prompt that was not ended; False if there are none. The terminal drops the last line."""
        was_kept, self._kept = bool(self._kept), ""
        return was_kept

    async def _line(self) -> str | None:
        """Return the next line of stdin, None at its end."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[str | None] = loop.create_future()

        def read() -> None:
            try:
                line = sys.stdin.readline()
            except (OSError, ValueError, UnicodeDecodeError):
                line = ""
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, ready, line.rstrip("\n") if line else None)

        threading.Thread(target=read, daemon=True, name="dragoman-stdin").start()
        return await ready


def _settle(future: asyncio.Future[str | None], value: str | None) -> None:
    if not future.done():
        future.set_result(value)


def run(
    opening: Opening,
    session_id: str | None,
    first: str | None,
    has_colour: bool,
    *,
    is_ascii: bool = False,
    chooses: bool = False,
    welcomes: bool = False,
) -> int:
    """Work in this terminal until the user leaves; `chooses`: list the sessions first. Returns the exit code."""
    terminal = PlainTerminal(Painter(has_colour), is_ascii=is_ascii)
    work = _work(opening, session_id, first, terminal, chooses=chooses, welcomes=welcomes)
    return asyncio.run(work)


async def _work(
    opening: Opening,
    session_id: str | None,
    first: str | None,
    terminal: PlainTerminal,
    *,
    chooses: bool,
    welcomes: bool,
) -> int:
    client = LineClient(opening, terminal, session_id, chooses=chooses)
    client.welcomes = welcomes
    reading = asyncio.ensure_future(terminal.read(client))
    working = asyncio.ensure_future(client.run(reading, first))

    interrupted_at = -_TWICE_SECONDS

    def interrupt() -> None:
        nonlocal interrupted_at
        now, before, interrupted_at = loop.time(), interrupted_at, -_TWICE_SECONDS
        if client.interrupt():
            return
        if terminal.clear():
            client.write("note: the lines of the prompt are dropped")
        elif now - before < _TWICE_SECONDS:
            working.cancel()
        else:
            interrupted_at = now
            client.write("note: Ctrl+C again to leave")

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, working.cancel)
    with suppress(asyncio.CancelledError):
        await working
    # One more Ctrl+C while the program ends would only write where the loop no longer listens.
    _ = loop.remove_signal_handler(signal.SIGINT)
    _ = signal.signal(signal.SIGINT, signal.SIG_IGN)
    return 0
