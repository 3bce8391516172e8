"""A screen of lines that a model draws: the base of review, rewind, inspector and export.

Owns the keys (a table of each screen), the line in which a user types a word, the sentence that says what happened,
and work in threads: one piece at a time, so that a model is never used by two. A screen covers the conversation, so
the keys of the conversation do nothing here, and a question that waits is announced instead of answered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

from textual.strip import Strip
from textual.widget import Widget

from dragoman.errors import DragomanError
from dragoman.snapshots.review import ReviewRefused
from dragoman.text.terminal import cells, fit, one_line
from dragoman.text.visible import label
from dragoman.tui.screen.parts import LeftOnce
from dragoman.tui.screen.strips import strip_of
from dragoman.view.rails import by_words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from textual import events
    from textual.app import ComposeResult

    from dragoman.tui.screen.app import TerminalApp
    from dragoman.view.rails import RailLine


class Canvas(Widget, can_focus=True):
    """The lines of a screen."""

    DEFAULT_CSS = "Canvas { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[RailLine] = ()

    def draw(self, lines: Sequence[RailLine]) -> None:
        """Show these lines from the next refresh on."""
        self._lines = lines
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        return strip_of(self._lines[y], width) if y < len(self._lines) else Strip.blank(width)


class PaintedScreen(LeftOnce[Any]):
    """A screen that is drawn by `lines_of` and moved by `KEYS`."""

    KEYS: ClassVar[dict[str, str]] = {}
    """Key -> the method `do_NAME`. Keys are characters, or Textual's names for the others."""

    def __init__(self, app: TerminalApp) -> None:
        super().__init__()
        self.terminal = app
        self.message = ""
        """What happened last, in a sentence; not made safe."""
        self._asking: tuple[str, Callable[[str], None]] | None = None
        self._typed = ""
        self._lock = asyncio.Lock()
        self._jobs = 0

    # For screens

    def lines_of(self, width: int, height: int) -> Sequence[RailLine]:
        """Return the lines of this screen, at most as many as its height."""
        raise NotImplementedError

    @property
    def is_busy(self) -> bool:
        """Whether work runs in a thread."""
        return self._jobs > 0

    def paint(self) -> None:
        """Draw the screen."""
        if self.is_attached:  # work may end after the screen was left
            canvas = self.query_one(Canvas)
            width, height = canvas.size
            if width and height:
                canvas.draw(self.lines_of(width, height))

    def work(self, job: Callable[[], str | None]) -> None:
        """Do something in a thread; what it returns, or why it failed, is shown."""
        self.wait_for(lambda: asyncio.to_thread(job))

    def wait_for(self, job: Callable[[], Awaitable[str | None]]) -> None:
        """Do the same for something that waits."""
        self._jobs += 1
        self.terminal.start(self._work(job))
        self.paint()

    async def _work(self, job: Callable[[], Awaitable[str | None]]) -> None:
        try:
            async with self._lock:
                result = await job()
            if result is not None:
                self.message = result
        except (DragomanError, ReviewRefused, OSError, ValueError) as error:
            self.message = f"not done: {error}"
        finally:
            self._jobs -= 1
            self.paint()

    def ask(self, what: str, take: Callable[[str], None], default: str = "") -> None:
        """Let the user type a word in the last line; Enter passes it on, Esc does not."""
        self._asking, self._typed = (what, take), default
        self.paint()

    def foot(self, width: int, *keys: str) -> list[RailLine]:
        """Return the last message, in three lines at most, or what is typed, and the lines of the keys."""
        if self._asking is not None:
            return [((fit(f" {self._asking[0]}: {label(self._typed, width, '')}_", width), "bold"),), *_keys(keys)]
        waiting = self.terminal.conversation.questions
        sentence = "the agent waits for your answer: q goes back to it" if waiting else one_line(self.message)
        lines = list(by_words(sentence, max(10, width - 2)))[:3] or [""]
        return [*[((fit(f" {line}", width), "warn" if waiting else "dim"),) for line in lines], *_keys(keys)]

    def leave(self, result: Any = None) -> None:
        """Go back to where the user came from."""
        _ = self.dismiss(result)

    # Textual

    def compose(self) -> ComposeResult:
        yield Canvas()

    def on_mount(self) -> None:
        self.query_one(Canvas).focus()
        self.opened()
        self.call_after_refresh(self.paint)

    def opened(self) -> None:
        """Begin with the screen that is there now. Called once."""

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self.paint)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        if self._asking is not None:
            self._type(event)
            return
        printable = event.character if event.is_printable and event.character != " " else None
        name = self.KEYS.get(printable or event.key)
        if name is not None:
            self.press(name)

    def press(self, name: str) -> None:
        """Do what a key of the table stands for."""
        getattr(self, f"do_{name}")()
        self.paint()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        if self._asking is not None:
            self._typed += one_line(event.text)[:500]
            self.paint()

    def _type(self, event: events.Key) -> None:
        assert self._asking is not None
        if event.key == "escape":
            self._asking = None
        elif event.key == "enter":
            take, self._asking = self._asking[1], None
            take(self._typed)
        elif event.key == "ctrl+u":
            self._typed = ""
        elif event.key == "backspace":
            self._typed = self._typed[:-1]
        elif event.is_printable and event.character is not None:
            self._typed += event.character
        self.paint()

    def do_leave(self) -> None:
        """Go back."""
        self.leave()


def _keys(rows: Sequence[str]) -> list[RailLine]:
    return [((f" {row}", "dim"),) for row in rows]


def head_line(left: str, right: str, width: int) -> RailLine:
    """Return the first line: what this is on the left, its state on the right."""
    space = max(1, width - cells(right) - 1)
    return ((fit(f" {left}", space), "bold"), (f"{right} ", "dim"))


def key_rows(width: int, keys: Sequence[str]) -> list[str]:
    """Return the keys in as many rows as they need, two at most."""
    rows: list[str] = []
    for key in keys:
        if rows and cells(rows[-1]) + 2 + cells(key) < width:
            rows[-1] += f"  {key}"
        elif len(rows) < 2:
            rows.append(key)
    return rows
