"""A hosted turn in the forms that need the state of a session: events, and progress on a terminal.

Folds the updates as a client does, but without an event loop and without a role. The result is the host's, which has
recorded the turn as plain `exec` does; it is folded here only for a host of another version, which makes none.
"""

from __future__ import annotations

import os
from base64 import b64decode
from shlex import split
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import json, structs

from dragoman.cli.exec.activity import Activity
from dragoman.cli.exec.error import explain
from dragoman.cli.exec.exit_code import KINDS, RunFacts, exit_code_of, note_error
from dragoman.cli.exec.hosted.document import times
from dragoman.cli.exec.hosted.ending import as_error, entry_of, error_of, facts_of, note_permissions
from dragoman.cli.exec.hosted.turn import HostedTurn, OutputLost
from dragoman.cli.exec.options import Options
from dragoman.cli.exec.recording import make_recorder
from dragoman.cli.exec.retry import may_pass, wait_seconds
from dragoman.cli.exec.view import ExecView
from dragoman.client.terminals import Look
from dragoman.runs import result as results
from dragoman.runs.events import (
    CommandEnded,
    CommandStarted,
    EndOfTurn,
    Initialized,
    LeftUnjudged,
    Opened,
    TerminalOutput,
    TurnEnded,
    Updated,
    Violated,
    read_event,
)
from dragoman.runs.patch import write_patch
from dragoman.runs.record import RunRecord, describe_agent
from dragoman.runs.terms import SessionTerms, Terms, read_terms
from dragoman.schema import UNSET, decode, v1
from dragoman.state import SessionState, fold

if TYPE_CHECKING:
    from dragoman.cli.exec.hosted.turn import HostedEnd, TurnRequest
    from dragoman.cli.exec.options import Form
    from dragoman.cli.prompt.progress import Progress
    from dragoman.process.sandbox.confinement import FinishedCommand
    from dragoman.registry.agents import AgentEntry
    from dragoman.runs.events import RunEvent


def run_shown(request: TurnRequest, options: Options | None = None) -> int:
    """Run a turn and write it in the form that the options choose; gives the exit code.

    Raises:
        OSError: stdout could not be written.
    """
    chosen = options or Options(cwd=request.cwd, progress="terminal")
    view = ShownTurn(request, chosen)
    turn = _run(request, view)
    while view.begin_retry(turn.end):
        turn = _run(request, view)
    return view.finish(turn.end)


def _run(request: TurnRequest, view: ShownTurn) -> HostedTurn:
    turn = HostedTurn(request, view)
    try:
        turn.run()
    except Exception as error:  # whatever happens, one result is written
        turn.end.error = error
    view.run.end(turn.end)
    return turn


class HostedRun:
    """A run of the local host, as its client knows it: its state and its record, folded from what the host sends."""

    def __init__(self, request: TurnRequest) -> None:
        self.state = SessionState()
        self.record = RunRecord(_terms({}, request))
        self.model: str | None = None
        self._request = request
        self._output: dict[str, bytes] = {}
        self._running: dict[str, CommandStarted] = {}
        self._ended: dict[str, FinishedCommand] = {}

    def open(self, session: dict[str, Any]) -> None:
        """Take the session, as the host describes it; the prompt is sent next."""
        self.record = RunRecord(_terms(session, self._request), look=self.look)
        self.record.session_id = str(session.get("sessionId"))
        self.state.begin_turn(decode(list[v1.ContentBlock], json.encode(self._request.blocks)))

    def fold(self, update: dict[str, Any]) -> Updated:
        """Fold an update into the state, and return it as an event."""
        read: v1.SessionUpdate = decode(v1.SessionUpdate, json.encode(update))
        fold(self.state, read)
        return Updated(session_id=self.record.session_id or "", updates=[read], lines=())

    def take(self, event: RunEvent) -> None:
        """Take the next event into the record."""
        match event:
            case Opened(model=model):
                self.model = model
            case CommandStarted(terminal_id=id):
                self._running[id] = event
            case TerminalOutput(terminal_id=id, data=data):
                self._output[id] = self._output.get(id, b"") + data
            case CommandEnded(command=command):
                self._ended[command.terminal_id] = command
        self.record.take(event)

    def look(self, terminal_id: str) -> Look | None:
        """Return what the terminal of a command shows, as far as it was sent; its output may come behind its end."""
        started, ended = self._running.get(terminal_id), self._ended.get(terminal_id)
        command = ended or started
        if command is None:
            return None
        asked = None if ended is None else ended.request.command
        return Look(
            terminal_id=terminal_id,
            session_id=command.session_id,
            command=command.command,
            cwd=started.cwd if started is not None else "" if asked is None else asked.cwd,
            text=self._output.get(terminal_id, b"").decode(errors="replace").replace("\r\n", "\n"),
            is_truncated=False,
            is_running=ended is None,
            is_released=ended is not None,
            exit_code=None if ended is None else ended.exit_code,
            signal=None if ended is None else ended.signal,
        )

    def end(self, end: HostedEnd) -> None:
        """Take the end of the turn."""
        if not self.state.is_running:  # it never came to a prompt
            self.state.begin_turn([])
        response = None
        if end.result.get("stopReason"):
            response = decode(v1.PromptResponse, json.encode(end.result))
            self.record.take(TurnEnded(prompt_id=self._request.prompt_id, end=EndOfTurn(response=response)))
        self.state.end_turn(end.stop_reason, UNSET if response is None else response.usage)


def _terms(found: dict[str, Any], request: TurnRequest, entry: AgentEntry | None = None) -> Terms:
    """Return as much of a session's terms as the host's description of it has."""
    words = split(str(found.get("agent", "")).removeprefix("-- "))
    chosen = read_terms(found.get("terms")) if found else SessionTerms()
    name = entry.name if entry is not None else words[0] if words else ""
    return Terms(
        agent=name, entry=entry, chosen=chosen, project=request.cwd, roots=(request.cwd,), rules=lambda mode: ()
    )


def finish_document(
    request: TurnRequest,
    session: dict[str, Any],
    updates: list[dict[str, Any]],
    end: HostedEnd,
    started: float,
    *,
    is_quiet: bool,
) -> int:
    """Write the result of a turn that failed, or whose host made none, and how it ended; gives the exit code.

    Raises:
        OSError: stdout could not be written.
    """
    run = HostedRun(request)
    if session:
        run.open(session)
    for update in updates:
        run.take(run.fold(update))
    run.end(end)
    if not is_quiet:
        note_permissions(end, request.cwd)
    view = ExecView("json")
    options = Options(cwd=request.cwd, timeout_seconds=request.timeout_seconds)
    result = _complete_result(run, end, options, started, request)
    view.finish(result, None)
    if view.failure is not None:
        raise view.failure
    return result.exit_code


def write_refusal(form: Form, error: Exception) -> int:
    """Write the result of a run whose command line cannot be used; gives the exit code.

    Raises:
        OSError: stdout could not be written.
    """
    facts = RunFacts()
    note_error(facts, error)
    result, view = results.RunResult.nothing(), ExecView(form)
    result.exit_code = exit_code_of(facts)
    result.error = explain(result.exit_code, facts, error, result)
    view.finish(result, None)
    if view.failure is not None:
        raise view.failure
    return result.exit_code


def _complete_result(
    run: HostedRun, end: HostedEnd, options: Options, started: float, request: TurnRequest
) -> results.RunResult:
    """Return the result that the host made, or one of what was seen, with exit code, error and times."""
    document = end.report.get("result")
    facts = facts_of(end, fails_on_deny=options.fails_on_deny, stops_on_violation=options.stops_on_violation)
    result = (
        msgspec.convert(document, results.RunResult) if isinstance(document, dict) else _folded_result(run, request)
    )
    code = result.exit_code = exit_code_of(facts)
    result.error = None if code == 0 else error_of(code, facts, end, options, request.session)
    result.stop_reason = facts.stop_reason
    measured = times(end, started)
    result.duration_ms = measured["duration_ms"]
    result.durations = results.RunDurations(**measured["durations"])
    return result


def _folded_result(run: HostedRun, request: TurnRequest) -> results.RunResult:
    if not request.session:
        return results.RunResult.nothing()
    terms = _terms(request.session, request, entry_of(request.session, request.cwd))
    if run.record.session_id is None:  # the agent could not be started, or refused to open a session
        result = RunRecord(terms).result(None)
    else:
        result = run.record.result(run.state)
        if not result.agent or not result.agent.command:
            result.agent = describe_agent(terms)
    if terms.chosen.sandbox != "off":
        result.sandbox = None  # only the host knows it
    return result


class ShownTurn:
    """A turn that is shown by the view of plain `exec`, from the same events."""

    def __init__(self, request: TurnRequest, options: Options) -> None:
        self._options = options
        self._view = ExecView(options.form)
        self._view.root = request.cwd
        self._view.activity = Activity()
        self._view.show_progress(options)
        self._view.begin_progress()
        self._view.on_failure = _lose_reader
        self._request = request
        self._tool_updates: list[dict[str, Any]] = []
        self._started = monotonic()
        self._retries: list[results.RunRetry] = []
        self._stop_cause, self._has_events = "", False
        self._begin_try(options.recording)
        request.wants_result, request.wants_patch = True, options.patch is not None
        request.wants_events = True

    def _begin_try(self, recording: str | None) -> None:
        self.run = self._view.run = HostedRun(self._request)
        if self._view.progress is not None:
            self._view.progress.look = self.run.look
        recorder = make_recorder(recording, ("dragoman", "exec", "--session", self._request.name), self._request.cwd)
        self._request.observers = [*self._view.frames(), *([] if recorder is None else [recorder])]

    @property
    def progress(self) -> Progress | None:
        return self._view.progress

    # As `TurnView` has them

    def opened(self, session: dict[str, Any], *, has_events: bool) -> None:
        self.run.open(session)
        self._has_events = has_events
        if not has_events:
            record = self.run.record
            id, is_scripted = record.session_id or "", record.agent.name == "scripted"
            self._take(Opened(session_id=id, is_resumed=True, is_scripted=is_scripted, mode=None, model=None))

    def update(self, update: dict[str, Any]) -> None:
        event = self.run.fold(update)
        if isinstance(event.updates[0], v1.ToolCall | v1.ToolCallUpdate):
            self._tool_updates.append(update)
        self._take(event)

    def event(self, event: dict[str, Any]) -> None:
        read = read_event(event)
        if isinstance(read, Initialized):
            # The host has started the program, perhaps long ago; a reader of events gets the same ones as always.
            self._view.started(lambda: structs.replace(read.agent, title=None, version=None))
        if isinstance(read, Violated | LeftUnjudged):
            self._stop_cause = "the violation" if isinstance(read, Violated) else "what cannot be judged"
        if read is not None:
            self._take(read)

    def _take(self, event: RunEvent) -> None:
        self.run.take(event)  # first: the view shows what is known by now
        self._view.take(event)

    def violated(self, text: str) -> None:
        if not self._has_events:
            self._stop_cause = "the violation"
            self._view.note(text)

    @property
    def stop_cause(self) -> str:
        return self._stop_cause if self._options.stops_on_violation else ""

    def note(self, text: str) -> None:
        self._view.note(text)

    @property
    def tick_seconds(self) -> float:
        return self._view.tick_seconds

    def tick(self, seconds: float) -> None:
        self._view.tick()

    def tool_updates(self) -> list[dict[str, Any]]:
        return self._tool_updates

    # Another try

    def begin_retry(self, end: HostedEnd) -> bool:
        """Wait, and prepare another try, if the turn failed in a way that may pass and changed nothing."""
        if self._view.failure is not None:
            return False
        number, of, options = len(self._retries) + 1, self._options.retries, self._options
        error = None if end.error is None else as_error(end.error)
        facts = facts_of(end, fails_on_deny=options.fails_on_deny, stops_on_violation=options.stops_on_violation)
        may_have_changed = end.report.get("mayHaveChanged", self.run.record.may_have_changed)
        if number > of or not may_pass(facts, error) or may_have_changed:
            return False
        seconds = wait_seconds(number, error)
        left = None
        if options.timeout_seconds is not None:
            left = options.timeout_seconds - (monotonic() - self._started) - seconds
            if left <= 0:
                return False
        code = exit_code_of(facts)
        message = error_of(code, facts, end, options, self._request.session).message
        self._retries.append(results.RunRetry(KINDS[code], message, round(seconds * 1000)))  # type: ignore[arg-type]
        self._view.retrying(self._retries[-1], number, of)
        sleep(seconds)
        self._request.prompt_id = os.urandom(16).hex()
        self._request.timeout_seconds = left
        self._tool_updates.clear()
        self._begin_try(None if options.recording is None else f"{options.recording}.retry-{number}")
        return True

    # The end

    def finish(self, end: HostedEnd) -> int:
        """Write the result; gives the exit code."""
        if self._view.failure is not None:
            raise self._view.failure
        result = _complete_result(self.run, end, self._options, self._started, self._request)
        result.retries = list(self._retries)
        result.patch = self._write_patch(end)
        self._view.finish(result, self.run.state)
        if self._view.failure is not None:
            raise self._view.failure
        return result.exit_code

    def _write_patch(self, end: HostedEnd) -> results.RunPatch | None:
        path = self._options.patch
        if path is None:
            return None
        found = end.report.get("patch") or {"data": "", "files": [], "left_out": []}
        left_out = msgspec.convert(found["left_out"], list[results.LeftOut])
        try:
            patch = write_patch(path, b64decode(found["data"]), found["files"], left_out)
        except OSError as error:
            self._view.note(f"--patch {path}: {error.strerror}")
            return None
        for missing in patch.left_out:
            self._view.note(f"not in the patch: {missing.path}: {missing.reason}")
        return patch


def _lose_reader() -> None:
    """End the turn: stdout cannot be written any more."""
    raise OutputLost


def write_queued(request: TurnRequest, turn: HostedTurn) -> None:
    """Write that a prompt is queued, as one JSON document."""
    from dragoman.cli.console import write_json

    write_json(
        {
            "schema": "dragoman.exec.queued/1",
            "session": request.name,
            "session_id": turn.session.get("sessionId"),
            "prompt_id": request.prompt_id,
            "kept_seconds": turn.session.get("keptSeconds"),
        }
    )
