"""What a program writes, of which a test sees no more than it waited for.

A pipe or a terminal delivers text in pieces of any size. A test that waits for one line and then looks at the next one
passes where both came in one piece, and fails by chance elsewhere. Here the text that a test can see ends with the
words it waited for: what came behind them stays unread, so that such a test fails on every machine.
"""

from __future__ import annotations

import codecs
import os


class ArrivingText:
    """Text that arrives in pieces: the part that was waited for, and the rest, which no test sees."""

    def __init__(self) -> None:
        self.text = ""
        self._unread = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, data: bytes) -> None:
        """Take a piece; a letter or the end of a line may have come in parts."""
        whole = self._unread + self._decoder.decode(data)
        self._unread = whole.replace("\r\n", "\n")

    def show_until(self, words: str) -> bool:
        """Show the unread text up to these words and with them; False if they have not come behind what was shown."""
        start = self._unread.find(words)
        if start < 0:
            return False
        self._show(start + len(words))
        return True

    def show_all(self) -> None:
        """Show everything, at the end of the program that wrote it."""
        self._unread += self._decoder.decode(b"", final=True)
        self._show(len(self._unread))

    @property
    def whole(self) -> str:
        """Everything that came, for the message of a test that fails."""
        return self.text + self._unread

    def _show(self, size: int) -> None:
        self.text += self._unread[:size]
        self._unread = self._unread[size:]


def read_to_end(terminal: int) -> str:
    """Read a terminal until no process has its other end open any more; a single read may bring a part."""
    arriving = ArrivingText()
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other end was closed
            break
        arriving.add(piece)
    arriving.show_all()
    return arriving.text
