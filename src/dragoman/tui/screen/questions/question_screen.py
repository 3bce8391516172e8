"""A permission request on the whole screen, and the line in which the user says why it is rejected.

The rules of the card hold here, too: the question must have been in sight, and read to its end for an answer that
allows. It closes by itself when the question is gone. Loaded when it is first opened: Textual's `Input` is not needed
before that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from dragoman.tui.screen.parts import LeftOnce
from dragoman.tui.screen.questions.card import QuestionCard

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from dragoman.tui.screen.app import TerminalApp
    from dragoman.tui.values import AskedQuestion


class QuestionScreen(LeftOnce[None], ModalScreen[None]):
    """The whole question."""

    DEFAULT_CSS = """
    QuestionScreen QuestionCard { height: 100%; width: 100%; }
    """
    BINDINGS: ClassVar[list[Any]] = [Binding("escape", "leave", "back"), Binding("tab", "leave", "back")]

    def __init__(self, app: TerminalApp, question: AskedQuestion) -> None:
        super().__init__()
        self._terminal = app
        self._question = question

    def compose(self) -> ComposeResult:
        yield QuestionCard(glyphs=self._terminal.glyphs, is_whole_screen=True, id="whole")

    def on_mount(self) -> None:
        card = self.query_one(QuestionCard)
        card.clock = self._terminal.cards.clock
        card.show(self._question)
        card.focus()
        self.set_interval(0.1, self._look)

    def _look(self) -> None:
        # Another client may answer it, or the agent take it back, at any time; the user may also leave just now.
        if self._question not in self._terminal.conversation.questions:
            _ = self.dismiss(None)

    def on_key(self, event: events.Key) -> None:
        if event.key == "v":
            event.stop()
            _ = self.dismiss(None)
        elif self._terminal.cards.question_key(self.query_one(QuestionCard), event):
            event.stop()

    def action_leave(self) -> None:
        """Go back to the card."""
        _ = self.dismiss(None)


class ReasonScreen(LeftOnce[str | None], ModalScreen[str | None]):
    """The line in which the user says why a question is rejected; Esc leaves the question open."""

    DEFAULT_CSS = """
    ReasonScreen { align: center bottom; }
    ReasonScreen Label { width: 100%; }
    ReasonScreen Input { width: 100%; }
    """
    BINDINGS: ClassVar[list[Any]] = [Binding("escape", "leave", "back")]

    def __init__(self, question: AskedQuestion) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        how = "with the answer" if self._question.details.reads_reasons else "as the next prompt"
        yield Label(f"Why not? It is sent to the agent {how}. Enter rejects, Esc goes back.", markup=False)
        yield Input(compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        if text:
            _ = self.dismiss(text)

    def action_leave(self) -> None:
        """Answer nothing."""
        _ = self.dismiss(None)


def open_question(app: TerminalApp, question: AskedQuestion) -> None:
    """Show a question on the whole screen."""
    _ = app.push_screen(QuestionScreen(app, question))


def ask_reason(app: TerminalApp, question: AskedQuestion) -> None:
    """Reject a question with a reason."""
    if question.rejecting is None:
        app.note("the agent offers no answer that rejects this")
        return

    def say(reason: str | None) -> None:
        # The question may have been closed elsewhere while the reason was typed.
        if reason is not None and not app.conversation.reject(question, reason):
            app.note("the question is not open any more; nothing was answered")

    _ = app.push_screen(ReasonScreen(question), say)
