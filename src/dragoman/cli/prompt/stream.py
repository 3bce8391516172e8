"""Several voices on one stream, line by line: whoever begins to speak begins a line.

Owns where the line stands and the hold: while a person is asked, nothing else is written, so that nothing a peer says
can look like a part of the question. A stream that fails is left alone: what is shown must never end what runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

# Letters kept while the stream is held. A screen holds a few thousand; the newest are worth most.
_HELD: Final = 256 * 1024


class Lines:
    """The stream progress is written to."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._voice = ""
        self._is_inside = False  # of a line
        self._is_broken = False
        self._holds = 0
        self._held: list[str] = []
        self._held_letters = 0
        self._lost_letters = 0

    @property
    def voice(self) -> str:
        """Who wrote last."""
        return self._voice

    def line(self, text: str, voice: str = "") -> None:
        """A whole line."""
        self._write(f"{self._break()}{text}\n")
        self._voice = voice
        self._is_inside = False

    def speak(self, voice: str, text: str, prefix: str = "", style: str = "") -> None:
        """A piece of what a voice says; `prefix` begins each of its lines, `style` is a colour or nothing."""
        if not text:
            return
        pieces = [self._break() if voice != self._voice else ""]
        is_inside = self._is_inside and voice == self._voice
        for line in text.splitlines(keepends=True):
            body = line.removesuffix("\n")
            if body:
                lead = "" if is_inside else prefix
                pieces.append(f"{style}{lead}{body}\x1b[0m" if style else lead + body)
            if body != line:
                pieces.append("\n")
            is_inside = body == line
        self._voice = voice
        self._is_inside = is_inside
        self._write("".join(pieces))

    def hold(self) -> None:
        """Writes nothing until `release`; what comes meanwhile is kept."""
        if not self._holds:
            self._write(self._break())
            self._is_inside = False
            self._voice = ""
        self._holds += 1

    def release(self) -> None:
        """Writes what was kept."""
        self._holds = max(0, self._holds - 1)
        if not self._holds and self._held:
            held = "".join(self._held)
            if self._lost_letters:
                held = f"… {self._lost_letters} letters not shown\n{held}"
            self._held.clear()
            self._held_letters = self._lost_letters = 0
            self._write(held)

    def _break(self) -> str:
        return "\n" if self._is_inside else ""

    def _write(self, text: str) -> None:
        if self._is_broken or not text:
            return
        if self._holds:
            self._keep(text)
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # closed, or its reader went away
            self._is_broken = True

    def _keep(self, text: str) -> None:
        self._held.append(text)
        self._held_letters += len(text)
        while self._held_letters > _HELD:
            lost = len(self._held.pop(0))
            self._held_letters -= lost
            self._lost_letters += lost
