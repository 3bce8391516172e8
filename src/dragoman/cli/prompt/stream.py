"""Several writers on one stream, one line at a time: a new writer begins a new line.

While the user is asked, nothing else is written, so that no text of a peer can look like a part of the question. A
stream that fails is no longer used: a failure to show progress must not end the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.text.secrets import SplitMask, known_keys

if TYPE_CHECKING:
    from typing import TextIO

    from dragoman.cli.prompt.status_line import StatusLine

# Letters kept while the stream is held. A screen holds a few thousand; the newest are worth most.
_HELD: Final = 256 * 1024


class _Interrupted(NamedTuple):
    """A writer whose text ended with what may be the beginning of a key when another writer began a line."""

    mask: SplitMask
    prefix: str
    style: str


class LineStream:
    """The stream progress is written to."""

    def __init__(self, stream: TextIO, status: StatusLine | None = None) -> None:
        self._stream = stream
        self._status = status
        self._ends_line = True  # what was written last
        self.count = 0
        """How often something was written, the status line excepted."""
        self._writer = ""
        self._is_inside = False  # of a line
        self._is_broken = False
        self._holds = 0
        self._held: list[str] = []
        self._held_letters = 0
        self._lost_letters = 0
        # Of the last writer: an agent's text comes in pieces of a few letters, and a key may begin in one of them.
        self._mask = SplitMask(known_keys)
        self._prefix = self._style = ""
        self._interrupted: dict[str, _Interrupted] = {}

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
        start = ""
        if writer != self._writer:
            start = self._break()
            before = self._interrupted.pop(writer, None)
            if before is not None:
                self._mask = before.mask
        self._writer, self._prefix, self._style = writer, prefix, style
        self._emit(start + self._lay_out(self._mask.feed_text(text)))

    def settle(self) -> None:
        """Write what is kept of every writer: their texts do not go on."""
        self._emit(self._lay_out(self._mask.finish().decode(errors="replace")))
        for writer, (mask, prefix, style) in self._interrupted.items():
            if rest := mask.finish().decode(errors="replace"):
                start = self._break()
                self._writer, self._prefix, self._style = writer, prefix, style
                self._emit(start + self._lay_out(rest))
        self._interrupted.clear()

    def _lay_out(self, text: str) -> str:
        """Return a piece of the writer's text with its prefix and colour."""
        pieces = []
        for line in text.splitlines(keepends=True):
            body = line.removesuffix("\n")
            if body:
                lead = "" if self._is_inside else self._prefix
                pieces.append(f"{self._style}{lead}{body}\x1b[0m" if self._style else lead + body)
            if body != line:
                pieces.append("\n")
            self._is_inside = body == line
        return "".join(pieces)

    def show_status(self, text: str) -> None:
        """Show the status line with this text, or remove it if the text is empty."""
        if self._status is not None and not self._holds:
            cleared = self._status.clear()
            self._status.text = text
            self._put(cleared + self._status.draw(is_inside=not self._ends_line))

    def hold(self) -> None:
        """Write nothing until `release`; keep what arrives until then."""
        if not self._holds:
            self._emit(self._break())
            if self._status is not None:
                self._put(self._status.clear())
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
        """Return what ends the line of the last writer.

        A line of the agent's log may come between two pieces of a key in its answer. What is long enough to be a part
        of a key is kept until its writer goes on, or until `settle`; a shorter rest belongs to the line that ends here.
        """
        rest = self._lay_out(self._mask.show_some().decode(errors="replace"))
        if self._mask.has_rest:
            self._interrupted[self._writer] = _Interrupted(self._mask, self._prefix, self._style)
            self._mask = SplitMask(known_keys)
        end = "\n" if self._is_inside else ""
        self._is_inside = False
        return rest + end

    def _emit(self, text: str) -> None:
        if self._is_broken or not text:
            return
        if self._holds:
            self._keep(text)
            return
        self.count += 1
        self._ends_line = text.endswith("\n")
        if self._status is not None:
            text = self._status.clear() + text + (self._status.draw(is_inside=False) if self._ends_line else "")
        self._put(text)

    def _put(self, text: str) -> None:
        if self._is_broken or not text:
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
