"""The view of a run: the chosen form on stdout, everything for people on stderr.

Owns the four forms, and that no known key is in any of them. A result is written once, as a whole, and in every form
but `raw`, which is the conversation itself. A failure of stdout is kept and reported at the end: it takes precedence
over the result.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol

from dragoman.cli import console, exits
from dragoman.cli.exec.heartbeat import Heartbeat
from dragoman.cli.prompt.subject import subject
from dragoman.text.colour import YELLOW
from dragoman.text.secrets import Secrets

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from dragoman.cli.exec.activity import Activity
    from dragoman.cli.exec.events import Event
    from dragoman.cli.exec.options import Form, Options, ProgressForm
    from dragoman.cli.prompt.progress import Progress
    from dragoman.client.connection import HasStderr
    from dragoman.policy.decide import Decision
    from dragoman.rpc import Observer
    from dragoman.runs.events import (
        Asking,
        CommandEnded,
        Decided,
        Initialized,
        LeftUnjudged,
        Noted,
        Opened,
        RunEvent,
        TerminalOutput,
        TurnStarted,
        Updated,
        Violated,
    )
    from dragoman.runs.record import RunRecord
    from dragoman.runs.result import (
        Error,
        RunAgent,
        RunCommand,
        RunPermission,
        RunResult,
        RunRetry,
        RunUnjudged,
        RunViolation,
    )
    from dragoman.state import SessionState
    from dragoman.text.secrets import SplitMask


class ShownRun(Protocol):
    """A run, as far as it is shown: of an agent of our own, or of the local host."""

    @property
    def state(self) -> SessionState | None: ...

    @property
    def record(self) -> RunRecord: ...

    @property
    def model(self) -> str | None: ...


class ExecView:
    """Both streams of one run."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.root = ""
        """The folder of the run."""
        self.progress: Progress | None = None
        self.progress_form: ProgressForm = "none"
        self.run: ShownRun | None = None
        self.transport: HasStderr | None = None
        """Leads to the agent's program."""
        self._options: Options | None = None
        self.activity: Activity | None = None
        """What the run is doing."""
        self.failure: OSError | None = None
        """Why stdout could not be written."""
        self.on_failure: Callable[[], object] | None = None
        """Called when stdout fails for the first time: the run has lost its reader."""
        self._heartbeat = Heartbeat()
        self._is_finished = False
        self._written: dict[str, int] = {}  # a hash of the last event of each key
        self.secrets = Secrets(os.environ)
        """Keys that are masked in everything that is written."""
        self._log_mask: SplitMask | None = None

    def show_progress(self, options: Options) -> None:
        """Show progress on stderr in the chosen form, from the start of the agent's program on."""
        self.progress_form, self._options = options.progress, options

    def begin_progress(self) -> None:
        """Create the progress. Not earlier: loading what it needs would delay the start of the program."""
        options = self._options
        if options is None or self.progress is not None or options.progress in ("none", "json"):
            return
        root, is_verbose = options.cwd, options.is_verbose
        if options.progress == "github":
            from dragoman.cli.exec.github import github_progress

            self.progress = github_progress(is_verbose, root=root)
            return
        from dragoman.cli.prompt.progress import Progress

        # Without a terminal the answer is on stdout only: a log would have it twice.
        self.progress = Progress(
            sys.stderr,
            console.uses_colour(sys.stderr),
            is_verbose,
            root=root,
            shows_text=is_verbose or sys.stderr.isatty(),
            has_status=options.progress == "terminal" and os.environ.get("TERM", "dumb") != "dumb",
        )

    @property
    def _has_events(self) -> bool:
        return self.form == "events" or self.progress_form == "json"

    def frames(self) -> list[Observer]:
        """Return the observer that writes the literal frames, if that is the form."""
        return [_frames(self)] if self.form == "raw" else []

    # What happens, in order

    def starting(self, name: str, describe: Callable[[], RunAgent]) -> None:
        """Show that the agent's program was started."""
        self.begin_progress()
        self._heartbeat.name = name
        if self.progress_form in ("plain", "github"):
            self.note(f"starting {name}")
        self.tick()
        if self._has_events:
            self.started(describe)

    def started(self, describe: Callable[[], RunAgent]) -> None:
        """Write the first event of a run: the agent's program is there."""
        if self._has_events:
            from dragoman.cli.exec.events import StartingEvent

            self._event(StartingEvent(agent=describe()))

    def take(self, event: RunEvent) -> None:
        """Show an event of the run."""
        kind = type(event).__name__  # by name: the types are loaded after the agent's program was started
        show = getattr(self, f"_on_{kind.lower()}", None)
        if show is not None:
            show(event)

    def _on_updated(self, event: Updated) -> None:
        run = self.run
        if run is None or run.state is None or event.session_id != run.record.session_id:  # a subagent's
            return
        for update in event.updates:
            if self.activity is not None:
                self.activity.note_update(update)
            if self._has_events:
                from dragoman.cli.exec.events import event_of, repeated_key

                self._event(event_of(update, run.state, run.record.tools), repeated_key(update))
            if self.progress is not None:
                self.progress.update(update, run.state)
            mode = getattr(update, "current_mode_id", None)
            if isinstance(mode, str):
                self._note_mode(mode)

    def _on_decided(self, event: Decided) -> None:
        from dragoman.runs.result import permission

        self.decided(event.decision, permission(event.decision))

    def _on_commandended(self, event: CommandEnded) -> None:
        from dragoman.runs.result import finished_command

        self.command_finished(finished_command(event.command, event.hint))

    def _on_violated(self, event: Violated) -> None:
        self.violated(event.violation)

    def _on_leftunjudged(self, event: LeftUnjudged) -> None:
        self.unjudged(event.unjudged)

    def _on_terminaloutput(self, event: TerminalOutput) -> None:
        self.terminal_output(event.terminal_id, event.data)

    def _on_asking(self, event: Asking) -> None:
        if self.activity is not None:
            self.activity.asking = event.title

    def _on_noted(self, event: Noted) -> None:
        self.note(event.text)

    def _on_turnstarted(self, event: TurnStarted) -> None:
        if self.activity is not None:
            self.activity.enter("working")
        self.tick()

    def _on_initialized(self, event: Initialized) -> None:
        if self.activity is not None:
            self.activity.enter("opening")
        self.tick()
        if self._has_events:
            from dragoman.cli.exec.events import InitializedEvent

            self._event(
                InitializedEvent(
                    agent=event.agent,
                    protocol_version=event.protocol_version,
                    login_methods=list(event.login_methods),
                )
            )

    def _on_opened(self, event: Opened) -> None:
        if event.is_scripted:
            self.note("the agent is scripted: it plays a script and calls no model")
        if event.mode is not None:
            self._note_mode(event.mode)
        if self.progress_form in ("plain", "github") and self.run is not None:
            self.note(self._heartbeat.opened(self.run))
        self.tick()
        if self._has_events and self.run is not None:
            from dragoman.cli.exec.events import OpenedEvent

            self._event(
                OpenedEvent(
                    session_id=event.session_id,
                    agent=self.run.record.agent,
                    scripted=event.is_scripted,
                    is_resumed=event.is_resumed,
                    model=event.model,
                    mode=event.mode,
                )
            )

    def retrying(self, retry: RunRetry, number: int, of: int) -> None:
        """Show that a try failed and is repeated."""
        if self._has_events:
            from dragoman.cli.exec.events import RetryEvent

            self._event(RetryEvent(number, of, retry))
        self.note(f"{retry.message}; trying again in {retry.waited_ms / 1000:g} s ({number} of {of})")

    def decided(self, decision: Decision, described: RunPermission) -> None:
        """Report a decision; one that the user did not make is shown in every form."""
        if self._has_events:
            from dragoman.cli.exec.events import PermissionEvent

            self._event(PermissionEvent(described))
        if self.progress is not None:
            self.progress.decision(decision)
            if decision.action != "allow" and decision.decided_by != "person":
                what = f"{decision.kind}: {subject(decision, self.root)} ({decision.decided_by})"
                self._annotate("warning", "Denied" if decision.action == "deny" else "Not permitted", what)
        elif self.progress_form == "json":
            return
        elif decision.decided_by != "person":
            done = {"allow": "allowed", "deny": "denied"}.get(decision.action, "cancelled")
            self.note(f"{done} {decision.kind}: {subject(decision, self.root)} ({decision.decided_by})")

    def violated(self, violation: RunViolation) -> None:
        """Report what the agent did although a rule denies it, in every form."""
        if self._has_events:
            from dragoman.cli.exec.events import ViolationEvent

            self._event(ViolationEvent(violation))
        if violation.rule is not None:
            sentence = f"{violation.title} was done, but is denied by {violation.decided_by}"
        else:
            by = f" by {violation.command}" if violation.command else ""
            sentence = f"{violation.title}{by}; it is a protected file"
        kept = f"; kept in {violation.kept}" if violation.kept else ""
        self.note(f"violation: {violation.kind}: {sentence}{kept}{'; put back' if violation.is_restored else ''}")
        self._annotate("error", "Violation", sentence, next(iter(violation.paths), ""))

    def unjudged(self, unjudged: RunUnjudged) -> None:
        """Report what the agent did, of which it cannot be seen whether a rule denies it, in every form."""
        if self._has_events:
            from dragoman.cli.exec.events import UnjudgedEvent

            self._event(UnjudgedEvent(unjudged))
        sentence = f"{unjudged.title} was done; {unjudged.why}, and {unjudged.decided_by} may concern it"
        self.note(f"unjudged: {unjudged.kind}: {sentence}")
        self._annotate("warning", "Unjudged", sentence)

    def command_finished(self, command: RunCommand) -> None:
        """Report the end of a command that dragoman ran, and what its sandbox kept from it."""
        if self._has_events:
            from dragoman.cli.exec.events import CommandEvent

            self._event(CommandEvent(command))
        if command.refused:
            wanted = ", ".join(f"{refused.kind} ({refused.subject})" for refused in command.refused)
            self.note(f"the sandbox ({command.sandbox}) kept from `{command.command}`: {wanted}; {command.hint}")

    def terminal_output(self, terminal_id: str, data: bytes) -> None:
        if self._has_events:
            from dragoman.cli.exec.events import TerminalEvent

            self._event(TerminalEvent(terminal_id, data.decode(errors="replace")))
        if self.progress is not None:
            self.progress.terminal_output(terminal_id, data)

    def note(self, sentence: str) -> None:
        """Show a line about the run to the user."""
        sentence = self.secrets.mask(sentence)
        if self.progress_form == "json":
            from dragoman.cli.exec.events import NoteEvent

            self._to_stderr(NoteEvent(sentence))
        elif self.progress is not None:
            self.progress.note(f"dragoman: {sentence}")
        else:
            console.write_note(sentence)

    def _note_mode(self, mode: str) -> None:
        """Show the user that the agent acts without asking in its mode."""
        if self.run is None:
            return
        from dragoman.registry.mode_reach import reach_of

        agent = self.run.record.agent
        if reach_of(agent.name or "", mode, command=tuple(agent.command)) == "unlimited":
            self.warn(f"the agent is in its mode {mode}, in which it acts without asking")

    def warn(self, sentence: str) -> None:
        """Show a line about the run to the user, in the colour of a warning where colours are shown."""
        if self.progress_form == "json":
            self.note(sentence)
        elif self.progress is not None:
            self.progress.note(f"dragoman: warning: {self.secrets.mask(sentence)}", YELLOW)
        else:
            console.write_warning(self.secrets.mask(sentence))

    # The end

    def finish(self, result: RunResult, state: SessionState | None) -> None:
        """Write the result, and show the user how the run ended."""
        self._is_finished = True
        if self.progress is not None:
            self.progress.show_status("")
        if self.progress is not None and state is not None:
            self.progress.end(result.stop_reason, state, seconds=result.duration_ms / 1000)
        self._write_result(result)
        if result.lost_characters:
            self.note(f"{result.lost_characters} characters of the answer were not kept: it is too long")
        if self.progress is not None and self.progress_form != "json" and result.changes is not None:
            from dragoman.runs.changes import summary

            if line := summary(result.changes):
                self.note(line)
        if result.project_code:
            from dragoman.policy.project_code import listed

            self.note(listed(result.project_code))
        if self.progress_form == "json":
            from dragoman.cli.exec.events import EndEvent

            self._to_stderr(EndEvent(result.exit_code, result.error, result.duration_ms))
        elif result.error is not None:
            self.explain(result, result.error)
        if self.progress_form == "github":
            self._finish_github(result)

    def write(self, data: bytes) -> None:
        """Write to stdout at once. Never raises; a failure is kept in `failure` and ends the run."""
        if self.failure is not None:
            return
        try:
            data = self.secrets.mask_bytes(data)
            if self.progress_form == "github":  # the runner reads commands from stdout, too
                from dragoman.cli.exec.github import defuse_output

                data = defuse_output(data)
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except OSError as error:
            self.failure = error
            if self.on_failure is not None:
                self.on_failure()

    def write_frame(self, data: bytes) -> None:
        """Write a frame to stdout: literally, but to a terminal without anything that acts on it."""
        self.write(console.json_text(data).encode() if sys.stdout.isatty() else data)

    def _write_result(self, result: RunResult) -> None:
        match self.form:
            case "json":
                self.write(f"{console.json_of(result, indent=2)}\n".encode())
            case "events":
                from dragoman.cli.exec.events import ResultEvent

                self._event(ResultEvent(result))
            # Progress on the same terminal has shown the answer already.
            case "text" if result.text and (self.progress is None or not sys.stdout.isatty()):
                text = result.text
                if sys.stdout.isatty():
                    from dragoman.text.terminal import plain

                    text = plain(text)
                self.write((text if text.endswith("\n") else text + "\n").encode(errors="replace"))

    def _event(self, event: Event, key: str | None = None) -> None:
        """Write an event, unless it has a key and is the same as the last one with this key."""
        from msgspec import json

        from dragoman.cli.exec.events import ResultEvent

        try:
            data = json.encode(event)
        except UnicodeEncodeError:
            data = console.json_of(event).encode()
        if not data.isascii() or b"\x7f" in data:  # else there is nothing to escape; this is the path of every update
            data = console.json_text(data).encode()
        if key is not None:
            known = hash(data)
            if self._written.get(key) == known:
                return
            self._written[key] = known
        if self.form == "events":
            self.write(data + b"\n")
        if self.progress_form == "json" and not isinstance(event, ResultEvent):
            self._to_stderr(event)

    def _to_stderr(self, event: Event) -> None:
        """Write an event of `--progress json`."""
        try:
            sys.stderr.write(self.secrets.mask(console.json_of(event)) + "\n")
            sys.stderr.flush()
        except OSError:  # as with other progress: the run goes on without it
            self.progress_form = "none"

    # What goes on

    @property
    def tick_seconds(self) -> float:
        """How often `tick` is to be called."""
        return self._heartbeat.interval(self.progress_form)

    def ticking(self, loop: asyncio.AbstractEventLoop) -> AbstractContextManager[None]:
        """Show from time to time that the run goes on, while entered."""
        return self._heartbeat.ticking(loop, self.progress_form, self.tick)

    def tick(self) -> None:
        """Show what the run is doing: in the status line, or as a line if nothing was shown for a while.

        Nothing once the result is written: the agent is ended after that, and what is shown then would stay.
        """
        if self.activity is None or self._is_finished:
            return
        self.activity.has_open_form = self.progress is not None and self.progress.is_held
        state = None if self.run is None else self.run.state
        doing = self.activity.now(state, self.stderr_tail)
        if self.progress_form == "terminal" and self.progress is not None:
            self.progress.show_status(self._heartbeat.status(self.run, doing, self.activity.elapsed_seconds))
        elif self.progress_form == "json" and self._heartbeat.is_due():
            from dragoman.cli.exec.events import ProgressEvent
            from dragoman.runs.result import RunWaiting

            used = None if state is None or state.usage is None else state.usage.used
            spent = round(self.activity.elapsed_seconds * 1000)
            self._to_stderr(ProgressEvent(RunWaiting(doing.what, doing.name or None), spent, used))
        elif self.progress is not None and self._heartbeat.is_due(self.progress.count):
            self.note(self._heartbeat.still(self.run, doing, self.activity.elapsed_seconds))

    @property
    def stderr_tail(self) -> str:
        """The end of what the agent wrote to stderr."""
        return "" if self.transport is None else self.transport.stderr_tail

    def agent_log(self, data: bytes, *, is_end: bool = False) -> None:
        """Show what the agent writes to stderr (`--verbose`); a key that comes in two pieces is masked, too."""
        if self._log_mask is None:
            from dragoman.text.secrets import SplitMask

            self._log_mask = SplitMask(self.secrets)
        text = (self._log_mask.feed(data) + (self._log_mask.finish() if is_end else b"")).decode(errors="replace")
        if not text:
            return
        if self.progress is not None:
            self.progress.log(text)
        elif self.progress_form == "json":
            self.note(text)

    # GitHub Actions

    def _annotate(self, level: str, title: str, message: str, path: str = "") -> None:
        if self.progress_form == "github":
            from dragoman.cli.exec.github import GithubProgress

            assert isinstance(self.progress, GithubProgress)
            self.progress.annotate(level, f"dragoman: {title}", self.secrets.mask(message), path)

    def _finish_github(self, result: RunResult) -> None:
        """Add the annotation of an error, and the summary of the job."""
        if result.error is not None:
            hint = f" ({result.error.hint})" if result.error.hint else ""
            self._annotate("error", f"exec failed with exit code {result.exit_code}", result.error.message + hint)
        path = os.environ.get("GITHUB_STEP_SUMMARY")
        if not path:
            return
        from dragoman.cli.exec.job_summary import job_summary

        try:
            with open(path, "a", encoding="utf-8", errors="replace") as file:
                file.write(self.secrets.mask(job_summary(result, None if self.run is None else self.run.model)))
        except OSError as error:
            self.note(f"the job summary cannot be written: {error.strerror}")

    def explain(self, result: RunResult, error: Error) -> None:
        """Show why the run failed."""
        from dragoman.text.terminal import plain

        if result.exit_code == exits.AGENT_DIED:
            for call in result.tool_calls:
                if call.is_open:
                    self.note(f"still open: {call.kind}: {call.title} ({call.status})")
        # The last line is in the message if the agent died.
        if error.stderr_tail and (error.kind != "agent_died" or "\n" in error.stderr_tail.strip()):
            sys.stderr.write("dragoman: the end of the agent's stderr:\n")
            for line in plain(self.secrets.mask(error.stderr_tail)).rstrip().splitlines():
                sys.stderr.write(f"    {line}\n")
        console.write_error(self.secrets.mask(error.message), self.secrets.mask(error.hint or ""))


def _frames(view: ExecView) -> Observer:
    from dragoman.rpc import Observer

    class Frames(Observer):
        """The frames, each written as it is; the direction of each follows from its content."""

        def received(self, line: bytes) -> None:
            view.write_frame(line + b"\n")

        def sent(self, line: bytes) -> None:
            view.write_frame(line + b"\n")

    return Frames()
