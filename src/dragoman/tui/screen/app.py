"""The full screen: header, conversation, card, status, input, footer, and the columns at the sides.

Keys follow one rule: while the input has the keyboard, printable keys only type, and no key that one may press while
typing answers a question. What the agent does is up to the conversation; the screen only draws it, at most twenty
times a second. Which conversations there are is in `attached.py`; `conversation` is the one that is shown.
"""

from __future__ import annotations

import asyncio
import gc
import os
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from textual import events
from textual.app import App
from textual.containers import Horizontal, Vertical
from textual.css.query import NoMatches
from textual.events import Key

from dragoman._version import __version__
from dragoman.errors import DragomanError
from dragoman.text.terminal import one_line
from dragoman.text.visible import label
from dragoman.tui.completion import unknown_command
from dragoman.tui.local_host.older_blocks import is_too_long
from dragoman.tui.mode_gate import ModeGate
from dragoman.tui.remembered_values import prepare_by
from dragoman.tui.screen.conversation.transcript import Transcript
from dragoman.tui.screen.frame import LEFT_FROM, LEFT_WIDTH, RIGHT_FROM, RIGHT_WIDTH, Column, FrameLines
from dragoman.tui.screen.input.input_hint import InputHint, note
from dragoman.tui.screen.input.prompt_input import PromptInput, input_parts
from dragoman.tui.screen.input.shell_panel import ShellPanel
from dragoman.tui.screen.keys.actions import ACTIONS, action_named, client_action, client_commands, load_function
from dragoman.tui.screen.keys.keymap import Keymap
from dragoman.tui.screen.keys.pasted_keys import type_keys
from dragoman.tui.screen.keys.textual_keys import adapt_keys
from dragoman.tui.screen.parts import KeyQuestion, LeftOnce, OneLine
from dragoman.tui.screen.questions.card import CardView, QuestionCard
from dragoman.tui.screen.questions.cards import ActionCard, Cards
from dragoman.tui.screen.sessions.attached import AttachedSessions
from dragoman.tui.screen.sessions.surroundings import Surroundings
from dragoman.tui.screen.start import ScreenStart, driver_for_output, follow_signals, is_behind, last_exchange
from dragoman.tui.screen.strips import use_ascii
from dragoman.tui.screen.themes import use_theme
from dragoman.tui.terminal.terminal_facts import is_remote
from dragoman.view.rails import ASCII, UNICODE, RailView

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.geometry import Size

    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.interface import Opening
    from dragoman.tui.screen.picker import Picker
    from dragoman.tui.screen.sessions.attached import AttachedConversation
    from dragoman.tui.values import AskedQuestion, ListedSession, OpenForm, TypedPrompt
    from dragoman.view.rails import Glyphs

_PAINTS: Final = 20
_REMOTE_PAINTS: Final = 8
_LOW: Final = 20  # lines, below which a question may not take its usual room
_LEAVE_SECONDS: Final = 2.0  # between two times Ctrl+C
_SENDING_SECONDS: Final = 0.02  # until a key behind Enter looks again whether its prompt was sent
_MOST_LOOKS: Final = 50  # then it counts all the same: no attachment takes longer than this to be read
_ESCAPES_SECONDS: Final = 0.6  # between two times Esc, which open the rewind menu
_LIST_SECONDS: Final = 3.0
_BRANCH_SECONDS: Final = 5.0


class TerminalApp(App[None]):
    """The terminal client."""

    ENABLE_COMMAND_PALETTE = False
    CSS = f"""
    #wide {{ height: 1fr; }}
    #left {{ width: {LEFT_WIDTH}; display: none; }}
    #right {{ width: {RIGHT_WIDTH}; display: none; }}
    #main {{ width: 1fr; }}
    Transcript {{ height: 1fr; scrollbar-size-vertical: 1; }}
    #card, #action {{ display: none; height: auto; }}
    #rule {{ height: 1; }}
    """

    def __init__(
        self,
        opening: Opening,
        *,
        session_id: str | None = None,
        first: str | None = None,
        glyphs: Glyphs = UNICODE,
        start: ScreenStart = ScreenStart(),  # noqa: B008 - it cannot be changed
    ) -> None:
        adapt_keys()
        super().__init__(driver_class=driver_for_output(), ansi_color=True)
        self.ui, self.overridden, self.preferences = start.ui, start.overridden, start.preferences
        self.modes = ModeGate()
        self.prepare_values = prepare_by(self.preferences, self.note, opening.mode)
        """Called with a new session and its agent: sets what is remembered."""
        self.glyphs = glyphs
        use_ascii(glyphs is ASCII)
        self.version = f"dragoman {__version__}"
        self.keymap = Keymap(self.ui.keys)
        self.attached = AttachedSessions(self, opening)
        self.conversation: HostedConversation = self.attached.make(session_id).conversation
        self.around = Surroundings(self)
        self.frame = FrameLines(self)
        self.worktree, self.is_light, self.answers = start.worktree, start.is_light, start.answers
        self._start = start
        self.last_exchange: list[str] = []
        """The last question and its answer, when the screen was left."""
        self.farewell = ""
        """How to come back, when the screen was left."""
        self._first = first
        self._is_dirty = True
        self._painted_width = 0
        self._is_reloaded = True
        self.notes: list[tuple[float, str]] = [(monotonic(), note) for note in start.notes]
        self._interrupted_at = -_LEAVE_SECONDS
        self._escaped_at = 0.0
        self._work: set[asyncio.Task[Any]] = set()
        self.seconds = -1
        """How long the turn runs; -1 if none does."""
        self._folds_columns = False
        self.cards = Cards(self)
        self.is_mouse_released = False
        self.is_outside = False
        """Another program has the terminal: nothing may be written, since nothing takes it."""
        self._picker: Picker | None = None
        use_theme(self, self.ui.theme, start.is_light)
        self.bind_keys()

    def bind_keys(self) -> None:
        """Bind what the keymap says, and nothing of Textual's own, such as Ctrl+Q for the end."""
        self._bindings.key_to_bindings.clear()
        for action in ACTIONS:
            for key in self.keymap.keys(action.name):
                self._bindings.bind(key, f"do('{action.name}')", action.help, show=False, priority=action.is_priority)
        for number in range(1, 10):
            self._bindings.bind(f"alt+{number}", f"answer({number})", "answer", show=False, priority=True)

    # Textual

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is possible: above another screen only two; no question is answered unseen."""
        if len(self.screen_stack) > 1 and action in ("do", "answer"):
            takes_interrupt = isinstance(self.screen, LeftOnce) and self.screen.takes_interrupt
            return parameters[:1] == ("redraw",) or (parameters[:1] == ("interrupt",) and not takes_interrupt)
        return super().check_action(action, parameters)

    def compose(self) -> ComposeResult:
        rule = self.glyphs.agent
        with Horizontal(id="wide"):
            yield Column(rule, is_left=True, id="left")
            with Vertical(id="main"):
                yield OneLine(id="header")
                yield Transcript(self.glyphs, id="transcript")
                yield QuestionCard(glyphs=self.glyphs, id="card")
                yield ActionCard(glyphs=self.glyphs, id="action")
                yield OneLine(id="status")
                yield OneLine(id="rule")
                yield from input_parts(lambda: self.conversation)
            yield Column(rule, is_left=False, id="right")
        yield OneLine(id="footer")

    def on_mount(self) -> None:
        if self.ui.thoughts == "open":
            self.query_one(Transcript).toggle_open()
        if self._first:
            _ = self.conversation.send(self._first)
        if self._start.welcomes:
            from dragoman.tui.screen.welcome import show_first

            show_first(self)
        elif self._start.chooses:
            from dragoman.tui.screen.sessions.sessions import choose_first

            self.start(choose_first(self))
        else:
            self.run_conversation(self.conversation)
        if self._start.announces:
            from dragoman.tui.screen.sessions.sessions import announce_sessions

            self.start(announce_sessions(self))
        self.prompt_input = self.query_one(PromptInput)
        self.prompt_input.before_typing = self.cards.typed_key
        self.prompt_input.focus()
        self._fit_columns(self.size)
        self.around.notifier.start()
        if not self.is_headless:  # in tests, what is on this machine would be on the screen
            self.start(self.around.look())
        paints = self.ui.paints or (_REMOTE_PAINTS if is_remote(os.environ) else _PAINTS)
        self.set_interval(1 / paints, self._paint)
        self.set_interval(_LIST_SECONDS, lambda: self.start(self.around.look_at_sessions()))
        self.set_interval(_BRANCH_SECONDS, lambda: self.start(self.around.look_at_branch()))
        for problem in self.keymap.problems:
            self.note(problem)
        if not self._start.welcomes:
            self.type_early_keys()
        self.call_after_refresh(follow_signals, self)
        self.call_after_refresh(gc.enable)  # paused for the first frame

    def type_early_keys(self) -> None:
        """Type what came before there was a screen; it is meant for the prompt."""
        if self._start.typed:
            self.call_after_refresh(type_keys, self, self._start.typed)

    async def on_unmount(self) -> None:
        # Before the connection ends: that would look like the end of the agent.
        view = RailView(self.size.width, self.glyphs)
        self.last_exchange = last_exchange(self.conversation.state, view)
        self.farewell = self._farewell()
        await self.attached.leave_all()
        for task in self._work:
            task.cancel()

    def exit(self, *words: Any, **named: Any) -> None:
        with suppress(NoMatches):  # while the terminal still has the screen that its images belong to
            self.query_one(Transcript).end_pictures()
        super().exit(*words, **named)

    def on_resize(self, event: events.Resize) -> None:
        self._fit_columns(event.size)  # the size of the app is still the one before

    def on_key(self, event: events.Key) -> None:
        if len(self.screen_stack) > 1:
            return
        if self.cards.key(event):
            event.stop()
        elif self.query_one(Transcript).has_focus and event.is_printable and event.character and event.key != "space":
            self.query_one(PromptInput).take_over(event.character)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, Key):
            self.cards.last_key = event
        # A binding would not do: Textual leaves every printable key to the input.
        if isinstance(event, events.Key) and event.key == "question_mark" and len(self.screen_stack) == 1:
            prompt = self.query_one(PromptInput)
            if prompt.has_focus and not prompt.text:
                self.action_do("help")
                return
        await super().on_event(event)

    def on_prompt_input_sent(self, event: PromptInput.Sent) -> None:
        self.prompt_input.on_their_way -= 1
        if event.text.startswith("/") and not event.is_literal and self._run_command(event.text):
            return
        _ = self.conversation.send(event.text, event.blocks)
        self.query_one(ShellPanel).close()
        self.query_one(Transcript).follow()

    def _run_command(self, text: str) -> bool:
        """Run a slash command of this client, or say that there is none; False if the text goes to the agent."""
        word, _, argument = text[1:].partition(" ")
        theirs = {command.name for command in self.conversation.state.commands}
        action = client_action(word, argument, theirs)
        if action is not None:
            self._do(action.name, argument.strip())  # at once: a prompt that was typed behind it must not overtake it
            return True
        known = theirs | {command.name for command in client_commands()}
        problem = unknown_command(text, known, is_agent_known=self.conversation.phase == "ready")
        if problem:
            self.prompt_input.give_back(self.conversation, text)
            note(self, problem)
        return bool(problem)

    def on_transcript_reached_top(self, event: Transcript.ReachedTop) -> None:
        self.start(self._show_older())

    async def _show_older(self) -> None:
        page = await self.conversation.older_page()
        if page is not None:
            self.query_one(Transcript).add_older(
                list(page.state.timeline), page.ends, has_more=self.conversation.has_older
            )

    def on_text_area_changed(self) -> None:
        self._is_dirty = True  # with a draft the card says that letters go there

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

    # Conversations

    def run_conversation(self, conversation: HostedConversation) -> None:
        """Connect a conversation."""

        conversation.prepare = self.prepare_values
        conversation.list_changed = self.around.list_changed
        self.start(conversation.run())

    def show_session(self, row: ListedSession | None, *, agent: str | None = None) -> None:
        """Show a session of the host, or a new one."""
        self._show(self.attached.open(row, agent=agent))

    def _show(self, attached: AttachedConversation) -> None:
        before, self.conversation = self.conversation, attached.conversation
        if before is attached.conversation:
            return
        # Before anything of the new session is drawn: a key that comes now belongs to its draft, not to the old one.
        self.query_one(PromptInput).follow_session()
        self.cards.put(None)
        self.around.notifier.pace.forget(self.conversation.session_id or "")
        self.reloaded()
        attached.was_shown()
        if before.session_id is None and not before.prompts and before.phase in ("connecting", "failed"):
            self.start(self.attached.leave(before))  # it was never used
        for conversation in self.attached.leave_some():
            self.start(conversation.leave())
        self.start(self.around.look_at_branch())

    @property
    def session_rows(self) -> list[ListedSession]:
        """The sessions that are worth showing, in an order that stays."""
        return self.around.listed.rows(self.conversation)

    async def refresh_rows(self) -> list[ListedSession]:
        """Ask the host for its sessions."""
        return await self.around.listed.read(self.conversation)

    def rows_changed(self, rows: list[ListedSession]) -> None:
        """Show the sessions that the host was asked for."""
        if self._picker is not None:
            self._picker.show_sessions(rows)
        self._is_dirty = True

    def show_picker(self, picker: Picker, then: Callable[[Any], None]) -> None:
        """Open a list over the screen, and do something with what it is left with."""
        self._picker = picker

        def left(chosen: Any) -> None:
            self._picker = None
            then(chosen)

        _ = self.push_screen(picker, left)

    # What the conversation calls

    def changed(self) -> None:
        self._is_dirty = True

    def reloaded(self) -> None:
        self._is_reloaded = self._is_dirty = True
        self.start(self.around.watch_sessions())  # the connection may be another one

    def asked(self, question: AskedQuestion) -> None:
        self.asked_for_user()

    def asked_for_user(self) -> None:
        """Notify the user that something waits, which the card shows."""
        self._is_dirty = True
        if self.app_focus:
            self.around.notifier.ring()  # the card does not take the keyboard, and is easily overlooked
        self.around.notify(f"{os.path.basename(self.conversation.folder)}: the agent needs your answer")

    def withdrawn(self, question: AskedQuestion, why: str) -> None:
        self.query_one("#card", QuestionCard).close_with(why)
        self.note(f"the question is closed: {why}")

    def form(self, form: OpenForm) -> None:
        self.asked_for_user()

    def form_withdrawn(self, form: OpenForm) -> None:
        self.note("the form is closed: the agent took it back, or another client answered it")

    def ended(self, prompt: TypedPrompt | None, stop_reason: str | None, error: str) -> None:
        if error:
            self.note(error)
            self.cards.put(None)
        self.around.notify(
            f"{os.path.basename(self.conversation.folder)}: {'the turn failed' if error else 'the turn is done'}"
        )
        self._is_dirty = True

    def returned(self, text: str, why: str) -> None:
        self.prompt_input.give_back(self.conversation, text)
        self.note(f"not sent, and back in the input: {why}")

    def note(self, text: str) -> None:
        self.notes = [*self.notes[-20:], (monotonic(), one_line(text))]
        self._is_dirty = True

    # Drawing

    def _paint(self) -> None:
        with suppress(NoMatches):  # while the screen is taken down, its parts are gone one after the other
            if not is_behind(self._driver):
                self._paint_parts()

    def _paint_parts(self) -> None:
        self.cards.look_around()
        started = self.conversation.started_at
        seconds = -1 if started is None else int(self.conversation.clock() - started)
        header = self.query_one("#header", OneLine)
        width = header.size.width or self.size.width
        is_dirty = self.frame.forget_notes() or self._is_dirty or width != self._painted_width
        # In a batch another program has the terminal: everything stays dirty, and is drawn after it.
        if (not is_dirty and seconds == self.seconds) or self._batch_count:
            return
        self._is_dirty, self.seconds, self._painted_width = False, seconds, width
        transcript = self.query_one(Transcript)
        self.cards.show_changes_once()
        transcript.show_state(self.conversation.state, self.conversation.watched, is_new=self._is_reloaded)
        if self._is_reloaded:
            transcript.has_older = self.conversation.has_older
            transcript.mark_taken_back(frozenset())
            if self.conversation.state.timeline:
                from dragoman.tui.screen.changes.rewind import show_taken_back

                self.start(show_taken_back(self))
        elif transcript.is_following and is_too_long(self.conversation):
            self.start(self.conversation.shorten())
        self._is_reloaded = False
        self._is_dirty = self.cards.paint()  # the place of a question stays empty for a moment
        frame = self.frame
        header.show(frame.header(width))
        self.query_one("#status", OneLine).show(frame.status())
        self.query_one("#rule", OneLine).show((("─" * width if self.glyphs is UNICODE else "-" * width, "dim"),))
        self.query_one("#footer", OneLine).show(frame.footer(self.query_one(Transcript).unseen))
        for column in self.query(Column):
            if column.has_room:
                column.show(frame.column(is_left=column.is_left))
        self.around.notifier.show_title(
            os.path.basename(self.conversation.folder) or self.conversation.folder, frame.title_state()
        )

    def _fit_columns(self, size: Size) -> None:
        """Show the columns that the width has room for, and leave room for the input below a question."""
        width, height = size
        self.query_one("#card").styles.max_height = max(3, height - 6) if height < _LOW else None
        self.query_one("#left", Column).give_room(width >= LEFT_FROM and not self._folds_columns)
        self.query_one("#right", Column).give_room(width >= RIGHT_FROM and not self._folds_columns)
        self._is_dirty = True

    # Actions

    def action_do(self, name: str, argument: str = "") -> None:
        """Do what a key or a slash command asks for, when the input has taken what was typed before that key."""
        prompt = self.query_one(PromptInput) if len(self.screen_stack) == 1 else None
        if prompt is None or not prompt.has_focus:
            self._do(name, argument)
        else:
            # The app gets a key of its own while letters before it wait in the input's queue: this goes behind them.
            _ = prompt.call_later(self._do, name, argument)

    def _do(self, name: str, argument: str) -> None:
        action = action_named(name)
        if action is None:
            self.note(f"there is no action {label(name, 30)} here")
            return
        function = load_function(action.name)
        if function is None:
            getattr(self, f"action_{action.name}")(argument)
        else:
            function(self, argument)

    def start(self, work: Any) -> None:
        """Run a coroutine next to the screen; its errors become a note."""
        task = asyncio.ensure_future(self._guarded(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except (DragomanError, OSError) as error:
            self.note(str(error))
        except Exception as error:
            # Nothing waits for this work: without a note, the screen would only stand still.
            self.note(f"an error in dragoman itself: {type(error).__name__}: {error}")

    def action_walk(self, argument: str = "") -> None:
        """Move the keyboard from the input to the question or the conversation, and back."""
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

    def action_open(self, argument: str = "") -> None:
        """Open or close thoughts and long outputs."""
        self.query_one(Transcript).toggle_open()

    def action_page_up(self, argument: str = "") -> None:
        """Scroll the question if it has the keyboard, else the conversation."""
        self._scrolled().scroll_page_up(animate=False)

    def action_page_down(self, argument: str = "") -> None:
        """Scroll the same part down."""
        self._scrolled().scroll_page_down(animate=False)

    def _scrolled(self) -> CardView | Transcript:
        focused, card = self.focused, self.query_one("#card", QuestionCard)
        if isinstance(focused, CardView):
            return focused
        # A question that is cut is what the user has to read, wherever the keyboard is.
        is_asked = card.display and card.is_cut and isinstance(focused, PromptInput)
        return card if is_asked else self.query_one(Transcript)

    def action_stop(self, argument: str = "") -> None:
        """Stop the turn that runs; without one, twice in a row with an empty input opens the rewind menu."""
        if self.stop_work() or self.conversation.is_running or self.query_one(PromptInput).text:
            self._escaped_at = 0.0
            return
        now = monotonic()
        if now - self._escaped_at < _ESCAPES_SECONDS:
            self._escaped_at = 0.0
            self.action_do("rewind")
        else:
            self._escaped_at = now

    def stop_work(self) -> bool:
        """Stop the turn, and give what waits behind it back to the input; False if there is nothing to stop."""
        return self.conversation.stop() is not None

    def action_interrupt(self, argument: str = "") -> None:
        """Stop what runs; else close what is open; else clear the draft; else leave at the second time."""
        self._interrupt(_MOST_LOOKS)

    def _interrupt(self, looks: int) -> None:
        prompt = self.prompt_input
        if prompt.on_their_way and looks:  # Enter came before this key, and what it sent is what runs
            self.set_timer(_SENDING_SECONDS, lambda: self._interrupt(looks - 1))
        elif prompt.stop_shell() or self.stop_work():
            self._interrupted_at = -_LEAVE_SECONDS
            if isinstance(self.screen, KeyQuestion):
                _ = self.screen.dismiss(None)  # it asks about the turn that is being stopped
            elif len(self.screen_stack) > 1:
                self.notify("stopping", timeout=_LEAVE_SECONDS, markup=False)
        elif len(self.screen_stack) > 1:
            self.post_message(Key("escape", None))
        elif prompt.end_search() or prompt.stop_completion():
            self._interrupted_at = -_LEAVE_SECONDS
        elif prompt.clear_draft():
            self._interrupted_at = -_LEAVE_SECONDS
            self.query_one(InputHint).noted("cleared; Up brings it back", _LEAVE_SECONDS)
        elif self.cards.clock() - self._interrupted_at < _LEAVE_SECONDS:
            self.exit()
        else:
            self._interrupted_at = self.cards.clock()
            self.query_one(InputHint).noted(f"{self.keymap.shown('interrupt')} again to leave", _LEAVE_SECONDS)

    def action_leave(self, argument: str = "") -> None:
        """Leave, and let the turn that runs go on, or stop it, as the user says. With a draft, delete a character."""
        transcript, prompt, conversation = self.query_one(Transcript), self.prompt_input, self.conversation
        if transcript.has_focus and transcript.shown is not None:
            transcript.walk.page(0.5)
        elif prompt.text and not argument:
            prompt.action_delete_right()
        elif argument == "stop":
            self.start(self._stop_and_leave())
        elif argument not in ("", "detach"):
            note(self, "/exit leaves, /exit stop stops the turn and leaves, /exit detach lets it go on")
        elif argument or not conversation.is_running or conversation.is_stopping or conversation.is_temporary:
            self.exit()
        else:
            answers = {"d": "detach: leave, and let it go on", "s": "stop it, and leave"}
            question = KeyQuestion("the turn is still running", answers, same_keys={"ctrl+d": "d"})
            _ = self.push_screen(question, self._leave_as_answered)

    def _leave_as_answered(self, key: str | None) -> None:
        if key == "s":
            self.start(self._stop_and_leave())
        elif key == "d":
            self.exit()

    async def _stop_and_leave(self) -> None:
        self.note("stopping the turn, then leaving")
        await self.conversation.stop_and_wait()
        self.exit()

    def _farewell(self) -> str:
        conversation = self.conversation
        others = sum(item.conversation.is_running for item in self.attached if not item.is_shown)
        more = f"{others} other session{'s' if others > 1 else ''} still running: dragoman sessions lists them"
        words = conversation.farewell(was_running=conversation.is_running)
        return "\n".join(part for part in (more if others else "", words) if part)

    def action_redraw(self, argument: str = "") -> None:
        """Draw everything again: another program wrote to the terminal."""
        self.write_terminal("\x1b[2J")
        _ = self.refresh(layout=True)

    def action_columns(self, argument: str = "") -> None:
        """Fold the columns away, or show them again."""
        self._folds_columns = not self._folds_columns
        self._fit_columns(self.size)
        if self.size.width < LEFT_FROM:
            self.note(f"the columns need a terminal of {LEFT_FROM} columns; this one has {self.size.width}")

    def action_answer(self, number: int) -> None:
        """Answer the question in sight with a number, from wherever the keyboard is."""
        self.cards.answer_in_sight(number)
