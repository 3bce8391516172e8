"""A parser that does not read pasted text as keys.

Textual's parser reads an escape character inside a bracketed paste as the start of a key, and what follows it as typed:
a line end in it would send the prompt, an Alt+1 would answer a question. Terminals remove most of that from pastes, but
not all do, and tmux does not. So a paste is taken out of the stream before the parser sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from textual import events
from textual._xterm_parser import XTermParser

from dragoman.tui.terminal.terminal_facts import without_late_answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import App
    from textual.message import Message

START: Final = "\x1b[200~"
END: Final = "\x1b[201~"
MOST_CHARACTERS: Final = 32 << 20
"""More of one paste is dropped: it would have to fit into memory several times."""


class PasteParser(XTermParser):
    """The parser of Textual's driver, for everything but pastes."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._before = ""  # the last characters that the parser got: a marker may come in two pieces
        self._pieces: list[str] | None = None  # of the paste that is under way
        self._length = 0

    def feed(self, data: str) -> Iterable[Message]:
        """Yield the events of a piece of input."""
        if not data:
            yield from super().feed(data)
        while data:
            if self._pieces is None:
                place = (self._before + data).find(START)
                end = len(data) if place < 0 else place + len(START) - len(self._before)
                self._before = (self._before + data[:end])[-len(START) + 1 :]
                # An answer of the terminal that comes after the screen started would be typed into the input.
                yield from super().feed(without_late_answer(data[:end]))
                data = data[end:]
                if place >= 0:
                    self._pieces, self._before, self._length = [], "", 0
            else:
                place = (self._before + data).find(END)
                if place < 0:
                    self._keep(data)
                    return
                yield from self._finish(data[: max(0, place - len(self._before))], place)
                data = data[place + len(END) - len(self._before) :]
                self._before = ""

    def _keep(self, data: str) -> None:
        assert self._pieces is not None
        self._before = (self._before + data)[-len(END) + 1 :]
        self._length += len(data)
        if self._length <= MOST_CHARACTERS:
            self._pieces.append(data)

    def _finish(self, data: str, place: int) -> Iterable[Message]:
        assert self._pieces is not None
        text = "".join([*self._pieces, data])
        if place < len(self._before):  # the marker began in the piece before
            text = text[: place - len(self._before)]
        self._pieces = None
        # The parser saw the start, and waits for the end; the paste that it makes of that is empty.
        yield from (event for event in super().feed(END) if not isinstance(event, events.Paste))
        yield events.Paste(text.replace("\x00", ""))


def guard_pastes() -> None:
    """Let the driver that starts from here on read pastes this way."""
    from textual.drivers import linux_driver

    driver: Any = linux_driver
    driver.XTermParser = PasteParser


def type_keys(app: App[Any], typed: bytes) -> None:
    """Take in keys that came before the screen."""
    for event in PasteParser().feed(typed.decode("utf-8", "replace")):
        app.post_message(event)
