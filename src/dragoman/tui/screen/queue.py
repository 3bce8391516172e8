"""The prompts that wait for their turn, to take one back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.text.visible import label
from dragoman.tui.screen.parts import Choice, PromptInput

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp


def choose_queued(app: TerminalApp, argument: str = "") -> None:
    """Show the prompts that wait; the chosen one is taken back into the input."""
    waiting = app.talk.queued
    if not waiting:
        app.note("nothing waits")
        return

    def take(chosen: int | None) -> None:
        if chosen is not None and app.talk.take_back(waiting[chosen]):
            app.query_one(PromptInput).text = waiting[chosen].text

    _ = app.push_screen(Choice("prompts that wait; Enter takes one back", [label(p.text, 200) for p in waiting]), take)
