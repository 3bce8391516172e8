"""The line above the input, shown only when there is something to say: what is attached, the search, the mouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.text.terminal import one_line
from dragoman.text.visible import label
from dragoman.tui.screen.parts import OneLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.timer import Timer

    from dragoman.tui.attachments import ListedAttachment
    from dragoman.tui.screen.app import TerminalApp

_NOTE_SECONDS: Final = 10.0

RELEASED = "  the mouse is the terminal's: select and copy there; Alt+S takes it back (with the mouse here, Shift+drag)"


class InputHint(OneLine):
    """One line about the input."""

    DEFAULT_CSS = "InputHint { display: none; height: 1; }"

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._rows: Sequence[ListedAttachment] = ()
        self._search: str | None = None
        self._has_match = True
        self._is_released = False
        self._note = ""
        self._clearing: Timer | None = None

    def attached(self, rows: Sequence[ListedAttachment]) -> None:
        """Show what would be sent with the text."""
        self._rows = rows
        self._draw()

    def searching(self, words: str | None, *, has_match: bool = True) -> None:
        """Show that the history is searched for these words; None if it is not."""
        self._search, self._has_match = words, has_match
        self._draw()

    def released(self, is_released: bool) -> None:
        """Show whether the mouse belongs to the terminal."""
        self._is_released = is_released
        self._draw()

    def noted(self, text: str, seconds: float = _NOTE_SECONDS) -> None:
        """Show a sentence about what the user did, for a few seconds: while a turn runs, the status shows the turn."""
        self._note = one_line(text)
        if self._clearing is not None:
            self._clearing.stop()
        self._clearing = self.set_timer(seconds, self._clear)
        self._draw()

    def _clear(self) -> None:
        self._note = ""
        self._draw()

    def _draw(self) -> None:
        if self._search is not None:
            missing = "" if self._has_match else "nothing has "
            words = f"  history: {missing}{label(self._search, 40, '')}"
            keys = "  Ctrl+R older · Enter keeps · Esc back"
            self.show(((words, "bold" if self._has_match else "warn"), (keys, "dim")))
        elif self._note:
            self.show(((f"  {self._note}", "dim"),))
        elif self._rows:
            names = ", ".join(f"{row.name} ({row.what})" if row.what else row.name for row in self._rows)
            self.show(((f"  attached: {names}", "dim"),))
        elif self._is_released:
            self.show(((RELEASED, "warn"),))
        else:
            self.show(())
        self.display = self._search is not None or bool(self._note) or bool(self._rows) or self._is_released


def note(app: TerminalApp, text: str) -> None:
    """Show a sentence about what the user just did, also while a turn runs and the status shows the turn."""
    if app.conversation.is_running:
        app.query_one(InputHint).noted(text)
    else:
        app.note(text)
