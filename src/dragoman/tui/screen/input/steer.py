"""Text for the turn that runs: at once where the agent takes it, else by stopping the turn, if the user wants that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.tui.attachments import written_out
from dragoman.tui.screen.input.input_hint import note
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.parts import Choice

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp

_MOST_CHARACTERS = 1 << 20


def steer(app: TerminalApp, argument: str = "") -> None:
    """Pass the text of the input, or the words of the command, to the turn that runs."""
    prompt = app.query_one(PromptInput)
    text = argument.strip() or prompt.text.strip()
    if not text:
        note(app, "type what the agent should know, then Ctrl+S")
    elif not app.talk.is_running:
        if not argument:
            _ = prompt.take_text()
        prompt.send(text)
    elif app.talk.accepts.steer:
        if not argument:
            _ = prompt.take_text()
        _ = app.talk.steer(text, written_out(text, prompt.chips, _MOST_CHARACTERS))
        note(app, "passed to the turn that runs; it is the next prompt if the agent does not take it")
    else:
        _offer(app, text, is_typed=not argument)


def _offer(app: TerminalApp, text: str, *, is_typed: bool) -> None:
    rows = ["wait for the end of the turn", "stop the turn and send this now", "back to the draft"]

    def use(chosen: int | None) -> None:
        prompt = app.query_one(PromptInput)
        if chosen not in (0, 1):
            if not is_typed:
                prompt.put_before(text)
            return
        if is_typed:
            _ = prompt.take_text()
        if chosen == 1:
            app.start(stop_and_send(app, text))
        else:
            prompt.send(text)

    _ = app.push_screen(Choice("this agent takes no text while it works", rows), use)


async def stop_and_send(app: TerminalApp, text: str) -> None:
    """Stop the turn, and let this prompt be the next one, before those that wait."""
    prompt = app.query_one(PromptInput)
    made = await prompt.build(text)
    sent = app.talk.send(text, made)
    await app.talk.reorder([sent, *app.talk.queued])
    await app.talk.cancel()
