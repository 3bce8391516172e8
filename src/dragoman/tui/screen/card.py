"""The card of a permission request. It never takes the keyboard by itself, and no key answers it by accident.

An answer counts when the user moved into the card and typed its number, or pressed Alt with the number; when the card
was in sight for 0.4 seconds; and, for an answer that allows, when its last line was shown. Nothing is chosen at first.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dragoman.text.colour import Painter
from dragoman.tui.question_lines import question_lines
from dragoman.tui.screen.strips import strip_of

if TYPE_CHECKING:
    from textual import events

    from dragoman.tui.values import AskedQuestion
    from dragoman.view.rails import RailLine

PAUSE_SECONDS: Final = 1.0
"""After a question is gone its place stays empty so long: a key that was meant for it cannot answer the next one."""
_PLAIN: Final = Painter(False)


class QuestionCard(ScrollView, can_focus=True):
    """Shows the first open question."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.question: AskedQuestion | None = None
        self.problem = ""
        self._lines: list[RailLine] = []
        self._seen = 0  # lines that were in sight
        self._painted_at: float | None = None
        self._gone_at = 0.0

    def show(self, question: AskedQuestion | None) -> bool:
        """Show a question, or none. False if a question must wait, because another one was here a moment ago."""
        if question is self.question:
            return True
        if question is not None and monotonic() - self._gone_at < PAUSE_SECONDS:
            return False
        if self.question is not None:
            self._gone_at = monotonic()
        self.question, self.problem = question, ""
        self._seen, self._painted_at = 0, None
        self._lay_out()
        self.display = question is not None
        self.scroll_home(animate=False, immediate=True)
        return True

    @property
    def is_read(self) -> bool:
        """Whether the last line was in sight."""
        return self._seen >= len(self._lines)

    def choose(self, number: int, now: float) -> str | None:
        """The id of the answer with a number, if it counts; `problem` says why not."""
        question = self.question
        if question is None:
            return None
        if self._painted_at is None or now - self._painted_at < 0.4:
            self.problem = "that was too soon: read the question first"
        elif not 1 <= number <= len(question.options):
            self.problem = f"the answers are 1 to {len(question.options)}"
        elif str(question.options[number - 1].kind).startswith("allow") and not self.is_read:
            self.problem = "scroll to the end of the question first"
        else:
            return question.options[number - 1].option_id
        self.refresh()
        return None

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, height = self.size.width, self.size.height
        if self.question is None:
            return Strip.blank(width)
        if y == height - 1:
            return strip_of(self._footer(), width)
        line = y + round(self.scroll_offset.y)
        if line >= len(self._lines):
            return Strip.blank(width)
        self._seen = max(self._seen, line + 1)
        if self._painted_at is None:
            self._painted_at = monotonic()
        return strip_of(self._lines[line], width)

    def _footer(self) -> RailLine:
        top = round(self.scroll_offset.y)
        shown = min(len(self._lines), top + self.size.height - 1)
        place = f"line {top + 1}-{shown} of {len(self._lines)}" if shown < len(self._lines) or top else ""
        if self.problem:
            return ((f"  {self.problem}", "warn"),)
        how = "type the number of an answer" if self.has_focus else "Tab, then the number; or Alt+number"
        return ((f"  {how}", "dim"), (f"   {place}", "dim"))

    def _lay_out(self) -> None:
        if self.question is None:
            self._lines = []
            return
        width = max(20, self.size.width - 2 if self.size.width else 78)
        *lines, _ = question_lines(self.question.request, width, _PLAIN)
        self._lines = [
            ((f"◆ {line}" if not number else f"│ {line}", "warn" if not number else ""),)
            for number, line in enumerate(lines)
        ]
        self.virtual_size = Size(width, len(self._lines) + 1)
        self.styles.height = min(len(self._lines) + 1, 14)
        self.refresh()
