"""Small parts of the screen: a line of text, lists and keys to choose from, and what every upper screen is."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import events
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from dragoman.tui.screen.strips import strip_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


class KeyQuestion(LeftOnce[str | None], ModalScreen[str | None]):
    """A question that one key answers; Esc answers nothing. What was typed before it was in sight does not count."""

    DEFAULT_CSS = """
    KeyQuestion { align: center middle; }
    KeyQuestion Static { width: 90%; height: auto; border: round; padding: 0 1; }
    """

    def __init__(self, title: str, answers: Mapping[str, str], *, same_keys: Mapping[str, str]) -> None:
        """Ask.

        Args:
            title: what is asked.
            answers: key -> what it does.
            same_keys: other keys that give an answer, which are not shown.
        """
        super().__init__()
        self._title, self._answers, self._same_keys = title, answers, same_keys
        self._shown_at: float | None = None

    def compose(self) -> ComposeResult:
        rows = [*(f"[{key}] {what}" for key, what in self._answers.items()), "[Esc] stay"]
        box = _Shown(self, Text("\n".join(rows)))
        box.border_title = Text(self._title)
        yield box

    def note_shown(self) -> None:
        """Note that the question was drawn."""
        if self._shown_at is None:
            self._shown_at = monotonic()

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        if self._shown_at is None or event.time < self._shown_at:
            return
        key = self._same_keys.get(event.key, event.key)
        if key == "escape" or key in self._answers:
            _ = self.dismiss(None if key == "escape" else key)


class _Shown(Static):
    """The text of a question, which reports when it is drawn."""

    def __init__(self, question: KeyQuestion, text: Text) -> None:
        super().__init__(text)
        self._question = question

    def render_line(self, y: int) -> Strip:
        self._question.note_shown()
        return super().render_line(y)
