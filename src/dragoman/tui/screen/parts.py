"""Small parts of the screen: a line of text, and a list to choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from dragoman.tui.screen.strips import strip_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from dragoman.view.rails import RailLine


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
