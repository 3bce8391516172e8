"""The terminal of inline mode: prints above, and draws at most six live lines at the bottom.

What is printed goes to the terminal at once, in the order of the conversation: the live region is erased, the lines are
written where it was, and the region is drawn below them. So each line is in the terminal's history once, whatever was
being typed. Only the live region is ever drawn again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from dragoman.client.question_words import letters_of
from dragoman.errors import DragomanError
from dragoman.host.working.question_details import answers_of
from dragoman.text.colour import Painter
from dragoman.text.terminal import cells, clip, duration, fit, one_line, printed
from dragoman.text.visible import label
from dragoman.tui.inline.coloured import text_of_line
from dragoman.tui.inline.editor import InlineEditor
from dragoman.tui.inline.keys import HELP, key_bindings
from dragoman.tui.inline.printed import PrintedBlocks
from dragoman.tui.lines.client import LineClient, leaving_words
from dragoman.tui.mode_gate import unasked_words
from dragoman.tui.screen.header import HeaderFacts, current_mode, current_value, usage_words
from dragoman.tui.terminal.terminal_facts import ascii_signs
from dragoman.tui.values import short_agent
from dragoman.view.rails import ASCII, UNICODE, RailView

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from dragoman.tui.attachments import Chip
    from dragoman.tui.conversation import HostedConversation
    from dragoman.tui.interface import Opening
    from dragoman.tui.values import AskedQuestion
    from dragoman.view.rails import Glyphs, RailLine

_TICK_SECONDS: Final = 0.15
_HINT_SECONDS: Final = 3.0
_ESCAPE_SECONDS: Final = 0.1
"""Esc alone is an Esc after so long; the Esc that begins Alt+number comes with its key."""
LIVE_LINES: Final = 6
INPUT_LINES: Final = 4


class _InlineOutput(Vt100_Output):
    """Output with bracketed paste until the end: while lines are printed, a pasted line end must not become Enter."""

    is_ending = False

    def disable_bracketed_paste(self) -> None:
        if self.is_ending:
            super().disable_bracketed_paste()


class InlineTerminal:
    """A terminal with lines above, and a live region with the input at its bottom."""

    has_status = True
    answers_by_line = False
    has_input = True
    keys: Sequence[tuple[str, str]] = HELP

    def __init__(
        self,
        opening: Opening,
        session_id: str | None,
        *,
        has_colour: bool,
        is_ascii: bool = False,
        clock: Callable[[], float] = monotonic,
        chooses: bool = False,
    ) -> None:
        self.paint = Painter(has_colour)
        self.glyphs = ASCII if is_ascii else UNICODE
        self.is_answering = False
        """The keyboard is in the question, where digits answer it."""
        self.is_leaving = False
        """It is asked whether the turn goes on after this client."""
        self.interrupted_at = -_HINT_SECONDS
        self._asked_at = 0  # how often was drawn when it was asked
        self._has_colour = has_colour
        self._hint = ("", 0.0)
        self._held: list[str] | None = None
        """What is written while another program has the terminal."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lines = asyncio.Queue[str | None]()
        self._blocks: PrintedBlocks | None = None
        self._output = _InlineOutput(sys.__stdout__ or sys.stdout, _size, term=os.environ.get("TERM"), enable_cpr=False)
        self._app: Application[None] | None = None
        self.client = LineClient(opening, self, session_id, clock, chooses=chooses)
        self.editor = InlineEditor(self.client, self.changed)
        self._app = self._build()

    # What the client calls

    def write(self, lines: Sequence[str]) -> None:
        if self._held is not None:
            self._held += lines
            return
        # Once more past the filter: nothing but our own colours acts on the terminal.
        safe = "".join(f"{printed(line, has_colour=self._has_colour, can_redraw=False)}\r\n" for line in lines)
        safe = self._signs(safe)
        app = self._app
        is_drawn = app is not None and app.is_running
        if app is not None and is_drawn:
            app.renderer.erase()
        self._output.write_raw(safe)
        self._output.flush()
        self.changed()

    def write_sequence(self, sequence: str) -> None:
        self._output.write_raw(sequence)
        self._output.flush()

    def width(self) -> int:
        return _size().columns

    def transcript(self) -> PrintedBlocks:
        self._blocks = PrintedBlocks(
            lambda: RailView(self.width(), self.glyphs, is_side_by_side=False), has_colour=self._has_colour
        )
        return self._blocks

    def give_back(self, text: str) -> bool:
        self.editor.put_before(text)
        return True

    def attach(self, chip: Chip) -> bool:
        self.editor.attach(chip)
        return True

    def changed(self) -> None:
        if self._app is not None:
            if not self.client.conversation.questions:
                self.is_answering = False
            self._app.invalidate()

    @asynccontextmanager
    async def handed_over(self) -> AsyncIterator[None]:
        self.save()
        assert self._app is not None
        with set_app(self._app):
            async with in_terminal():
                self._held = []
                try:
                    yield
                finally:
                    held, self._held = self._held, None
        self.write(held)

    # What keys do

    def hint(self, text: str, seconds: float = _HINT_SECONDS) -> None:
        """Show a sentence in the status line for a moment."""
        self._hint = (one_line(text), self.client.conversation.clock() + seconds)
        self.changed()

    def submit(self, text: str) -> None:
        """Take a line that was sent; lines are taken in the order in which they were typed."""
        words = leaving_words(text)
        if words is not None:
            self.ask_to_leave(words)
        else:
            self._lines.put_nowait(text)

    @property
    def has_lines(self) -> bool:
        """Whether lines that were sent were not taken yet."""
        return not self._lines.empty()

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something in the background; an error is printed."""

        async def guarded() -> None:
            try:
                await work
            except (DragomanError, OSError) as error:
                self.client.write(f"error: {one_line(str(error))}")

        task = asyncio.ensure_future(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def whole(self) -> list[str]:
        """Return the last part that was printed shortened, whole."""
        return [] if self._blocks is None else self._blocks.whole(self.client.conversation.state)

    def save(self) -> None:
        """Keep the draft: another program gets the terminal."""
        self.editor.tick()

    def ask_to_leave(self, words: str) -> None:
        """Leave, if the words say how, or nothing runs; else ask once what becomes of the turn."""
        if words == "stop":
            self.start(self._stop_and_leave())
        elif words == "detach" or (not words and not self.client.runs_on):
            self.leave()
        elif words:
            self.hint("/exit leaves, /exit stop stops the turn and leaves, /exit detach lets it go on")
        elif self._app is not None:
            self.is_leaving, self._asked_at = True, self._app.render_counter
            self.changed()

    def leave_as_answered(self, key: str) -> None:
        """Leave as the user answered; a key that was typed before it was asked does not count."""
        if self._app is None or self._app.render_counter <= self._asked_at:
            return
        self.is_leaving = False
        self.ask_to_leave("stop" if key == "s" else "detach")

    def stay(self) -> None:
        """Close the question how to leave."""
        self.is_leaving = False
        self.changed()

    async def _stop_and_leave(self) -> None:
        self.hint("stopping the turn, then leaving")
        await self.client.conversation.stop_and_wait()
        self.leave()

    def leave(self) -> None:
        """End the client; the work goes on."""
        if self._app is not None and self._app.is_running:
            self._output.is_ending = True
            self._app.exit()

    # The live region

    def _build(self) -> Application[None]:
        text = BufferControl(self.editor.buffer, input_processors=[BeforeInput(f"{self.glyphs.you} ")])
        above = Window(
            FormattedTextControl(self._above), height=lambda: len(self._above_lines()), dont_extend_height=True
        )
        status = Window(FormattedTextControl(self._status), height=1, dont_extend_height=True)
        entry = Window(text, height=self._entry_rows, wrap_lines=True, dont_extend_height=True)
        app: Application[None] = Application(
            layout=Layout(HSplit([above, status, entry]), focused_element=entry),
            key_bindings=key_bindings(self),
            output=self._output,
            color_depth=None if self._has_colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
        )
        app.ttimeoutlen = app.timeoutlen = _ESCAPE_SECONDS
        return app

    def _entry_rows(self) -> int:
        width = max(10, self.width() - 1)
        rows = sum(1 + (cells(line) + 2) // width for line in self.editor.text.split("\n"))
        return max(1, min(INPUT_LINES, rows))

    def _above_lines(self) -> list[RailLine]:
        """Return the menu of completions, or the end of what is not finished."""
        room = LIVE_LINES - 1 - self._entry_rows()
        rows = self.editor.rows
        if not rows:
            return [] if self._blocks is None else self._blocks.open_lines(self.client.conversation.state, min(room, 3))
        marked = self.editor.marked
        top = max(0, min(marked - room // 2, len(rows) - room))
        lines: list[RailLine] = []
        for number in range(top, min(len(rows), top + room)):
            row, is_chosen = rows[number], number == marked
            lead = f"{self.glyphs.you} " if is_chosen else "  "
            name = fit(row.shown, 28) if row.detail else row.shown
            more = f"  {row.detail}" if row.detail else ""
            text = clip(f"{lead}{name}{more}  {row.source}", max(1, self.width() - 1))
            lines.append(((text, "bold" if is_chosen else ""),))
        return lines

    def _above(self) -> ANSI:
        lines = (text_of_line(line, has_colour=self._has_colour) for line in self._above_lines())
        return ANSI(self._signs("\n".join(lines)))

    def _status(self) -> ANSI:
        if self.client.is_choosing and not self.client.conversation.is_running:
            return ANSI(self._signs(f"a number or a letter chooses {self.glyphs.dot} Ctrl+D leave"))
        text, until = self._hint
        line = status_line(
            self.client.conversation,
            self.glyphs,
            self.width(),
            is_answering=self.is_answering,
            has_draft=len(self.editor.text) > 1,
            is_leaving=self.is_leaving,
            hint=text if self.client.conversation.clock() < until else "",
        )
        return ANSI(self._signs(text_of_line(line, has_colour=self._has_colour)))

    def _signs(self, text: str) -> str:
        return ascii_signs(text) if self.glyphs is ASCII else text

    # Life

    async def run(self, first: str | None) -> None:
        """Work until the user leaves."""
        assert self._app is not None
        self.editor.begin()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.leave)
        loop.set_exception_handler(self._show_defect)  # that of prompt_toolkit stops everything until a key is pressed
        reading = asyncio.ensure_future(self._app.run_async(handle_sigint=False, set_exception_handler=False))
        others = [asyncio.ensure_future(work) for work in (self._take(), self._tick())]
        for task in others:  # they end only by a defect, which is raised below
            task.add_done_callback(lambda done: None if done.cancelled() else self.leave())
        try:
            await self.client.run(reading, first)
        finally:
            loop.set_exception_handler(None)
            self.editor.close()
            for task in (*others, *self._tasks):
                task.cancel()
            for task in others:
                with suppress(asyncio.CancelledError):
                    await task

    def _show_defect(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        words = context["message"] if error is None else f"{context['message']}: {error!r}"
        self.write([f"note: an error in this program, which goes on: {one_line(words)}"])

    async def _take(self) -> None:
        while True:
            line = await self._lines.get()
            await self.client.take(line or "")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self.editor.tick()
            if self._hint[0] and self.client.conversation.clock() >= self._hint[1]:
                self._hint = ("", 0.0)
                self.changed()


def _size() -> Size:
    try:
        found = os.get_terminal_size((sys.__stdout__ or sys.stdout).fileno())
        return Size(rows=found.lines or 24, columns=found.columns or 80)
    except OSError:
        return Size(rows=24, columns=80)


def work_inline(
    opening: Opening,
    session_id: str | None,
    first: str | None,
    has_colour: bool,
    *,
    is_ascii: bool = False,
    chooses: bool = False,
    welcomes: bool = False,
) -> int:
    """Work in this terminal until the user leaves; `chooses`: list the sessions first. Returns the exit code."""

    async def work() -> None:
        terminal = InlineTerminal(opening, session_id, has_colour=has_colour, is_ascii=is_ascii, chooses=chooses)
        terminal.client.welcomes = welcomes
        await terminal.run(first)

    asyncio.run(work())
    return 0


def status_line(
    conversation: HostedConversation,
    glyphs: Glyphs,
    width: int,
    *,
    is_answering: bool,
    hint: str,
    has_draft: bool = False,
    is_leaving: bool = False,
) -> RailLine:
    """Return what the user should know now: one line, narrower than the terminal, so that a resize keeps it."""
    text, style = _status(conversation, glyphs, is_answering=is_answering, has_draft=has_draft)
    if is_leaving:
        what = "still running: d detach, s stop and leave" if conversation.is_running else "the turn is over: d leave"
        text, style = f"{glyphs.needs_you} {what}, Esc stay", "warn"
    elif hint:
        text, style = f"{glyphs.note} {hint}", "warn"
    unasked = unasked_words(conversation.state, conversation.agent)
    if not unasked:
        return ((clip(text, max(1, width - 1)), style),)
    # What the agent does without asking stays in sight whatever else is shown.
    warning = clip(f"{unasked} {glyphs.dot} ", max(1, width - 1))
    return ((warning, "warn"), (clip(text, max(1, width - 1 - cells(warning))), style))


def _status(
    conversation: HostedConversation, glyphs: Glyphs, *, is_answering: bool, has_draft: bool
) -> tuple[str, str]:
    dot = f" {glyphs.dot} "
    question = conversation.questions[0] if conversation.questions else None
    if question is not None:
        return f"{glyphs.needs_you} {_asked(question, is_answering=is_answering, has_draft=has_draft)}", "warn"
    if conversation.phase == "failed":
        return f"{glyphs.failed} failed{dot}/retry, or choose above", "bad"
    if conversation.phase != "ready":
        return (
            f"{glyphs.offline} {'looking for the host' if conversation.phase == 'lost' else conversation.phase}",
            "dim",
        )
    waiting = len(conversation.queued)
    if conversation.is_running:
        started = conversation.started_at
        time = "" if started is None else f" {duration(int(conversation.clock() - started))}"
        parts = [f"{glyphs.running} working{time}", *_step(conversation), *([f"{waiting} queued"] if waiting else [])]
        return dot.join([*parts, "Esc stops"]), "warn"
    facts = HeaderFacts(conversation.folder, conversation.agent, has_unicode=not glyphs.cut.isascii())
    agent = label(short_agent(conversation.agent), 20, "")
    parts = [
        agent,
        current_value(conversation.state, "model"),
        "" if unasked_words(conversation.state, conversation.agent) else current_mode(conversation.state),
        *usage_words(conversation.state, facts, 0),
    ]
    return dot.join([*(part for part in parts if part), "Enter send", "/help", "Ctrl+D leave"]), "dim"


def _asked(question: AskedQuestion, *, is_answering: bool, has_draft: bool) -> str:
    keys = letters_of(answers_of(question.request))
    if is_answering:
        return f"type the letter or number of an answer: {keys}; Esc goes back to the input"
    if has_draft:
        return f"needs your answer; there is a draft: Tab, then {keys}; or Alt+number"
    why = ", w: no, because" if question.rejecting is not None else ""
    return f"needs your answer: {keys}{why}, v: again; Esc stops"


def _step(conversation: HostedConversation) -> list[str]:
    plan = conversation.state.plan
    if not plan:
        return []
    done = sum(entry.status == "completed" for entry in plan)
    current = next((entry.content for entry in plan if entry.status == "in_progress"), "")
    return [f"step {min(done + 1, len(plan))} of {len(plan)}{f': {label(current, 40)}' if current else ''}"]
