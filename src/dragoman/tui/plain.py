"""The terminal client that only appends lines: for screen readers, `TERM=dumb`, and wherever a cursor is in the way.

The user types lines. A line is a prompt, unless it begins with `/`, or is the number of an answer to the question that
is open. A question is answered by its number only, and nothing that was typed before it could be read counts.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from dragoman.errors import DragomanError
from dragoman.text.colour import Painter
from dragoman.text.terminal import duration, one_line
from dragoman.text.visible import label
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.plain_answers import PlainAnswers
from dragoman.view.appended import AppendedLines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dragoman.tui.interface import Opening
    from dragoman.tui.plain_changes import PlainChanges
    from dragoman.tui.values import AskedQuestion, ListedSession, OpenForm, TypedPrompt

HELP: Final = """\
Type a prompt and press Enter; a line that ends with \\ goes on in the next one. While a turn runs, a prompt waits
for its end. Commands:
  /stop           stop the turn that runs (Ctrl-C does the same)
  /queue          list the prompts that wait; /drop N takes one back
  /sessions       list the sessions of the host; /open N goes to one
  /new [AGENT]    begin a new session
  /mode [MODE]    show or change the mode
  /set [KEY VALUE]  show or change the options of the agent
  /diff [TURN]    show what a turn changed
  /rewind [TURN]  list the turns; with a number, show what taking back from there would change, and ask
  /redo           show what bringing back the last rewind would change, and ask
  /export md|html|json [FILE]  write the session to a file
  /report [FILE]  list the parts of a report for a bug, without private contents, and ask
  /retry          try again after a failure
  /why TEXT       reject the open question and say why
  /login          log in to the agent
  /help           this list
  /quit           leave; the work goes on (Ctrl-D does the same)
Other lines that begin with / are commands of the agent, and are sent to it.
A question is answered by typing the number of an answer."""
COMMANDS: Final = ("diff", "rewind", "redo", "export", "report")
"""Those of `plain_changes.py`, which is imported when one is first used."""
_BEAT_SECONDS: Final = 20.0
_ENDINGS: Final = {"cancelled": "stopped", "refusal": "the agent refused", "max_tokens": "the answer was too long"}


class PlainInterface:
    """Reads lines from stdin and appends lines to stdout."""

    def __init__(self, opening: Opening, paint: Painter, width: Callable[[], int], session_id: str | None) -> None:
        self._paint = paint
        self._width = width
        self._lines = AppendedLines(width(), paint)
        self._talk = HostedConversation(opening, self, session_id=session_id)
        self._is_dirty = asyncio.Event()
        self._is_over = False
        self._quiet_since = monotonic()
        self._rows: list[ListedSession] = []
        self._answers = PlainAnswers(self._talk, self._write, width, paint)
        self._phase = ""
        self._changes: PlainChanges | None = None

    async def run(self, first: str | None = None) -> int:
        """Work until the user leaves. Returns the exit code."""
        if first:
            _ = self._talk.send(first)
        connecting = asyncio.ensure_future(self._talk.run())
        drawing = asyncio.ensure_future(self._draw())
        beating = asyncio.ensure_future(self._beat())
        try:
            await self._read()
        finally:
            running = self._talk.is_running
            await self._talk.leave()
            for task in (connecting, drawing, beating):
                task.cancel()
            for task in (connecting, drawing, beating):
                with suppress(asyncio.CancelledError):
                    await task
            self._show()
            self._farewell(running=running)
        return 0

    # Writing

    def _write(self, *lines: str) -> None:
        if lines:
            self._quiet_since = monotonic()
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            sys.stdout.flush()

    async def _draw(self) -> None:
        while True:
            await self._is_dirty.wait()
            self._is_dirty.clear()
            self._show()
            await asyncio.sleep(0.05)  # a burst of updates is one look at the state

    def _show(self, *, is_over: bool = False) -> None:
        self._write(*self._lines.feed(self._talk.state, watched=self._talk.watched, is_over=is_over))
        if self._talk.phase != self._phase:
            self._phase = self._talk.phase
            self._show_phase()
        self._answers.show_trouble()

    def _show_phase(self) -> None:
        talk = self._talk
        if talk.phase == "ready":
            agent = f" with {label(talk.agent, 60)}" if talk.agent else ""
            title = f": {label(talk.state.title, 80)}" if talk.state.title else ""
            self._write(f"note: session {label(talk.session_id or '', 60)}{agent}{title}")
        elif talk.phase == "failed":
            self._answers.show_trouble()
            self._write("note: /retry tries again, /new AGENT uses another agent")

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            started = self._talk.started_at
            self._answers.watch()
            if started is not None and monotonic() - self._quiet_since >= _BEAT_SECONDS:
                self._write(f"note: still working, {duration(monotonic() - started)}")

    def _farewell(self, *, running: bool) -> None:
        if self._talk.session_id is not None:
            state = "still running; " if running else ""
            self._write(f"note: {state}dragoman attach {label(self._talk.session_id, 80)} brings you back")

    # What the conversation calls

    def changed(self) -> None:
        self._is_dirty.set()

    def reloaded(self) -> None:
        self._lines = AppendedLines(self._width(), self._paint)
        watched, is_over = self._talk.watched, not self._talk.is_running
        self._write(*self._lines.feed(self._talk.state, watched=watched, is_over=is_over))
        self._lines.omit_prompts()

    def asked(self, question: AskedQuestion) -> None:
        self._show(is_over=True)
        self._answers.asked(question)

    def withdrawn(self, question: AskedQuestion, why: str) -> None:
        self._write(f"note: the question is closed: {one_line(why)}")

    def form(self, form: OpenForm) -> None:
        self._show(is_over=True)
        self._answers.form(form)

    def form_withdrawn(self, form: OpenForm) -> None:
        self._answers.form_withdrawn(form)

    def ended(self, prompt: TypedPrompt | None, stop_reason: str | None, error: str) -> None:
        self._show(is_over=True)
        if error:
            self._answers.show_trouble()
        elif stop_reason != "end_turn" or prompt is None:
            self._write(f"note: the turn ended: {_ENDINGS.get(stop_reason or '', stop_reason or 'interrupted')}")
        waiting = len(self._talk.queued)
        self._write(f"-- done{f', {waiting} waiting' if waiting else ''}")

    def note(self, text: str) -> None:
        self._write(f"note: {one_line(text)}")

    # Reading

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        kept = ""
        while True:
            line = await self._line(loop)
            if line is None:
                return
            if line.endswith("\\"):
                kept += line[:-1] + "\n"
                continue
            text, kept = (kept + line).strip(), ""
            if text in ("/quit", "/exit"):
                return
            # An empty line keeps the value of a field.
            if text or self._answers.is_filling:
                await self._take(text)

    async def _line(self, loop: asyncio.AbstractEventLoop) -> str | None:
        """The next line of stdin, None at its end. Ctrl-C stops the turn; without one it leaves."""
        ready: asyncio.Future[str | None] = loop.create_future()

        def read() -> None:
            try:
                found = sys.stdin.readline()
            except (OSError, ValueError, UnicodeDecodeError):
                found = ""
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, ready, found.rstrip("\n") if found else None)

        import threading

        threading.Thread(target=read, daemon=True, name="dragoman-stdin").start()
        return await ready

    async def _take(self, text: str) -> None:
        if await self._answers.take(text):
            return
        if self._changes is not None and await self._changes.takes(text):
            return
        if text.startswith("/"):
            word, _, rest = text[1:].partition(" ")
            await self._command(word, rest.strip(), text)
        else:
            self._send(text)

    def _send(self, text: str) -> None:
        is_waiting = self._talk.is_running or self._talk.phase != "ready"
        _ = self._talk.send(text)
        if is_waiting:
            self._write(f"note: waiting, {len(self._talk.queued)} in the queue")

    async def _command(self, word: str, rest: str, whole: str) -> None:
        actions: dict[str, Callable[[str], Awaitable[None]]] = {
            "help": self._help,
            "stop": self._stop,
            "queue": self._queue,
            "drop": self._drop,
            "sessions": self._sessions,
            "open": self._open,
            "new": self._new,
            "retry": self._retry,
            "mode": self._mode,
            "set": self._set,
            **{word: partial(self._change, word) for word in COMMANDS},
        }
        action = actions.get(word)
        if action is None:
            self._send(whole)  # a command of the agent
            return
        try:
            await action(rest)
        except DragomanError as error:
            self._write(f"error: {one_line(str(error))}")

    async def _change(self, word: str, rest: str) -> None:
        """A command about changes and files, which few sessions need."""
        if self._changes is None:
            from dragoman.tui.plain_changes import PlainChanges

            self._changes = PlainChanges(self._talk, self._write)
        await self._changes.command(word, rest)

    async def _help(self, rest: str) -> None:
        self._write(*HELP.splitlines())

    async def _stop(self, rest: str) -> None:
        await self._talk.cancel()

    async def _new(self, rest: str) -> None:
        await self._talk.switch(None, agent=rest or None)

    async def _retry(self, rest: str) -> None:
        self._talk.retry()

    async def _sessions(self, rest: str) -> None:
        self._rows = await self._talk.sessions()
        if not self._rows:
            self._write("note: there are no sessions")
        for number, row in enumerate(self._rows, 1):
            title, folder = row.title or row.name or row.session_id, os.path.basename(row.folder)
            self._write(f"{number}: {row.word}, {label(title, 60)}, {label(row.agent, 30)}, {label(folder, 30)}")

    async def _queue(self, rest: str) -> None:
        if not self._talk.queued:
            self._write("note: nothing waits")
        for number, prompt in enumerate(self._talk.queued, 1):
            self._write(f"{number}: {label(prompt.text, 100)}")

    async def _drop(self, rest: str) -> None:
        waiting = self._talk.queued
        if not rest.isdigit() or not 1 <= int(rest) <= len(waiting):
            self._write("note: /drop takes the number of a prompt in /queue")
        elif self._talk.take_back(waiting[int(rest) - 1]):
            self._write("note: taken back")
        else:
            self._write("note: its turn runs already")

    async def _open(self, rest: str) -> None:
        if not self._rows:
            self._rows = await self._talk.sessions()
        if not rest.isdigit() or not 1 <= int(rest) <= len(self._rows):
            self._write("note: /open takes the number of a session in /sessions")
            return
        await self._talk.switch(self._rows[int(rest) - 1])

    async def _mode(self, rest: str) -> None:
        modes = self._talk.state.modes
        if modes is None:
            self._write("note: the agent has no modes")
            return
        names = {mode.id: mode.name for mode in modes.available_modes}
        if not rest:
            current = self._talk.state.mode
            for id, name in names.items():
                self._write(f"{'now' if id == current else 'mode'}: {label(id, 40)}, {label(name, 60)}")
        elif rest not in names:
            self._write(f"note: there is no mode {label(rest, 40)}")
        else:
            await self._talk.set_mode(rest)
            self._write(f"note: mode {label(names[rest], 60)}")

    async def _set(self, rest: str) -> None:
        options = {str(option.id): option for option in self._talk.state.config_options if hasattr(option, "id")}
        key, _, value = rest.partition(" ")
        if not options:
            self._write("note: the agent has no options")
        elif not key:
            for id, option in options.items():
                now = label(str(getattr(option, "current_value", "")), 40)
                self._write(f"{label(id, 40)}: {now} ({label(str(getattr(option, 'name', '')), 60)})")
        elif key not in options or not value:
            self._write(f"note: /set KEY VALUE; the keys are {label(', '.join(options), 200)}")
        else:
            kind = isinstance(getattr(options[key], "current_value", None), bool)
            await self._talk.set_option(key, value in ("true", "on", "yes") if kind else value)
            self._write(f"note: {label(key, 40)} is {label(value, 40)}")

    async def interrupt(self) -> bool:
        """Ctrl-C: stop the turn. False if there is none."""
        if not self._talk.is_running:
            return False
        await self._talk.cancel()
        return True


def _settle(future: asyncio.Future[str | None], value: str | None) -> None:
    if not future.done():
        future.set_result(value)


def run(opening: Opening, session_id: str | None, first: str | None, has_colour: bool) -> int:
    """Work in this terminal until the user leaves. Returns the exit code."""
    return asyncio.run(_work(opening, session_id, first, Painter(has_colour)))


async def _work(opening: Opening, session_id: str | None, first: str | None, paint: Painter) -> int:
    interface = PlainInterface(opening, paint, lambda: shutil.get_terminal_size().columns, session_id)
    working = asyncio.ensure_future(interface.run(first))

    def interrupt() -> None:
        stopping = asyncio.ensure_future(interface.interrupt())
        stopping.add_done_callback(lambda done: None if done.cancelled() or done.result() else working.cancel())

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, working.cancel)
    try:
        return await working
    except asyncio.CancelledError:
        return 0
