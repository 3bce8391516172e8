"""The output of a run: the chosen form on stdout, everything for people on stderr.

Owns the four forms, and that no known key is in any of them. A result is written once, as a whole, and in every form
but `raw`, which is the conversation itself. A failure of stdout is kept and reported at the end: it takes precedence
over the result.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dragoman.cli import console, exits
from dragoman.text.secrets import Secrets

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from dragoman.cli.exec.connection import RunConnection
    from dragoman.cli.exec.events import Event
    from dragoman.cli.exec.options import Form
    from dragoman.cli.exec.result import Error, RunResult, RunViolation
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
        """Called when stdout fails for the first time: the run has lost its reader."""
        self.secrets = Secrets(os.environ)
        """Keys that are masked in everything that is written."""

    def show_progress(self, *, is_verbose: bool, root: str) -> None:
        """Show progress on stderr from now on."""
        from dragoman.cli.prompt.progress import Progress

        self.progress = Progress(sys.stderr, console.uses_colour(sys.stderr), is_verbose, root=root)

    def frames(self) -> list[Observer]:
        """Return the observer that writes the literal frames, if that is the form."""
        return [_frames(self)] if self.form == "raw" else []

    def log(self) -> AbstractContextManager[None]:
        """While entered, warnings of the library are shown to the user as notes."""
        return console.shown_log(self.note)

    # What happens, in order

    def opened(self, conn: RunConnection) -> None:
        if conn.is_scripted:
            self.note("the agent is scripted: it plays a script and calls no model")
        if self.form == "events" and conn.session is not None:
            from dragoman.cli.exec.events import Opened

            self._event(
                Opened(
                    session_id=conn.session.id,
                    agent=conn.described(),
                    scripted=conn.is_scripted,
                    is_resumed=conn.is_resumed,
                )
            )

    def update(self, update: v1.SessionUpdate, state: SessionState) -> None:
        if self.form == "events":
            from dragoman.cli.exec.events import event_of

            self._event(event_of(update, state))
        if self.progress is not None:
            self.progress.update(update, state)

    def decided(self, decision: Decision) -> None:
        """Report a decision; one that the user did not make is shown in every form."""
        if self.form == "events":
            from dragoman.cli.exec.events import PermissionEvent
            from dragoman.cli.exec.result import permission

            self._event(PermissionEvent(permission(decision)))
        if self.progress is not None:
            self.progress.decision(decision)
        elif decision.decided_by != "person":
            done = {"allow": "allowed", "deny": "denied"}.get(decision.action, "cancelled")
            self.note(f"{done} {decision.kind}: {decision.title} ({decision.decided_by})")

    def violated(self, violation: RunViolation) -> None:
        """Report what the agent did although a rule denies it, in every form."""
        if self.form == "events":
            from dragoman.cli.exec.events import ViolationEvent

            self._event(ViolationEvent(violation))
        self.note(f"violation: {violation.kind}: {violation.title} was done, but is denied by {violation.decided_by}")

    def terminal_output(self, terminal_id: str, data: bytes) -> None:
        if self.form == "events":
            from dragoman.cli.exec.events import TerminalEvent

            self._event(TerminalEvent(terminal_id, data.decode(errors="replace")))
        if self.progress is not None:
            self.progress.terminal_output(terminal_id, data)

    def note(self, sentence: str) -> None:
        """Show a line about the run to the user."""
        sentence = self.secrets.mask(sentence)
        if self.progress is not None:
            self.progress.note(f"dragoman: {sentence}")
        else:
            console.write_note(sentence)

    # The end

    def finish(self, result: RunResult, state: SessionState | None) -> None:
        """Write the result, and show the user how the run ended."""
        if self.progress is not None and state is not None:
            self.progress.end(result.stop_reason, state, seconds=result.duration_ms / 1000)
        self._write_result(result)
        if result.error is not None:
            self._explain(result, result.error)

    def write(self, data: bytes) -> None:
        """Write to stdout at once. Never raises; a failure is kept in `failure` and ends the run."""
        if self.failure is not None:
            return
        try:
            sys.stdout.buffer.write(self.secrets.mask_bytes(data))
            sys.stdout.buffer.flush()
        except OSError as error:
            self.failure = error
            if self.on_failure is not None:
                self.on_failure()

    def write_json(self, data: bytes) -> None:
        """Write JSON to stdout as it is, but to a terminal without anything that acts on it."""
        self.write(console.json_text(data).encode() if sys.stdout.isatty() else data)

    def _write_result(self, result: RunResult) -> None:
        from msgspec import json

        match self.form:
            case "json":
                self.write_json(json.format(json.encode(result), indent=2) + b"\n")
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
        """Return whether progress has shown the answer on this terminal already."""
        return self.progress is not None and sys.stdout.isatty()

    def _event(self, event: Event) -> None:
        from msgspec import json

        self.write_json(json.encode(event) + b"\n")

    def _explain(self, result: RunResult, error: Error) -> None:
        from dragoman.text.terminal import plain

        if result.exit_code == exits.AGENT_DIED:
            for call in result.tool_calls:
                if call.is_open:
                    self.note(f"still open: {call.kind}: {call.title} ({call.status})")
        if error.stderr_tail and "\n" in error.stderr_tail.strip():  # the last line is in the message
            sys.stderr.write("dragoman: the end of the agent's stderr:\n")
            for line in plain(self.secrets.mask(error.stderr_tail)).rstrip().splitlines():
                sys.stderr.write(f"    {line}\n")
        console.write_error(self.secrets.mask(error.message), self.secrets.mask(error.hint or ""))


def _frames(output: Output) -> Observer:
    from dragoman.rpc import Observer

    class Frames(Observer):
        """Writes every frame as it is; the direction of each follows from its content."""

        def received(self, line: bytes) -> None:
            output.write_json(line + b"\n")

        def sent(self, line: bytes) -> None:
            output.write_json(line + b"\n")

    return Frames()
