"""Small parts of the screen: a line of text, the input, and a list to choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.text import Text
from textual.binding import Binding
from textual.message import Message
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from dragoman.tui.screen.strips import strip_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult

    from dragoman.view.rails import RailLine

_MOST_HISTORY: Final = 200


class OneLine(Widget):
    """A line that is drawn whenever it is set."""

    DEFAULT_CSS = "OneLine { height: 1; }"

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._line: RailLine = ()

    def show(self, line: RailLine) -> None:
        """Show a line."""
        if line != self._line:
            self._line = line
            self.refresh()

    def render_line(self, y: int) -> Strip:
        return strip_of(self._line, self.size.width) if y == 0 else Strip.blank(self.size.width)


class PromptInput(TextArea):
    """The input: Enter sends, Ctrl+J begins a new line, Up and Down at the ends go through what was sent."""

    DEFAULT_CSS = """
    PromptInput { height: auto; min-height: 1; max-height: 8; border: none; padding: 0 0 0 2; }
    PromptInput:focus { border: none; }
    """
    BINDINGS: ClassVar[list[Any]] = [Binding("ctrl+j", "line", "new line", show=False)]

    class Sent(Message):
        """The user sent a text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, **settings: Any) -> None:
        super().__init__(soft_wrap=True, show_line_numbers=False, tab_behavior="focus", **settings)
        self._history: list[str] = []
        self._place: int | None = None

    def action_line(self) -> None:
        """Begin a new line."""
        self.insert("\n")

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self._send()
        elif event.key in ("alt+enter", "shift+enter"):
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif (event.key == "up" and self.cursor_at_first_line) or (event.key == "down" and self.cursor_at_last_line):
            event.stop()
            event.prevent_default()
            self._walk(-1 if event.key == "up" else 1)
        else:
            await super()._on_key(event)

    def _send(self) -> None:
        text = self.text
        if text.endswith("\\"):
            self.text = text[:-1] + "\n"
            self.move_cursor(self.document.end)
            return
        if text.strip():
            self._history = [*self._history[-_MOST_HISTORY:], text]
            self._place = None
            self.text = ""
            self.post_message(self.Sent(text.strip()))

    def _walk(self, step: int) -> None:
        if not self._history:
            return
        place = (len(self._history) if self._place is None else self._place) + step
        if place >= len(self._history):
            self._place, self.text = None, ""
            return
        self._place = max(0, place)
        self.text = self._history[self._place]
        self.move_cursor(self.document.end)


class Choice(ModalScreen[int | None]):
    """A list to choose from; Esc chooses nothing."""

    DEFAULT_CSS = """
    Choice { align: center middle; }
    Choice OptionList { width: 90%; max-height: 80%; border: round; }
    """
    BINDINGS: ClassVar[list[Any]] = [Binding("escape", "leave", "back")]

    def __init__(self, title: str, rows: Sequence[str]) -> None:
        super().__init__()
        self._title = title
        self._rows = rows

    def compose(self) -> ComposeResult:
        # `Text`, not a string: markup in a title of an agent would be read.
        found = OptionList(*(Option(Text(row)) for row in self._rows))
        found.border_title = Text(self._title)
        yield found

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        _ = self.dismiss(event.option_index)

    def action_leave(self) -> None:
        """Choose nothing."""
        _ = self.dismiss(None)
