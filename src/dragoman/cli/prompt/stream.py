"""Serialises several writers onto one stream, one line at a time: a new writer begins a new line.

While the user is asked, nothing else is written, so that no text of a peer can look like a part of the question. A
stream that fails is no longer used: a failure to show progress must not end the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

# Letters kept while the stream is held. A screen holds a few thousand; the newest are worth most.
_HELD: Final = 256 * 1024


class LineStream:
    """The stream progress is written to."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._writer = ""
        self._is_inside = False  # of a line
        self._is_broken = False
        self._holds = 0
        self._held: list[str] = []
        self._held_letters = 0
        self._lost_letters = 0

    @property
    def writer(self) -> str:
        """The name of the last writer."""
        return self._writer

    def line(self, text: str, writer: str = "") -> None:
        """Write a whole line."""
        self._emit(f"{self._break()}{text}\n")
        self._writer = writer
        self._is_inside = False

    def write(self, writer: str, text: str, prefix: str = "", style: str = "") -> None:
        """Write a piece of a writer's text; `prefix` begins each line, `style` is a colour sequence or empty."""
        if not text:
            return
        pieces = [self._break() if writer != self._writer else ""]
        is_inside = self._is_inside and writer == self._writer
        for line in text.splitlines(keepends=True):
            body = line.removesuffix("\n")
            if body:
                lead = "" if is_inside else prefix
                pieces.append(f"{style}{lead}{body}\x1b[0m" if style else lead + body)
            if body != line:
                pieces.append("\n")
            is_inside = body == line
        self._writer = writer
        self._is_inside = is_inside
        self._emit("".join(pieces))

    def hold(self) -> None:
        """Write nothing until `release`; keep what arrives until then."""
        if not self._holds:
            self._emit(self._break())
            self._is_inside = False
            self._writer = ""
        self._holds += 1

    def release(self) -> None:
        """Write what was kept."""
        self._holds = max(0, self._holds - 1)
        if not self._holds and self._held:
            held = "".join(self._held)
            if self._lost_letters:
                held = f"… {self._lost_letters} characters not shown\n{held}"
            self._held.clear()
            self._held_letters = self._lost_letters = 0
            self._emit(held)

    def _break(self) -> str:
        return "\n" if self._is_inside else ""

    def _emit(self, text: str) -> None:
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
