"""The full screen: header, conversation, card, status, input, footer.

Keys follow one rule: while the input has the keyboard, printable keys only type, and no key that one may press while
typing answers a question. What the agent does is up to the conversation; the screen only draws it, at most twenty
times a second.
"""

from __future__ import annotations

import asyncio
import os
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from textual.app import App

from dragoman.errors import DragomanError
from dragoman.text.terminal import duration, one_line, size
from dragoman.text.visible import label
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.screen.actions import ACTIONS, action_named, load_function
from dragoman.tui.screen.card import QuestionCard
from dragoman.tui.screen.parts import OneLine, PromptInput
from dragoman.tui.screen.transcript import Transcript
from dragoman.view.rails import UNICODE

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from dragoman.tui.conversation import Opening
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
    QuestionCard { display: none; height: auto; max-height: 14; }
    #rule { height: 1; }
    """

    def __init__(
        self, opening: Opening, *, session_id: str | None = None, first: str | None = None, glyphs: Glyphs = UNICODE
    ) -> None:
        _keep_alt_digits()
        super().__init__(ansi_color=True)
        self.talk = HostedConversation(opening, self, session_id=session_id)
        self._first = first
        self._glyphs = glyphs
        self._is_dirty = True
        self._is_reloaded = True
        self._notes: list[tuple[float, str]] = []
        self._interrupted_at = 0.0
        self._escaped_at = 0.0
        self._rows: list[Any] = []
        self._work: set[asyncio.Task[Any]] = set()
        self._seconds = -1
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
        yield QuestionCard(id="card")
        yield OneLine(id="status")
        yield OneLine(id="rule")
        yield PromptInput(id="input")
        yield OneLine(id="footer")

    def on_mount(self) -> None:
        if self._first:
            _ = self.talk.send(self._first)
        self.start(self.talk.run())
        self.query_one(PromptInput).focus()
        self.set_interval(1 / _PAINTS, self._paint)

    async def on_unmount(self) -> None:
        await self.talk.leave()
        for task in self._work:
            task.cancel()

    def on_key(self, event: events.Key) -> None:
        card = self.query_one(QuestionCard)
        if card.has_focus and event.key.isdigit():
            event.stop()
            self.action_answer(int(event.key))
        elif self.query_one(Transcript).has_focus and event.is_printable and event.character not in (None, " "):
            self.query_one(PromptInput).focus()

    def on_prompt_input_sent(self, event: PromptInput.Sent) -> None:
        word, _, argument = event.text[1:].partition(" ") if event.text.startswith("/") else ("", "", "")
        action = self._own_command(word)
        if action is not None:
            self.action_do(action, argument.strip())
            return
        _ = self.talk.send(event.text)
        self.query_one(Transcript).follow()

    # What the conversation calls

    def changed(self) -> None:
        self._is_dirty = True

    def reloaded(self) -> None:
        self._is_reloaded = self._is_dirty = True

    def asked(self, question: AskedQuestion) -> None:
        self._is_dirty = True
        self.bell()

    def withdrawn(self, question: AskedQuestion, why: str) -> None:
        self.note(f"the question is closed: {why}")

    def form(self, form: OpenForm) -> None:
        self.note(f"the agent asks for values, which cannot be entered here yet: {one_line(form.request.message)}")
        form.answer.set_result(None)

    def form_withdrawn(self, form: OpenForm) -> None:
        self._is_dirty = True

    def ended(self, prompt: TypedPrompt | None, stop_reason: str | None, error: str) -> None:
        if error:
            self.note(error)
        if not self.app_focus:
            self.bell()
        self._is_dirty = True

    def note(self, text: str) -> None:
        self._notes = [*self._notes[-20:], (monotonic(), one_line(text))]
        self._is_dirty = True

    # Drawing

    def _paint(self) -> None:
        started = self.talk.started_at
        seconds = -1 if started is None else int(monotonic() - started)
        if not self._is_dirty and seconds == self._seconds:
            return
        self._is_dirty, self._seconds = False, seconds
        self.query_one(Transcript).show_state(self.talk.state, is_new=self._is_reloaded)
        self._is_reloaded = False
        card = self.query_one(QuestionCard)
        had_focus = card.has_focus
        if not card.show(self.talk.questions[0] if self.talk.questions else None):
            self._is_dirty = True  # its place stays empty for a moment
        if card.question is None and (had_focus or self.focused is None):
            self.query_one(PromptInput).focus()
        self.query_one("#header", OneLine).show(self._header())
        self.query_one("#status", OneLine).show(self._status())
        self.query_one("#rule", OneLine).show((("─" * self.size.width, "dim"),))
        self.query_one("#footer", OneLine).show(self._footer())

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
        if talk.phase == "failed":
            return ((f"  {glyphs.failed} {one_line(talk.failure)}", "bad"), ("  Ctrl+N: a new session", "dim"))
        if talk.phase != "ready":
            word = {
                "connecting": "starting",
                "opening": "starting the agent",
                "lost": "the host is gone, looking for it",
            }
            return ((f"  {glyphs.offline} {word[talk.phase]}", "warn"),)
        waiting = f" · {len(talk.queued)} queued" if talk.queued else ""
        if talk.questions:
            return ((f"  {glyphs.needs_you} needs your answer{waiting}", "warn"),)
        if talk.is_running:
            step = self._step()
            return ((f"  {glyphs.running} working {duration(max(0, self._seconds))}{step}{waiting}", "warn"),)
        recent = [text for when, text in self._notes if monotonic() - when < 30]
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
        """Do what a key or a slash command asks for."""
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
        card, transcript, prompt = self.query_one(QuestionCard), self.query_one(Transcript), self.query_one(PromptInput)
        if prompt.has_focus:
            (card if card.question is not None else transcript).focus()
        elif card.has_focus:
            transcript.focus()
        else:
            prompt.focus()

    def action_page_up(self, argument: str = "") -> None:
        """Scroll the question if it has the keyboard, else the conversation."""
        self._scrolled().scroll_page_up(animate=False)

    def action_page_down(self, argument: str = "") -> None:
        """The same, down."""
        self._scrolled().scroll_page_down(animate=False)

    def _scrolled(self) -> QuestionCard | Transcript:
        card = self.query_one(QuestionCard)
        return card if card.has_focus else self.query_one(Transcript)

    def action_answer(self, number: int) -> None:
        """Answer the question in sight with a number."""
        card = self.query_one(QuestionCard)
        question, option = card.question, card.choose(number, monotonic())
        if question is not None and option is not None:
            self.talk.answer(question, option)
        self._is_dirty = True
