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
from dragoman.tui.lines.client import LineClient, is_leaving
from dragoman.tui.terminal.terminal_facts import ascii_signs
from dragoman.view.appended import AppendedLines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from dragoman.tui.attachments import Chip
    from dragoman.tui.interface import Opening
    from dragoman.tui.lines.client import LineTranscript

KEYS: Final = (
    ("NUMBER", "answer the question that is open"),
    ("Ctrl-C", "stop the turn; without one, leave"),
    ("Ctrl-D", "leave; the work goes on"),
)


class PlainTerminal:
    """A terminal that gives lines from stdin, and gets lines appended to stdout."""

    has_status = False
    answers_by_line = True
    has_input = False
    keys: Sequence[tuple[str, str]] = KEYS

    def __init__(self, paint: Painter, *, is_ascii: bool = False) -> None:
        self.paint = paint
        self._is_ascii = is_ascii

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

    def lent(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()  # nothing is read or drawn while a line is taken

    async def read(self, client: LineClient) -> None:
        """Take lines until the user leaves."""
        kept = ""
        while (line := await self._line()) is not None:
            if line.endswith("\\"):
                kept += line[:-1] + "\n"
                continue
            text, kept = (kept + line).strip(), ""
            if is_leaving(text):
                return
            # An empty line keeps the value of a field, and takes the first row of the welcome.
            if text or client.answers.is_filling or client.is_choosing:
                await client.take(text)

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

    def interrupt() -> None:
        stopping = asyncio.ensure_future(client.interrupt())
        stopping.add_done_callback(lambda done: None if done.cancelled() or done.result() else working.cancel())

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, working.cancel)
    with suppress(asyncio.CancelledError):
        await working
    return 0
