"""What the keys of the live region do.

A permission is answered by a letter or number in an empty input if nothing is typed behind it, by the same after Tab,
or by Alt+number. One that came too soon after the question, or after another question left its place, is refused, or
typed.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from prompt_toolkit.filters import Always, Condition
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys

from dragoman.errors import DragomanError
from dragoman.tui.question_lines import answer_named
from dragoman.tui.values import HOLD_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dragoman.tui.inline.terminal import InlineTerminal
    from dragoman.tui.values import AskedQuestion

TWICE_SECONDS: Final = 2.0
"""So soon after the first Ctrl+C the second one leaves."""
_TAKING_SECONDS: Final = 0.02  # until a key behind Enter looks again whether its line was taken
_MOST_TRIES: Final = 25
EMPTY_SECONDS: Final = 1.0
"""For so long the place of a question that was closed stays empty: a key meant for it must not hit the next one."""
HELP: Final = (
    ("y, a, n, 1-9", "answer the question that is open, with an empty input: once, always, no, a row of it"),
    ("w, v", "the same: reject and say why; print it again"),
    ("Alt+number; Tab, then it", "answer also with a draft in the input"),
    ("Esc", "close what is open; else stop the turn: what waits is back in the input"),
    ("Ctrl+C", "stop what runs; else clear the draft; else, twice, leave"),
    ("Ctrl+J, Alt+Enter", "new line; also \\ before Enter"),
    ("/ @ !", "commands, files, a shell command; Enter or Tab takes the marked row of the menu"),
    ("Up Down", "the prompt that waits last; what was sent before; Ctrl+R finds the words of the input"),
    ("Ctrl+T", "print the last thought or long output whole"),
    ("Shift+Tab", "the next mode"),
    ("Ctrl+G", "edit the draft in $VISUAL or $EDITOR"),
    ("Ctrl+S", "pass the text to the turn that runs"),
    ("Ctrl+V, Alt+V", "attach the image in the clipboard"),
    ("Ctrl+L", "draw the live lines again"),
    ("Ctrl+Z", "stop this program; fg brings it back"),
    ("Ctrl+D", "leave, with an empty input; the work goes on, or is stopped, as you choose"),
    ("?, F1", "this list; ? in an empty input"),
)


def key_bindings(terminal: InlineTerminal) -> KeyBindings:
    """Return the keys. Those of a shell (Ctrl+A E K U W Y, Alt+B F) are prompt_toolkit's own."""
    keys = KeyBindings()
    acts = _Acts(terminal)
    answering = Condition(lambda: terminal.is_answering and not terminal.is_leaving)
    leaving = Condition(lambda: terminal.is_leaving)
    typing, always = ~answering & ~leaving, Always()
    for digit in "123456789":
        _ = keys.add("escape", digit, filter=~leaving)(lambda event, number=int(digit): acts.answer(number))
        _ = keys.add(digit, filter=answering)(lambda event, number=int(digit): acts.answer(number))
    for letter in "yanwv":
        _ = keys.add(letter, filter=answering)(lambda event, letter=letter: acts.letter(letter))
    for letter in "yanwv123456789":
        held = Condition(partial(acts.may_answer, letter))
        _ = keys.add(letter, filter=held & typing)(lambda event, letter=letter: acts.hold(letter))
    for key in (Keys.Any, "enter", "backspace"):
        _ = keys.add(key, filter=answering)(lambda event: acts.remind())
        _ = keys.add(key, filter=leaving)(lambda event: None)
    _ = keys.add("tab", filter=answering)(lambda event: acts.leave_answers())
    for key in ("d", "s"):
        _ = keys.add(key, filter=leaving)(lambda event, key=key: terminal.leave_as_answered(key))
    is_empty = Condition(lambda: not terminal.editor.text)
    _ = keys.add("?", filter=typing & is_empty)(acts.help)
    for name, sequences in _TYPING.items():
        for sequence in sequences:
            _ = keys.add(*sequence, filter=typing)(getattr(acts, name))
    for name, sequences in _ALWAYS.items():
        for sequence in sequences:
            _ = keys.add(*sequence, filter=always if name in _LEAVING else ~leaving)(getattr(acts, name))
    return keys


_TYPING: Final[dict[str, list[tuple[str, ...]]]] = {
    "enter": [("enter",)],
    "new_line": [("escape", "enter"), ("c-j",)],
    "tab": [("tab",)],
    "up": [("up",)],
    "down": [("down",)],
    "search": [("c-r",)],
    "delete_before": [("backspace",)],
}
_ALWAYS: Final[dict[str, list[tuple[str, ...]]]] = {
    "paste": [(Keys.BracketedPaste,)],
    "escape": [("escape",)],
    "interrupt": [("c-c",)],
    "end": [("c-d",)],
    "steer": [("c-s",)],
    "whole": [("c-t",)],
    "mode": [("s-tab",)],
    "edit": [("c-g",)],
    "attach_image": [("c-v",), ("escape", "v")],
    "redraw": [("c-l",)],
    "help": [("f1",)],
    "suspend": [("c-z",)],
}
_LEAVING: Final = ("escape", "interrupt", "end", "redraw", "suspend")
"""Keys that also work while it is asked whether the turn goes on."""


class _Acts:
    """What each key does."""

    def __init__(self, terminal: InlineTerminal) -> None:
        self._terminal = terminal
        self._client = terminal.client
        self._editor = terminal.editor
        self._held: tuple[str, AskedQuestion | None] | None = None
        """A letter that may answer a question, if nothing is typed behind it."""
        terminal.editor.buffer.on_text_changed += self._forget_held

    def _forget_held(self, buffer: Any) -> None:
        self._held = None

    # In the question

    def answer(self, number: int) -> None:
        """Answer the first question that is open."""
        client, terminal = self._client, self._terminal
        # One that was answered a moment ago stays in the list until its task has run; a second key must not hit it.
        waiting = [question for question in client.conversation.questions if not question.answer.done()]
        if client.conversation.clock() - client.withdrawn_at < EMPTY_SECONDS:
            terminal.hint("the question before was just closed; answer again")
        elif waiting:
            client.answers.answer(waiting[0], number)
        else:
            terminal.hint("no question is open")

    def letter(self, letter: str) -> None:
        """Do what a letter or number means for the first question that is open."""
        answers = self._client.answers
        question = answers.open_question
        number = None if question is None else answer_named(question.request, letter)
        if number is not None:
            self.answer(number)
        elif letter == "v":
            answers.show_again()
        elif letter == "w" and question is not None and question.rejecting is not None:
            # The reason is typed into the input, and Enter sends it; the draft is not lost, but comes after it.
            self._terminal.is_answering = False
            self._editor.put_before("/why ")
        else:
            self.remind()

    def may_answer(self, letter: str) -> bool:
        """Return whether a letter in the input may be an answer: it is empty, and the question could be read."""
        client, question = self._client, self._client.answers.open_question
        now = client.conversation.clock()
        if question is None or self._editor.text or now - client.withdrawn_at < EMPTY_SECONDS:
            return False
        has_meaning = letter == "v" or answer_named(question.request, letter) is not None
        has_meaning = has_meaning or (letter == "w" and question.rejecting is not None)
        return has_meaning and question.is_settled(now)

    def hold(self, letter: str) -> None:
        """Type a letter. If nothing follows it, it is taken out again, and answers."""
        buffer, question = self._editor.buffer, self._client.answers.open_question
        buffer.insert_text(letter)
        self._held = held = (letter, question)

        def release() -> None:
            is_same = self._held is held and self._editor.text == letter
            self._held = None
            if is_same and self._client.answers.open_question is question:
                self._editor.put("")
                self.letter(letter)

        asyncio.get_running_loop().call_later(HOLD_SECONDS, release)

    def remind(self) -> None:
        """Take a key that answers nothing."""
        self._terminal.hint("type the letter or number of an answer, or Esc to go back to the input")

    def leave_answers(self) -> None:
        """Back to the input."""
        self._terminal.is_answering = False

    # In the input

    def enter(self, event: Any) -> None:
        if self._held is not None:
            return  # as in lines; a letter alone is not a prompt while it may be an answer
        if self._editor.accept(by_enter=True) or self._editor.begin_line():
            return
        text = self._editor.take()
        if text or self._client.answers.is_filling or self._client.is_choosing:
            self._terminal.submit(text)

    def new_line(self, event: Any) -> None:
        self._editor.buffer.insert_text("\n")

    def tab(self, event: Any) -> None:
        if not self._editor.accept() and self._client.conversation.questions:
            self._terminal.is_answering = True

    def up(self, event: Any) -> None:
        editor = self._editor
        if editor.rows:
            editor.move(-1)
        elif editor.buffer.document.on_first_line:
            if editor.text or not editor.take_back_last():
                editor.older()
        else:
            editor.buffer.cursor_up()

    def down(self, event: Any) -> None:
        editor = self._editor
        if editor.rows:
            editor.move(1)
        elif editor.buffer.document.on_last_line:
            editor.newer()
        else:
            editor.buffer.cursor_down()

    def search(self, event: Any) -> None:
        if not self._editor.search():
            self._terminal.hint("nothing older has these words")

    def delete_before(self, event: Any) -> None:
        self._editor.delete_before()

    # Everywhere

    def paste(self, event: Any) -> None:
        self._terminal.is_answering = False
        self._editor.paste(event.data)

    def escape(self, event: Any) -> None:
        terminal = self._terminal
        if terminal.is_leaving:
            terminal.stay()
        elif terminal.is_answering:
            terminal.is_answering = False
        elif not self._editor.dismiss():
            _ = self._client.interrupt()

    def interrupt(self, event: Any, tries: int = 0) -> None:
        """Stop what runs; else clear the draft; else leave at the second time."""
        terminal = self._terminal
        if terminal.has_lines and tries < _MOST_TRIES:  # what Enter sent before this key is what runs
            later = asyncio.get_running_loop().call_later
            _ = later(_TAKING_SECONDS, self.interrupt, event, tries + 1)
            return
        now, before = self._client.conversation.clock(), terminal.interrupted_at
        terminal.interrupted_at = -TWICE_SECONDS
        terminal.stay()
        if self._client.interrupt() or self._editor.stop_listing():
            terminal.is_answering = False
        elif self._editor.take():
            terminal.hint("cleared; Up brings it back", TWICE_SECONDS)
        elif now - before < TWICE_SECONDS:
            terminal.leave()
        else:
            terminal.interrupted_at = now
            terminal.hint("Ctrl+C again to leave", TWICE_SECONDS)

    def end(self, event: Any) -> None:
        if self._terminal.is_leaving:
            self._terminal.leave_as_answered("d")
        elif self._editor.text:
            _ = self._editor.buffer.delete()
        else:
            self._terminal.ask_to_leave("")

    def help(self, event: Any) -> None:
        self._terminal.submit("/help")

    def attach_image(self, event: Any) -> None:
        self._terminal.submit("/dragoman:paste")

    def redraw(self, event: Any) -> None:
        """Draw the live lines again; what was printed above them is the terminal's."""
        event.app.renderer.erase()
        event.app.invalidate()

    def steer(self, event: Any) -> None:
        text = self._editor.take()
        if text:
            self._terminal.submit(f"/dragoman:steer {text}")

    def whole(self, event: Any) -> None:
        self._client.write(*(self._terminal.whole() or ["note: nothing was shortened"]))

    def mode(self, event: Any) -> None:
        self._terminal.start(next_mode(self._terminal))

    def edit(self, event: Any) -> None:
        self._terminal.start(_edit(self._terminal))

    def suspend(self, event: Any) -> None:
        self._terminal.save()
        event.app.suspend_to_background()


async def next_mode(terminal: InlineTerminal) -> None:
    """Go to the next mode. Raises: DragomanError."""
    from dragoman.tui.mode_gate import none_follows
    from dragoman.tui.option_values import modes_of
    from dragoman.tui.remembered_values import set_and_remember

    client = terminal.client
    values = modes_of(client.conversation.state)
    if not values:
        terminal.hint("the agent has no modes")
        return
    following = client.modes.next(client.conversation)
    if following is None:
        terminal.hint(none_follows(values))
        return
    await set_and_remember(client.conversation, client.preferences, following, client.note)


async def _edit(terminal: InlineTerminal) -> None:
    """Let the user edit the draft in an editor, which has the terminal meanwhile."""
    import os

    from dragoman.tui.external import edit_text

    async def edit() -> str | None:
        return await edit_text(terminal.editor.text, os.environ)

    edited = await _outside(terminal, edit)
    if edited is not None:
        terminal.editor.put(edited)


async def _outside(terminal: InlineTerminal, work: Callable[[], Awaitable[str | None]]) -> str | None:
    from prompt_toolkit.application.run_in_terminal import in_terminal

    terminal.save()
    try:
        async with in_terminal():
            return await work()
    except (DragomanError, OSError) as error:
        terminal.client.note(str(error))
        return None
