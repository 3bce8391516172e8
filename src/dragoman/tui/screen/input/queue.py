"""The prompts that wait for their turn: to edit, reorder or delete them; and text for the turn that runs.

Such a text goes to the agent at once where the agent takes it, else by stopping the turn, if the user wants that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from dragoman.text.visible import label
from dragoman.tui.attachments import written_out
from dragoman.tui.screen.input.input_hint import note
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.parts import Choice, LeftOnce

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from dragoman.tui.screen.app import TerminalApp
    from dragoman.tui.values import TypedPrompt

_KEYS = "Enter edit · Shift+Up, Shift+Down (or K, J) move · d delete · Esc back"
_MOST_CHARACTERS = 1 << 20


def choose_queued(app: TerminalApp, argument: str = "") -> None:
    """Show the prompts that wait."""
    if not app.conversation.queued:
        app.note("nothing waits")
        return
    _ = app.push_screen(QueueScreen(app))


class QueueScreen(LeftOnce[None], ModalScreen[None]):
    """The prompts that wait, the next one first. It is closed when none is left."""

    DEFAULT_CSS = """
    QueueScreen { align: center middle; }
    QueueScreen OptionList { width: 90%; max-height: 80%; border: round; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape", "leave", "back"),
        Binding("shift+up,K", "move(-1)", "earlier"),
        Binding("shift+down,J", "move(1)", "later"),
        Binding("d,delete,backspace", "drop", "delete"),
        Binding("j", "step(1)", "down"),
        Binding("k", "step(-1)", "up"),
    ]

    def __init__(self, app: TerminalApp) -> None:
        super().__init__()
        self._app = app
        self._shown: list[TypedPrompt] = []

    def compose(self) -> ComposeResult:
        rows = OptionList()
        rows.border_title = Text("prompts that wait")
        rows.border_subtitle = Text(_KEYS)
        yield rows

    def on_mount(self) -> None:
        self._draw(0)
        self.set_interval(0.2, self._follow)

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)

    def _follow(self) -> None:
        """Draw the list again if a turn began while it was open: its prompt leaves the list."""
        if self._app.conversation.queued != self._shown:
            chosen = self._chosen()
            waiting = self._app.conversation.queued
            self._draw(waiting.index(chosen) if chosen in waiting else 0)

    def _draw(self, row: int) -> None:
        self._shown = self._app.conversation.queued
        if not self._shown:
            _ = self.dismiss(None)
            return
        # `Text`, not a string: markup in a prompt would be read.
        rows = [
            Option(Text(f"{number}. {'(for this turn) ' if prompt.is_steered else ''}{label(prompt.text, 200)}"))
            for number, prompt in enumerate(self._shown, 1)
        ]
        self._list.set_options(rows)
        self._list.highlighted = min(row, len(rows) - 1)

    def _chosen(self) -> TypedPrompt | None:
        row = self._list.highlighted
        return self._shown[row] if row is not None and row < len(self._shown) else None

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        prompt = self._shown[event.option_index] if event.option_index < len(self._shown) else None
        if prompt is not None and self._app.conversation.take_back(prompt):
            self._app.query_one(PromptInput).put_before(prompt.text)
            _ = self.dismiss(None)
        elif prompt is not None:
            self._app.note(prompt.place_words)
            self._follow()

    def action_move(self, step: int) -> None:
        """Let the chosen prompt run earlier or later."""
        row, order = self._list.highlighted, list(self._app.conversation.queued)
        chosen = self._chosen()
        if row is None or chosen not in order:  # its turn began since the list was drawn
            return
        place = order.index(chosen)
        other = place + step
        if 0 <= other < len(order):
            order[place], order[other] = order[other], order[place]
            _ = self._app.conversation.reorder(order)
            self._draw(other)

    def action_drop(self) -> None:
        """Delete the chosen prompt."""
        chosen, row = self._chosen(), self._list.highlighted or 0
        # Its turn may have begun since the list was drawn.
        if chosen is not None and not self._app.conversation.take_back(chosen):
            self._app.note(chosen.place_words)
        self._draw(row)

    def action_step(self, step: int) -> None:
        """Choose the next one."""
        (self._list.action_cursor_down if step > 0 else self._list.action_cursor_up)()

    def action_leave(self) -> None:
        """Close the list."""
        _ = self.dismiss(None)


def steer(app: TerminalApp, argument: str = "") -> None:
    """Pass the text of the input, or the words of the command, to the turn that runs."""
    prompt = app.query_one(PromptInput)
    text = argument.strip() or prompt.text.strip()
    if not text:
        note(app, "type what the agent should know, then Ctrl+S")
    elif not app.conversation.is_running:
        if not argument:
            _ = prompt.take_text()
        prompt.send(text)
    elif app.conversation.accepts.steer:
        if not argument:
            _ = prompt.take_text()
        _ = app.conversation.steer(text, written_out(text, prompt.chips, _MOST_CHARACTERS))
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
    sent = app.conversation.send(text, made)
    # The order is in the host before the turn ends: its end begins whatever prompt is first then.
    await app.conversation.reorder([sent, *app.conversation.queued])
    await app.conversation.cancel()
