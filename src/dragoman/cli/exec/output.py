"""What a run writes: the form the user chose on stdout, everything for people on stderr.

Owns the four forms and who sees what. A result is written once, whole, and in every form but `raw`, which is the
conversation itself. Knows nothing of how a run goes; what fails on stdout is kept, because it outranks every result.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dragoman.cli import console, exits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from logging import Handler

    from dragoman.cli.exec.connection import Connected
    from dragoman.cli.exec.events import Event
    from dragoman.cli.exec.options import Form
    from dragoman.cli.exec.result import Error, Result
    from dragoman.cli.prompt.progress import Progress
    from dragoman.policy.decide import Decision
    from dragoman.rpc import Observer
    from dragoman.schema import v1
    from dragoman.state import SessionState


class Output:
    """Both streams of one run."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.progress: Progress | None = None
        self.failure: OSError | None = None
        """Why stdout could not be written."""
        self.on_failure: Callable[[], object] | None = None
        """Told when stdout fails for the first time: nobody is left to work for."""

    def show_progress(self, *, is_verbose: bool, root: str) -> None:
        """From now on people see on stderr what happens."""
        from dragoman.cli.prompt.progress import Progress

        self.progress = Progress(sys.stderr, console.uses_colour(sys.stderr), is_verbose, root=root)

    def frames(self) -> list[Observer]:
        """Who writes the literal frames, if that is the form."""
        return [_frames(self)] if self.form == "raw" else []

    @contextmanager
    def log(self) -> Iterator[None]:
        """While entered, what the library warns of is told to people, in our form."""
        import logging

        logger, handler = logging.getLogger("dragoman"), _log_handler(self)
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)

    # What happens, in order

    def opened(self, to: Connected) -> None:
        if to.is_scripted:
            self.note("the agent is scripted: it plays a script and calls no model")
        if self.form == "events" and to.session is not None:
            from dragoman.cli.exec.events import Opened

            agent, is_scripted = to.described(), to.is_scripted
            self._event(Opened(session_id=to.session.id, agent=agent, scripted=is_scripted, is_resumed=to.is_resumed))

    def update(self, update: v1.SessionUpdate, state: SessionState) -> None:
        if self.form == "events":
            from dragoman.cli.exec.events import event_of

            self._event(event_of(update, state))
        if self.progress is not None:
            self.progress.update(update, state)

    def decided(self, decision: Decision) -> None:
        """Every verdict that no person gave is told to people, whatever the form."""
        if self.form == "events":
            from dragoman.cli.exec.events import PermissionEvent
            from dragoman.cli.exec.result import permission

            self._event(PermissionEvent(permission(decision)))
        if self.progress is not None:
            self.progress.decision(decision)
        elif decision.decided_by != "person":
            done = {"allow": "allowed", "deny": "denied"}.get(decision.action, "cancelled")
            self.note(f"{done} {decision.kind}: {decision.title} ({decision.decided_by})")

    def terminal_output(self, terminal_id: str, data: bytes) -> None:
        if self.form == "events":
            from dragoman.cli.exec.events import Terminal

            self._event(Terminal(terminal_id, data.decode(errors="replace")))
        if self.progress is not None:
            self.progress.terminal_output(terminal_id, data)

    def note(self, sentence: str) -> None:
        """A line for people."""
        from dragoman.text.terminal import one_line

        if self.progress is not None:
            self.progress.note(f"dragoman: {sentence}")
        else:
            sys.stderr.write(f"dragoman: {one_line(sentence)}\n")

    # The end

    def finish(self, result: Result, state: SessionState | None) -> None:
        """Writes the result, and to people how it ended."""
        if self.progress is not None and state is not None:
            self.progress.end(result.stop_reason, state, seconds=result.duration_ms / 1000)
        self._write_result(result)
        if result.error is not None:
            self._explain(result, result.error)

    def write(self, data: bytes) -> None:
        """Writes to stdout, now; never raises, because it is called in the middle of other things."""
        if self.failure is not None:
            return
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except OSError as error:
            self.failure = error
            if self.on_failure is not None:
                self.on_failure()

    def _write_result(self, result: Result) -> None:
        from msgspec import json

        match self.form:
            case "json":
                self.write(json.format(json.encode(result), indent=2) + b"\n")
            case "events":
                from dragoman.cli.exec.events import ResultEvent

                self._event(ResultEvent(result))
            case "text" if result.text and not self._was_seen():
                text = result.text
                if sys.stdout.isatty():
                    from dragoman.text.terminal import plain

                    text = plain(text)
                self.write((text if text.endswith("\n") else text + "\n").encode(errors="replace"))

    def _was_seen(self) -> bool:
        """On one terminal the answer has just gone by among the progress; a second copy would only confuse."""
        return self.progress is not None and sys.stdout.isatty()

    def _event(self, event: Event) -> None:
        from msgspec import json

        self.write(json.encode(event) + b"\n")

    def _explain(self, result: Result, error: Error) -> None:
        from dragoman.text.terminal import plain

        if result.exit_code == exits.AGENT_DIED:
            for call in result.tool_calls:
                if call.is_open:
                    self.note(f"still open: {call.kind}: {call.title} ({call.status})")
        if error.stderr_tail and "\n" in error.stderr_tail.strip():  # the last line is in the message
            sys.stderr.write("dragoman: the agent's last words on stderr:\n")
            for line in plain(error.stderr_tail).rstrip().splitlines():
                sys.stderr.write(f"    {line}\n")
        console.write_error(plain(error.message), plain(error.hint or ""))


def _frames(output: Output) -> Observer:
    from dragoman.rpc import Observer

    class Frames(Observer):
        """Writes every frame as it is; the direction of each follows from what it says."""

        def received(self, line: bytes) -> None:
            output.write(line + b"\n")

        def sent(self, line: bytes) -> None:
            output.write(line + b"\n")

    return Frames()


def _log_handler(output: Output) -> Handler:
    import logging

    class ToPeople(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            output.note(f"{record.levelname.lower()}: {record.getMessage()}")
            if record.exc_info and os.environ.get("DRAGOMAN_DEBUG"):
                sys.stderr.write(logging.Formatter().formatException(record.exc_info) + "\n")

    return ToPeople(logging.WARNING)
