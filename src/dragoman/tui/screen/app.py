"""The full screen: header, conversation, card, status, input, footer.

Keys follow one rule: while the input has the keyboard, printable keys only type, and no key that one may press while
typing answers a question. What the agent does is up to the conversation; the screen only draws it, at most twenty
times a second.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from textual.app import App
from textual.css.query import NoMatches

from dragoman.errors import DragomanError
from dragoman.text.terminal import duration, one_line, size
from dragoman.text.visible import label
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.screen.action_card import ActionCard
from dragoman.tui.screen.actions import ACTIONS, action_named, load_function
from dragoman.tui.screen.card import CardView, QuestionCard
from dragoman.tui.screen.input_hint import note
from dragoman.tui.screen.parts import OneLine
from dragoman.tui.screen.pasted_keys import guard_pastes
from dragoman.tui.screen.prompt_input import PromptInput, input_parts
from dragoman.tui.screen.shell_panel import ShellPanel
from dragoman.tui.screen.transcript import Transcript
from dragoman.view.rails import UNICODE

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.app import ComposeResult

    from dragoman.tui.conversation import Opening
    from dragoman.tui.screen.action_card import CardSheet
    from dragoman.tui.values import AskedQuestion, OpenForm, TypedPrompt
    from dragoman.view.rails import Glyphs, RailLine

_PAINTS: Final = 20
_LEAVE_SECONDS: Final = 2.0  # between two times Ctrl+C
_ESCAPES_SECONDS: Final = 0.6  # between two times Esc, which open the rewind menu


def _keep_alt_digits() -> None:
    """Let Alt with a digit arrive as such: Textual turns it into the letter of a Mac keyboard.

    Answering to those letters instead would let a letter that a user types answer a question.
    """
    from textual import _ansi_sequences

    for number in range(1, 10):
        _ansi_sequences.ANSI_SEQUENCES_KEYS.pop(f"\x1b{number}", None)  # type: ignore[attr-defined]


class TerminalApp(App[None]):
    """The terminal client."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Transcript { height: 1fr; scrollbar-size-vertical: 1; }
    #card, #action { display: none; height: auto; }
    #rule { height: 1; }
    """

    def __init__(
        self, opening: Opening, *, session_id: str | None = None, first: str | None = None, glyphs: Glyphs = UNICODE
    ) -> None:
        _keep_alt_digits()
        guard_pastes()
        super().__init__(ansi_color=True)
        self.talk = HostedConversation(opening, self, session_id=session_id)
        self._first = first
        self._glyphs = glyphs
        self.clock: Callable[[], float] = monotonic
        """The time that cards go by."""
        self._sheet: CardSheet | None = None
        self._is_dirty = True
        self._is_reloaded = True
        self._notes: list[tuple[float, str]] = []
        self._interrupted_at = 0.0
        self._escaped_at = 0.0
        self._rows: list[Any] = []
        self._work: set[asyncio.Task[Any]] = set()
        self._seconds = -1
        self.is_mouse_released = False
        self.is_outside = False
        """Another program has the terminal: nothing may be written, since nothing takes it."""
        for action in ACTIONS:
            for key in action.keys:
                self._bindings.key_to_bindings.pop(key, None)  # Textual's own, such as Ctrl+Q
                self._bindings.bind(key, f"do('{action.name}')", action.help, show=False, priority=action.is_priority)
        for number in range(1, 10):
            self._bindings.bind(f"alt+{number}", f"answer({number})", "answer", show=False, priority=True)

    @property
    def glyphs(self) -> Glyphs:
        """The signs of this terminal, for the other screens."""
        return self._glyphs

    # Textual

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether an action is possible: behind another screen only leaving is, and no question is answered unseen."""
        if len(self.screen_stack) > 1 and action in ("do", "answer"):
            return parameters[:1] in (("interrupt",),)
        return super().check_action(action, parameters)

    def compose(self) -> ComposeResult:
        yield OneLine(id="header")
        yield Transcript(self._glyphs, id="transcript")
        yield QuestionCard(glyphs=self._glyphs, id="card")
        yield ActionCard(glyphs=self._glyphs, id="action")
        yield OneLine(id="status")
        yield OneLine(id="rule")
        yield from input_parts(lambda: self.talk)
        yield OneLine(id="footer")

    def on_mount(self) -> None:
        if self._first:
            _ = self.talk.send(self._first)
        self.start(self.talk.run())
        self.query_one(PromptInput).focus()
        self.set_interval(1 / _PAINTS, self._paint)
        self.call_after_refresh(load_function("dragoman.tui.screen.outside:end_on_hangup"), self)

    async def on_unmount(self) -> None:
        await self.talk.leave()
        for task in self._work:
            task.cancel()

    def on_key(self, event: events.Key) -> None:
        if len(self.screen_stack) > 1:
            return
        card, action = self.query_one("#card", QuestionCard), self.query_one(ActionCard)
        if card.has_focus:
            event.stop()
            self.question_key(card, event)
        elif action.has_focus:
            event.stop()
            self._sheet_key(action, event)
        elif self.query_one(Transcript).has_focus and event.is_printable and event.character not in (None, " "):
            self.query_one(PromptInput).focus()

    def on_prompt_input_sent(self, event: PromptInput.Sent) -> None:
        word, _, argument = event.text[1:].partition(" ") if event.text.startswith("/") else ("", "", "")
        action = self._own_command(word)
        if action is not None:
            self.action_do(action, argument.strip())
            return
        _ = self.talk.send(event.text, event.blocks)
        self.query_one(ShellPanel).close()
        self.query_one(Transcript).follow()

    def on_prompt_input_noted(self, event: PromptInput.Noted) -> None:
        note(self, event.text)

    def on_completion_menu_clicked(self) -> None:
        _ = self.query_one(PromptInput).accept_suggestion()

    def write_terminal(self, text: str) -> None:
        """Send our own escape sequences to the terminal; nothing of others gets here."""
        if not self.is_headless and self._driver is not None and not self.is_outside:
            self._driver.write(text)
            self._driver.flush()

    def bell(self) -> None:
        if not self.is_outside:
            super().bell()

    # What the conversation calls

    def changed(self) -> None:
        self._is_dirty = True

    def reloaded(self) -> None:
        self._is_reloaded = self._is_dirty = True

    def asked(self, question: AskedQuestion) -> None:
        self._is_dirty = True
        self.bell()

    def withdrawn(self, question: AskedQuestion, why: str) -> None:
        self.query_one("#card", QuestionCard).closing = why
        self.note(f"the question is closed: {why}")

    def form(self, form: OpenForm) -> None:
        self._is_dirty = True
        self.bell()

    def form_withdrawn(self, form: OpenForm) -> None:
        self.note("the form is closed: the agent took it back, or another client answered it")

    def ended(self, prompt: TypedPrompt | None, stop_reason: str | None, error: str) -> None:
        if error:
            self.note(error)
            self._sheet = None
        if not self.app_focus:
            self.bell()
        self._is_dirty = True

    def note(self, text: str) -> None:
        self._notes = [*self._notes[-20:], (monotonic(), one_line(text))]
        self._is_dirty = True

    # Drawing

    def _paint(self) -> None:
        with suppress(NoMatches):  # while the screen is taken down, its parts are gone one after the other
            self._paint_parts()

    def _paint_parts(self) -> None:
        started = self.talk.started_at
        seconds = -1 if started is None else int(monotonic() - started)
        if (not self._is_dirty and seconds == self._seconds) or self._batch_count:
            return
        self._is_dirty, self._seconds = False, seconds
        self.query_one(Transcript).show_state(self.talk.state, is_new=self._is_reloaded)
        self._is_reloaded = False
        self._paint_cards()
        self.query_one("#header", OneLine).show(self._header())
        self.query_one("#status", OneLine).show(self._status())
        self.query_one("#rule", OneLine).show((("─" * self.size.width, "dim"),))
        self.query_one("#footer", OneLine).show(self._footer())

    def _paint_cards(self) -> None:
        card, action = self.query_one("#card", QuestionCard), self.query_one(ActionCard)
        card.clock = action.clock = self.clock
        had_focus = card.has_focus or action.has_focus
        questions = self.talk.questions
        if not card.show(questions[0] if questions else None, len(questions)):
            self._is_dirty = True  # its place stays empty for a moment
        sheet = self._current_sheet()
        action.show(None if card.display else sheet)
        if not card.display and not action.display and (had_focus or self.focused is None):
            self.query_one(PromptInput).focus()

    def _current_sheet(self) -> CardSheet | None:
        """What the second card shows: a form that waits, what a command put there, or a failure."""
        if self.talk.forms:
            from dragoman.tui.screen.form import form_sheet

            return form_sheet(self, self.talk.forms[0])
        if self._sheet is not None:
            return self._sheet
        if self.talk.trouble is None and not self.talk.silence_seconds:
            return None
        from dragoman.tui.screen.failure import failure_sheet

        return failure_sheet(self)

    def put_sheet(self, sheet: CardSheet | None) -> None:
        """Show a sheet in the card, or none."""
        self._sheet = sheet
        self._is_dirty = True

    def _header(self) -> RailLine:
        talk, state = self.talk, self.talk.state
        left = f" {label(os.path.basename(talk.folder) or talk.folder, 30)}"
        if state.title:
            left += f" · {label(state.title, 40)}"
        parts = [label(talk.agent.partition(" ")[0], 20, "")]
        if state.modes is not None and state.mode is not None:
            parts.append(next((label(m.name, 20) for m in state.modes.available_modes if m.id == state.mode), ""))
        usage = state.usage
        if usage is not None and usage.size:
            parts.append(f"ctx {round(100 * usage.used / usage.size)}%")
        if state.cost is not None and state.cost.amount:
            parts.append(f"{state.cost.amount:.2f} {label(state.cost.currency, 4)}")
        right = "  ".join(filter(None, parts)) + " "
        space = max(1, self.size.width - len(left) - len(right))
        return ((left, "bold"), (" " * space, ""), (right, "dim"))

    def _status(self) -> RailLine:
        talk, glyphs = self.talk, self._glyphs
        recent = [text for when, text in self._notes if monotonic() - when < 30]
        if talk.phase == "failed":
            shown = recent[-1] if recent else one_line(talk.failure)
            return ((f"  {glyphs.failed} {shown}", "bad"),)
        if talk.phase != "ready":
            word = {
                "connecting": "starting",
                "opening": "starting the agent",
                "lost": "the host is gone, looking for it",
            }
            return ((f"  {glyphs.offline} {word[talk.phase]}", "warn"),)
        waiting = f" · {len(talk.queued)} queued" if talk.queued else ""
        if talk.questions or talk.forms:
            return ((f"  {glyphs.needs_you} needs your answer{waiting}", "warn"),)
        if talk.is_running:
            step = self._step()
            return ((f"  {glyphs.running} working {duration(max(0, self._seconds))}{step}{waiting}", "warn"),)
        return ((f"  {recent[-1]}" if recent else "", "dim"),)

    def _step(self) -> str:
        plan = self.talk.state.plan
        done = sum(entry.status == "completed" for entry in plan)
        current = next((entry.content for entry in plan if entry.status == "in_progress"), "")
        return f" · step {done + 1} of {len(plan)}: {label(current, 40)}" if current else ""

    def _footer(self) -> RailLine:
        unseen = self.query_one(Transcript).unseen
        new = f" {size(unseen)} new lines, End to follow · " if unseen else " "
        keys = "Enter queue  Esc stop" if self.talk.is_running else "Enter send"
        return ((f"{new}{keys}  Tab question, blocks  Ctrl+P sessions  F1 help  Ctrl+D leave", "dim"),)

    # Actions

    def _own_command(self, word: str) -> str | None:
        """The action that a slash command of this client names. A command of the agent with that name goes first."""
        own = word.removeprefix("dragoman:")
        if own == word and any(each.name == word for each in self.talk.state.commands):
            return None
        found = action_named(own)
        return None if found is None else found.name

    def action_do(self, name: str, argument: str = "") -> None:
        """Do what a key or a slash command asks for, when the input has taken what was typed before that key."""
        prompt = self.query_one(PromptInput) if len(self.screen_stack) == 1 else None
        if prompt is None or not prompt.has_focus:
            self._do(name, argument)
        else:
            _ = prompt.call_later(self._do, name, argument)

    def _do(self, name: str, argument: str) -> None:
        action = action_named(name)
        if action is None:
            return
        if not action.run:
            getattr(self, f"action_{action.name}")(argument)
        else:
            load_function(action.run)(self, argument)

    def start(self, work: Any) -> None:
        """Run a coroutine next to the screen; its errors become a note."""
        task = asyncio.ensure_future(self._guarded(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except DragomanError as error:
            self.note(str(error))

    def action_stop(self, argument: str = "") -> None:
        """Stop the turn that runs; without one, twice in a row with an empty input opens the rewind menu."""
        if self.talk.is_running or self.query_one(PromptInput).text:
            self._escaped_at = 0.0
            self.start(self.talk.cancel())
            return
        now = monotonic()
        if now - self._escaped_at < _ESCAPES_SECONDS:
            self._escaped_at = 0.0
            self.action_do("rewind")
        else:
            self._escaped_at = now

    def action_interrupt(self, argument: str = "") -> None:
        """Leave at the second time; a draft is cleared at the first."""
        now = monotonic()
        if now - self._interrupted_at < _LEAVE_SECONDS:
            self.exit()
            return
        self._interrupted_at = now
        self.note("Ctrl+C again leaves; the work goes on")

    def action_leave(self, argument: str = "") -> None:
        """Leave, if the input is empty."""
        if self.query_one(PromptInput).text:
            self.note("there is a draft: Ctrl+C twice leaves, Ctrl+U removes it")
        else:
            self.exit()

    def action_open(self, argument: str = "") -> None:
        """Open or close thoughts and long outputs."""
        self.query_one(Transcript).toggle_open()

    def action_walk(self, argument: str = "") -> None:
        """Move from the input to the question or the conversation, and back."""
        if len(self.screen_stack) > 1:
            self.screen.focus_next()
            return
        card, action = self.query_one("#card", QuestionCard), self.query_one(ActionCard)
        transcript, prompt = self.query_one(Transcript), self.query_one(PromptInput)
        if prompt.has_focus and prompt.accept_suggestion():
            return
        if prompt.has_focus:
            (card if card.display else action if action.display else transcript).focus()
        elif card.has_focus or action.has_focus:
            transcript.focus()
        else:
            prompt.focus()

    def action_page_up(self, argument: str = "") -> None:
        """Scroll the question if it has the keyboard, else the conversation."""
        self._scrolled().scroll_page_up(animate=False)

    def action_page_down(self, argument: str = "") -> None:
        """The same, down."""
        self._scrolled().scroll_page_down(animate=False)

    def _scrolled(self) -> CardView | Transcript:
        focused = self.focused
        return focused if isinstance(focused, CardView) else self.query_one(Transcript)

    # Cards

    def action_answer(self, number: int) -> None:
        """Answer the question in sight with a number, from wherever the keyboard is."""
        found = self.screen.query(QuestionCard)
        if found:
            self._answer(found.first(), number, self.clock())

    def _answer(self, card: QuestionCard, number: int, read_at: float) -> None:
        question, option = card.question, card.choose(number, read_at)
        if question is not None and option is not None:
            card.closing = f"answered: {label(question.options[number - 1].name, 60)}"
            self.query_one("#card", QuestionCard).closing = card.closing
            self.talk.answer(question, option)
        self._is_dirty = True

    def question_key(self, card: QuestionCard, event: events.Key) -> bool:
        """A key in the card of a question; False if it means nothing there."""
        read_at = self._read_at(event)
        key, question = event.key, card.question
        if question is None:
            return False
        if key.isdigit() and len(key) == 1:
            self._answer(card, int(key), read_at)
        elif key in ("up", "down"):
            card.select(-1 if key == "up" else 1)
        elif key == "enter":
            if card.selected is None:
                card.problem = "choose an answer first: Up, Down, or its number"
                card.refresh()
            else:
                self._answer(card, card.selected, read_at)
        elif key == "v" and card.id == "card":
            load_function("dragoman.tui.screen.question_screen:open_question")(self, question)
        elif key == "w" and card.is_settled(read_at):
            load_function("dragoman.tui.screen.question_screen:ask_reason")(self, question)
        else:
            return card.scroll_key(key)
        return True

    def _sheet_key(self, card: ActionCard, event: events.Key) -> None:
        found = card.press(event.character or event.key, self._read_at(event))
        if found is not None:
            found.run(self)
            self._is_dirty = True
        else:
            card.scroll_key(event.key)

    def _read_at(self, event: events.Key) -> float:
        """When a key was read: one that was typed before a card was in sight may be handled after it."""
        return event.time if self.clock is monotonic else self.clock()
