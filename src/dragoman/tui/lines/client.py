"""A conversation whose user types lines and reads lines: what plain and inline mode share.

A typed line is a prompt, unless it begins with `/` or `!`, or answers something that is asked. What is written is only
ever appended. A session that is loaded again after its host was lost is not written again: only what is new is.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from dragoman.errors import DragomanError
from dragoman.settings.places import data_dir
from dragoman.state import Message, ToolCallState
from dragoman.text.colour import YELLOW
from dragoman.text.terminal import duration, one_line
from dragoman.text.visible import label
from dragoman.tui.attachments import build, chips_in, output_chip
from dragoman.tui.completion import literal_text, mentions, unknown_command
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.lines.answers import LineAnswers
from dragoman.tui.lines.commands import client_command, client_commands, load_function
from dragoman.tui.mode_gate import ModeGate, unasked_words
from dragoman.tui.remembered_values import prepare_by
from dragoman.tui.shell_command import ShellCommand
from dragoman.tui.start.preferences import FILE_NAME, Preferences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from dragoman.schema import v1
    from dragoman.state import SessionState, TimelineItem
    from dragoman.text.colour import Painter
    from dragoman.tui.attachments import Chip
    from dragoman.tui.interface import Opening
    from dragoman.tui.lines.changes import LineChanges
    from dragoman.tui.lines.welcome import LineWelcome
    from dragoman.tui.values import AskedQuestion, ListedSession, OpenForm, TypedPrompt
    from dragoman.view.watched import WatchedSession

_BEAT_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.05  # a burst of updates is one look at the state
_ENDINGS: Final = {"cancelled": "stopped", "refusal": "the agent refused", "max_tokens": "the answer was too long"}
_OUTPUT_LINES: Final = 200
"""Of the output of a command that are written as they come; of a longer one, its end follows."""
_LAST_OUTPUT_LINES: Final = 20
_OUTPUT_SECONDS: Final = 0.2
_LOOKED_AT: Final = 200  # items from the end; what a host lost at its death is not longer


class LineTranscript(Protocol):
    """The lines of a session, each written once."""

    def feed(
        self, state: SessionState, *, watched: WatchedSession | None = None, is_over: bool = False
    ) -> Iterator[str]:
        """Yield the lines that are new."""

    def resume(self, state: SessionState, position: int, written: int) -> None:
        """Begin behind an item that was written before, of which so many characters were."""

    def omit_prompts(self) -> None:
        """Leave out the prompts of this client from here on, if the terminal shows them where they were typed."""


class LineTerminal(Protocol):
    """Where lines go and come from."""

    paint: Painter
    has_status: bool
    """The state of the turn is always in sight, and is not written as lines."""
    answers_by_line: bool
    """A permission is answered by a line with its number; otherwise only by keys that nothing else uses."""
    has_input: bool
    """There is an input that a text can be put into."""
    keys: Sequence[tuple[str, str]]
    """The keys of this mode, for the help."""

    def write(self, lines: Sequence[str]) -> None:
        """Append lines, which are safe."""

    def write_sequence(self, sequence: str) -> None:
        """Send a sequence of our own to the terminal."""

    def width(self) -> int:
        """Return the columns of the terminal."""

    def transcript(self) -> LineTranscript:
        """Return what writes a session from its beginning."""

    def give_back(self, text: str) -> bool:
        """Put a text into the input, before what is typed there; False if the user has to type it."""

    def attach(self, chip: Chip) -> bool:
        """Put an attachment into the input; False if it goes with the next prompt."""

    def changed(self) -> None:
        """Note that the state of the conversation changed."""

    def handed_over(self) -> AbstractAsyncContextManager[None]:
        """Give the terminal to another program while this is entered; what is written meanwhile comes afterwards."""


class LineClient:
    """The conversation of one terminal. `run` serves it; `take` is called with each line."""

    def __init__(
        self,
        opening: Opening,
        terminal: LineTerminal,
        session_id: str | None,
        clock: Callable[[], float] = monotonic,
        *,
        chooses: bool = False,
    ) -> None:
        """Make a client.

        Args:
            opening: how sessions are opened.
            terminal: where lines go and come from.
            session_id: the session to attach to; None for a new one.
            clock: the time of questions and hints.
            chooses: list the earlier sessions at the start.
        """
        self.terminal = terminal
        self.welcomes = False
        """Show what is on this machine first; the conversation begins with what is chosen."""
        self._welcome: LineWelcome | None = None
        self._opening = opening
        self._chooses = chooses
        self._announcing: asyncio.Task[None] | None = None
        self.conversation = HostedConversation(opening, self, session_id=session_id, clock=clock)
        self.answers = LineAnswers(
            self.conversation,
            self.write,
            terminal.width,
            terminal.paint,
            by_line=terminal.answers_by_line,
            hand_over=terminal.handed_over,
        )
        self.prompts = PromptSender(self)
        self.preferences = Preferences(data_dir() / FILE_NAME)
        self.modes = ModeGate()
        self.conversation.prepare = prepare_by(self.preferences, self.note, opening.mode)
        self._unasked = ""
        self.rows: list[ListedSession] = []
        """The sessions that were listed last."""
        self.withdrawn_at = 0.0
        """When a question was last closed without an answer of this user, by the clock of the conversation."""
        self._changes: LineChanges | None = None
        self._transcript = terminal.transcript()
        self._is_dirty = asyncio.Event()
        self._quiet_since = self.conversation.clock()
        self._phase = ""
        self._written: tuple[str | None, SessionState] = (None, self.conversation.state)

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        """The keys of this mode, for the help."""
        return self.terminal.keys

    @property
    def changes(self) -> LineChanges:
        """Review, rewind and files, which few sessions need."""
        if self._changes is None:
            from dragoman.tui.lines.changes import LineChanges

            self._changes = LineChanges(self.conversation, self.write)
        return self._changes

    async def run(self, reading: asyncio.Future[Any], first: str | None = None) -> None:
        """Serve the conversation until `reading` is over; then leave it, and say how to come back."""
        if first:
            _ = self.conversation.send(first)
        tasks = [asyncio.ensure_future(work) for work in (self._converse(), self._draw(), self._beat())]
        try:
            # One of ours ends only by a defect: it is raised below, instead of a client that stands still.
            _ = await asyncio.wait({reading, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                await reading
        finally:
            _ = reading.cancel()
            _ = await asyncio.wait({reading})
            running = self.conversation.is_running  # before `leave`: what happens after that is not known here
            self.prompts.close()
            await self.conversation.leave()
            if self._announcing is not None:
                tasks.append(self._announcing)
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task
            self._show()
            self._farewell(running=running)

    async def _converse(self) -> None:
        if self.welcomes:
            await self.open_welcome()
            if self._welcome is not None:
                _ = await self._welcome.chosen.wait()
        await self.conversation.run()

    async def open_welcome(self) -> None:
        """Show what is on this machine, to choose from."""
        from dragoman.tui.lines.welcome import LineWelcome

        is_first = self.welcomes and self._welcome is None
        self._welcome = LineWelcome(self, self._opening, is_first=is_first)
        await self._welcome.show()

    @property
    def is_choosing(self) -> bool:
        """Whether the welcome is open, where an empty line chooses, too."""
        return self._welcome is not None and not self._welcome.chosen.is_set()

    # Writing

    def write(self, *lines: str) -> None:
        """Append lines, which are safe."""
        if lines:
            self._quiet_since = self.conversation.clock()
            self.terminal.write(lines)

    def width(self) -> int:
        """Return the columns of the terminal."""
        return self.terminal.width()

    async def _draw(self) -> None:
        while True:
            await self._is_dirty.wait()
            self._is_dirty.clear()  # before it is shown: what changes meanwhile is shown next time
            self._show()
            await asyncio.sleep(_LOOK_SECONDS)

    def _show(self, *, is_over: bool = False) -> None:
        self.write(*self._transcript.feed(self.conversation.state, watched=self.conversation.watched, is_over=is_over))
        if self.conversation.phase == "ready":  # otherwise the id may be of the session that is opened next
            self._written = (self.conversation.session_id, self.conversation.state)
        if self.conversation.phase != self._phase:
            self._phase = self.conversation.phase
            self._show_phase()
        if self._phase == "ready":
            self._show_unasked()
        self.answers.show_trouble()
        self.terminal.changed()

    def _show_unasked(self) -> None:
        """Write when the agent begins to act without asking, and when that is over."""
        words = unasked_words(self.conversation.state, self.conversation.agent)
        if words != self._unasked:
            self._unasked = words
            over = "note: the agent asks again"
            self.write(self.terminal.paint(f"warning: mode {words}", YELLOW) if words else over)

    def _show_phase(self) -> None:
        conversation = self.conversation
        if conversation.phase == "ready":
            agent = f" with {label(conversation.agent, 60)}" if conversation.agent else ""
            title = f": {label(conversation.state.title, 80)}" if conversation.state.title else ""
            self.write(f"note: session {label(conversation.session_id or '', 60)}{agent}{title}")
            for question in conversation.questions:
                if question.shown_at == inf:
                    self.answers.asked(question)
            if self._announcing is None:
                self._announcing = asyncio.ensure_future(self._announce())
        elif conversation.phase == "failed":
            self.answers.show_trouble()
            self.write("note: /retry tries again, /new AGENT uses another agent")

    async def _announce(self) -> None:
        """Say once which sessions run and which need the user, or list them."""
        from dragoman.tui.local_host.session_rows import words_at_start

        if self._chooses:
            await self.take("/dragoman:resume")
            return
        with suppress(DragomanError, OSError):  # the connection is lost already; the next line says so
            rows = await self.conversation.sessions()
            others = [row for row in rows if row.session_id != self.conversation.session_id]
            words = words_at_start(others, self.conversation.folder, "/resume")
            if words:
                self.note(words)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            started = self.conversation.started_at
            self.answers.watch()
            self.terminal.changed()
            is_quiet = self.conversation.clock() - self._quiet_since >= _BEAT_SECONDS
            if started is not None and is_quiet and not self.terminal.has_status:
                self.write(f"note: still working, {duration(self.conversation.clock() - started)}")

    def _farewell(self, *, running: bool) -> None:
        words = self.conversation.farewell(was_running=running)
        if words:
            self.write(f"note: {words}")

    # What the conversation calls

    def changed(self) -> None:
        self._is_dirty.set()

    def reloaded(self) -> None:
        # What was written last, which may be less than the lost connection brought: the rest is written from the old
        # state first, so that the place to go on in the new one is behind what the terminal shows.
        session_id, before = self._written
        state = self.conversation.state
        is_again = session_id is not None and session_id == self.conversation.session_id
        if is_again:
            self.write(*self._transcript.feed(before, is_over=True))
        self._transcript = self.terminal.transcript()
        if is_again:
            self._transcript.resume(state, *resume_place(before, state))
        is_over = not self.conversation.is_running
        self.write(*self._transcript.feed(state, watched=self.conversation.watched, is_over=is_over))
        self._transcript.omit_prompts()
        self._written = (self.conversation.session_id, state)

    def asked(self, question: AskedQuestion) -> None:
        if self.conversation.phase != "ready":
            # It comes before the history of its session, and is written behind that. Until then nothing answers it.
            question.shown_at = inf
            return
        self._show(is_over=True)
        self.answers.asked(question)
        self.terminal.changed()

    def withdrawn(self, question: AskedQuestion, why: str) -> None:
        self.withdrawn_at = self.conversation.clock()
        self.write(f"note: the question is closed: {one_line(why)}")
        self.terminal.changed()

    def form(self, form: OpenForm) -> None:
        self._show(is_over=True)
        self.answers.form(form)

    def form_withdrawn(self, form: OpenForm) -> None:
        self.answers.form_withdrawn(form)

    def ended(self, prompt: TypedPrompt | None, stop_reason: str | None, error: str) -> None:
        self._show(is_over=True)
        if error:
            self.answers.show_trouble()
        elif (stop_reason != "end_turn" or prompt is None) and not self.terminal.has_status:
            self.write(f"note: the turn ended: {_ENDINGS.get(stop_reason or '', stop_reason or 'interrupted')}")
        waiting = len(self.conversation.queued)
        if not self.terminal.has_status:
            self.write(f"-- done{f', {waiting} waiting' if waiting else ''}")

    def returned(self, text: str, why: str) -> None:
        if self.terminal.give_back(text):
            self.write(f"note: not sent, and back in the input: {one_line(why)}")
        else:
            lines = (f"  {label(line, 4_000, '')}" for line in text.split("\n"))
            self.write(f"note: not sent: {one_line(why)}; type it again:", *lines)

    def note(self, text: str) -> None:
        self.write(f"note: {one_line(text)}")

    # Typed lines

    async def take(self, raw: str) -> None:
        """Do what a typed line means; errors are written, and end nothing."""
        try:
            await self._take(raw.strip(), raw)
        except (DragomanError, OSError) as error:
            self.write(f"error: {one_line(str(error))}")

    async def _take(self, text: str, raw: str) -> None:
        if self._welcome is not None and self.is_choosing and await self._welcome.take(text):
            return
        if await self.answers.take(text):
            return
        if self._changes is not None and await self._changes.takes(text):
            return
        literal = literal_text(raw)
        if literal is not None:
            await self.prompts.send(literal)
        elif text.startswith("/") and await self._run_command(text):
            return
        elif text.startswith("!"):
            await self.prompts.shell(text[1:])
        elif text:
            await self.prompts.send(text)

    async def _run_command(self, text: str) -> bool:
        """Run a slash command of this client, or say that there is none; False if the text goes to the agent."""
        word, _, rest = text[1:].partition(" ")
        theirs = [command.name for command in self.conversation.state.commands]
        command = client_command(word, theirs)
        function = None if command is None else load_function(command.name)
        if function is not None:
            await function(self, rest.strip())
            return True
        known = {*theirs, *(ours.name for ours in client_commands())}
        problem = unknown_command(text, known, is_agent_known=self.conversation.phase == "ready")
        if problem:
            self.write(f"note: {problem}")
            _ = self.terminal.give_back(text)
        return bool(problem)

    def interrupt(self) -> bool:
        """Stop the command or the turn that runs, as Ctrl+C does; what waits is given back. False if there is none."""
        return self.prompts.stop_shell() or self.conversation.stop() is not None

    @property
    def runs_on(self) -> bool:
        """Whether a turn would go on after this client is left, and was not asked to stop."""
        return self.conversation.is_running and not self.conversation.is_stopping


def leaving_words(text: str) -> str | None:
    """Return the words behind a command that leaves the client; None for any other line."""
    word, _, rest = text.partition(" ")
    return rest.strip() if word in ("/leave", "/quit", "/exit") else None


class PromptSender:
    """The prompts, sent in the order in which they were typed, and the commands behind `!`."""

    def __init__(self, client: LineClient) -> None:
        self.chips: dict[str, Chip] = {}
        """The attachments that a word in a text stands for."""
        self._client = client
        self._next: list[Chip] = []  # go with the next prompt, where there is no input to put them into
        self._building = asyncio.Lock()
        self._shell: ShellCommand | None = None
        self._running: asyncio.Task[None] | None = None

    # Prompts

    async def send(self, text: str) -> TypedPrompt:
        """Send a text with what is attached to it. It waits while a turn runs."""
        client, conversation = self._client, self._client.conversation
        for chip in self._next:
            text = f"{text} {chip.word}"
        self._next = []
        async with self._building:
            blocks = await self._build(text)
            is_waiting = conversation.is_running or conversation.phase != "ready"
            sent = conversation.send(text, blocks)
        if is_waiting and not client.terminal.has_status:
            client.write(f"note: waiting, {len(conversation.queued)} in the queue")
        return sent

    async def _build(self, text: str) -> Sequence[v1.ContentBlock]:
        if not mentions(text) and not chips_in(text, self.chips):
            return ()
        conversation = self._client.conversation
        made = await asyncio.to_thread(build, text, conversation.folder, dict(self.chips), conversation.accepts)
        for note in made.notes:
            self._client.write(f"note: {one_line(note)}")
        return made.blocks

    # Commands

    async def shell(self, words: str) -> None:
        """Run what stands behind `!`; `!!` attaches the last command with its output, `!!COMMAND` runs and attaches."""
        is_shared = words.startswith("!")
        command = words.removeprefix("!").strip()
        if self._running is not None and not self._running.done():
            self._client.write("note: a command of yours still runs; Ctrl+C stops it")
        elif command:
            self._shell = ShellCommand(command, lambda: None)
            self._running = asyncio.ensure_future(self._run(self._shell, is_shared=is_shared))
        elif self._shell is not None and is_shared:
            self._share(self._shell)
        else:
            self._client.write("note: type a command behind !; !! attaches the last one with its output")

    def stop_shell(self) -> bool:
        """End the command that runs; False if there is none."""
        if self._running is None or self._running.done() or self._shell is None:
            return False
        self._shell.stop()
        return True

    def close(self) -> None:
        """End the command with the client."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self, command: ShellCommand, *, is_shared: bool) -> None:
        client = self._client
        client.write(f"shell: {label(command.command, 200)}")
        work = asyncio.ensure_future(command.run(client.conversation.folder, client.width() - 2))
        shown = 0
        try:
            while not work.done():
                _ = await asyncio.wait([work], timeout=_OUTPUT_SECONDS)
                shown = self._write_output(command, shown)
        finally:
            if not work.done():
                work.cancel()
        lines = command.output.split("\n")
        if len(lines) > shown and shown >= _OUTPUT_LINES:
            last = lines[shown:][-_LAST_OUTPUT_LINES:]
            client.write(f"  ({len(lines) - shown - len(last)} lines left out)", *(f"  {line}" for line in last))
        after = f" after {duration(command.seconds).strip()}"
        more = "" if is_shared else "; !! attaches it to the prompt"
        client.write(f"shell: {one_line(command.ending)}{after}{more}")
        if is_shared:
            self._share(command)

    def _write_output(self, command: ShellCommand, shown: int) -> int:
        if shown >= _OUTPUT_LINES or not command.output:
            return shown
        lines = command.output.split("\n")
        self._client.write(*(f"  {line.expandtabs(8)}" for line in lines[shown:_OUTPUT_LINES]))
        return min(len(lines), _OUTPUT_LINES)

    def _share(self, command: ShellCommand) -> None:
        self.attach(output_chip(command.command, command.output, command.ending, self.chips))

    def attach(self, chip: Chip) -> None:
        """Attach something to the prompt that is being typed, or to the next one."""
        self.chips[chip.word] = chip
        if not self._client.terminal.attach(chip):
            self._next.append(chip)
            self._client.write(f"note: {label(chip.word, 80)} goes with your next prompt")


def resume_place(before: SessionState, after: SessionState) -> tuple[int, int]:
    """Return the last item of `after` that `before` has, and how many of its characters; (-1, 0) if there is none.

    A loaded session may begin later than the one that was written, and end earlier or later.
    """
    for item in reversed(before.timeline[-_LOOKED_AT:]):
        for position in range(len(after.timeline) - 1, max(-1, len(after.timeline) - 1 - _LOOKED_AT), -1):
            if _is_same(item, after.timeline[position]):
                return position, len(item.text) if isinstance(item, Message) else 0
    return (len(after.timeline) - 1, 0) if before.timeline else (-1, 0)


def _is_same(old: TimelineItem, new: TimelineItem) -> bool:
    if isinstance(old, ToolCallState) and isinstance(new, ToolCallState):
        return old.id == new.id
    if isinstance(old, Message) and isinstance(new, Message):
        return old.role == new.role and bool(old.text) and new.text.startswith(old.text)
    return False
