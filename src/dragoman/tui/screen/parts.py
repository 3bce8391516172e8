"""Small parts of the screen: a line of text, a list to choose from, and what every screen above the first one is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.screen import ModalScreen, Screen, ScreenResultType
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


class LeftOnce(Screen[ScreenResultType]):
    """A screen that is left once, and takes no other one with it.

    The user may close it in the moment in which it closes itself, because the agent took its question back; Textual
    would close the screen below as well, or end the client. One that is covered is left when it comes to the top.
    """

    takes_interrupt = False
    """Whether Ctrl+C is a key of this screen; otherwise the client takes it."""
    _is_left = False
    _waits_below = False
    _result: ScreenResultType | None = None

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        if self._is_left:
            return AwaitComplete()
        self._is_left = True  # at once: Textual closes a screen later, and a second key may come before that
        if self.is_active:
            return super().dismiss(result)
        self._waits_below, self._result = True, result
        return AwaitComplete()

    def on_screen_resume(self) -> None:
        if self._waits_below:
            self._waits_below = False
            _ = super().dismiss(self._result)


class Choice(LeftOnce[int | None], ModalScreen[int | None]):
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
        rows = OptionList(*(Option(Text(row)) for row in self._rows))
        rows.border_title = Text(self._title)
        yield rows

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        _ = self.dismiss(event.option_index)

    def action_leave(self) -> None:
        """Choose nothing."""
        _ = self.dismiss(None)
