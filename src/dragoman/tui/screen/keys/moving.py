"""Keys that move the keyboard between the parts of the screen, and that open and scroll what has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.tui.screen.conversation.transcript import Transcript
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.questions.action_card import ActionCard
from dragoman.tui.screen.questions.card import CardView, QuestionCard

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp


def move_focus(app: TerminalApp, argument: str) -> None:
    """Move from the input to the question or the conversation, and back."""
    if len(app.screen_stack) > 1:
        app.screen.focus_next()
        return
    card, action = app.query_one("#card", QuestionCard), app.query_one(ActionCard)
    transcript, prompt = app.query_one(Transcript), app.query_one(PromptInput)
    if prompt.has_focus and prompt.accept_suggestion():
        return
    if prompt.has_focus:
        (card if card.display else action if action.display else transcript).focus()
    elif card.has_focus or action.has_focus:
        transcript.focus()
    else:
        prompt.focus()


def toggle_open(app: TerminalApp, argument: str) -> None:
    """Open or close thoughts and long outputs."""
    app.query_one(Transcript).toggle_open()


def page_up(app: TerminalApp, argument: str) -> None:
    """Scroll the question if it has the keyboard, else the conversation."""
    _scrolled(app).scroll_page_up(animate=False)


def page_down(app: TerminalApp, argument: str) -> None:
    """The same, down."""
    _scrolled(app).scroll_page_down(animate=False)


def _scrolled(app: TerminalApp) -> CardView | Transcript:
    focused = app.focused
    return focused if isinstance(focused, CardView) else app.query_one(Transcript)
