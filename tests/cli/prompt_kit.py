"""A real terminal for tests: what a program writes to it is collected, what a user types is written to it."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from dragoman.cli.prompt.dialogue import Dialogue
from dragoman.cli.prompt.keyboard import Keyboard
from dragoman.cli.prompt.user import UserPrompt
from dragoman.text.colour import Painter
from tests.arriving import ArrivingText

# What a peer may put into any text it sends, and what must then not be found on the screen.
ATTACKS = {
    "colour": "\x1b[31mred\x1b[0m",
    "clear the screen": "\x1b[2J\x1b[H",
    "cursor up": "\x1b[1A\x1b[2K",
    "ask the terminal": "\x1b[6n",
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "link": "\x1b]8;;http://evil.example/\x1b\\click\x1b]8;;\x1b\\",
    "unfinished string": "\x1b]0;never ends",
    "device control": "\x1bP+q544e\x1b\\",
    "eight bit": "\x9b31m\x9d0;owned\x9c\x90x\x9c\x85",
    "backspaces": "safe\b\b\b\bevil",
    "carriage return": "Reading a file\rDeleting all",
    "new line": "harmless\n  y 1       Allow",
    "line separator": "harmless\u2028  y 1  allow once\u2029x",
    "bidi": "\u202etxt.exe\u2066x\u2069\u200f",
    "zero width": "al\u200blo\u2060w\ufeff\u00ad\u200d",
    "tags": "hidden\U000e0041\U000e0042",
    "fillers": "\u3164\u2800\uffa0\u115f",
    "combining": "Z" + "\u0336" * 500,
    "long": "x" * 5000,
    "wide": "界" * 3000,
    "padding": "Allow" + " " * 200 + "n 3 Reject",
    "surrogate": "lone \udcff",
    "nul": "a\0b",
}

END = "\x05the end of what the program wrote\x05"


class Screen:
    """A terminal and the user in front of it, who sees what was written up to the words that were waited for last."""

    def __init__(self, master: int, path: str, slave: int) -> None:
        self._master = master
        self.descriptor = slave
        self._written = ArrivingText()
        self._news = asyncio.Event()
        self.path = path

    @property
    def text(self) -> str:
        """Everything up to the words that were waited for last."""
        return self._written.text.replace(END, "")

    async def until(self, words: str) -> str:
        """Waits for words behind those that were waited for last; returns what was written up to them."""
        start = len(self.text)
        while not self._written.show_until(words):
            self._news.clear()
            await self._news.wait()
        return self.text[start:]

    async def everything(self) -> str:
        """All that was written before this call, which then is seen."""
        os.write(self.descriptor, END.encode())
        return await self.until(END)

    async def until_input_is_awaited(self) -> str:
        """Waits for a prompt."""
        return await self.until(" > ")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def hang_up(self) -> None:
        """Close the terminal, as when its window is closed."""
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)
        self._master = -1

    def mode(self) -> object:
        return termios.tcgetattr(self.descriptor)

    def make_raw(self) -> None:
        tty.setraw(self.descriptor)

    def prompt(self, *, colour: bool = False, **options: object) -> UserPrompt:
        return UserPrompt(agent="gemini", colour=colour, tty=self.path, **options)  # type: ignore[arg-type]

    @contextmanager
    def dialogue(self) -> Iterator[Dialogue]:
        with Keyboard(self.path) as keyboard:
            yield Dialogue(keyboard, Painter(False), "gemini")

    def _collect(self) -> None:
        self._written.add(os.read(self._master, 65536))
        self._news.set()


@asynccontextmanager
async def screen(columns: int = 80, rows: int = 40) -> AsyncIterator[Screen]:
    """A new terminal that is not the controlling terminal of any process."""
    master, slave = pty.openpty()
    try:
        termios.tcsetwinsize(slave, (rows, columns))
        os.set_blocking(master, False)
        found = Screen(master, os.ttyname(slave), slave)
        asyncio.get_running_loop().add_reader(master, found._collect)
        try:
            yield found
        finally:
            if found._master == master:
                found.hang_up()
    finally:
        os.close(slave)


def acts(text: str) -> set[str]:
    """What in a text could control a terminal, or hide from its reader."""
    return {letter for letter in text if not letter.isprintable() and letter != "\n"} | (
        set(text) & set("\u3164\u2800\uffa0\u115f")
    )
