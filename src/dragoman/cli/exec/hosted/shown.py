"""A hosted turn in the forms that need the state of a session: JSON, events, and progress on a terminal.

Folds the updates as a client does, but without an event loop and without a role. The result has the members that plain
`exec` has; what only the host sees comes from its report of the turn.
"""

from __future__ import annotations

import os
from base64 import b64decode
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import json

from dragoman.cli.exec.events import Opened
from dragoman.cli.exec.exit_code import KINDS, RunFacts, exit_code_of
from dragoman.cli.exec.hosted.ending import as_error, decisions_of, error_of, facts_of, note_decision
from dragoman.cli.exec.hosted.turn import HostedTurn
from dragoman.cli.exec.options import Options
from dragoman.cli.exec.output import Output
from dragoman.cli.exec.recording import make_recorder
from dragoman.cli.exec.retry import HARMLESS, may_pass, wait_seconds
from dragoman.runs import result as results
from dragoman.runs.changes import hosted_changes, with_seen
from dragoman.runs.patch import PatchWatch
from dragoman.runs.tool_calls import ToolWatch
from dragoman.schema import UNSET, decode, v1
from dragoman.state import SessionState, fold
from dragoman.text.secrets import known_keys
from dragoman.workspace import Change

if TYPE_CHECKING:
    from dragoman.cli.exec.hosted.turn import HostedEnd, TurnRequest
    from dragoman.cli.exec.hosted.violations import HostedViolations
    from dragoman.cli.prompt.progress import Progress


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
    view.end_turn(turn.end)
    return turn


class ShownTurn:
    """Shows a turn by the output of plain `exec`."""

    def __init__(self, request: TurnRequest, options: Options) -> None:
        self._options = options
        self._output = Output(options.form)
        self._output.root = request.cwd
        self._output.show_progress(options)
        self._output.begin_progress()
        self._state = SessionState()
        self._tools = ToolWatch(request.cwd)
        self._tool_updates: list[dict[str, Any]] = []
        self._request = request
        self._found: dict[str, Any] = {}
        self._has_usage = False
        self._tokens: v1.Usage | None = None
        self._started = monotonic()
        self._retries: list[results.RunRetry] = []
        self._patch = PatchWatch(request.cwd) if options.patch is not None else None
        self._violations: HostedViolations | None = None
        self._has_changed_protected = False
        request.wants_files = self._patch is not None
        self._observe(options.recording)

    def _observe(self, recording: str | None) -> None:
        recorder = make_recorder(recording, ("dragoman", "exec", "--session", self._request.name), self._request.cwd)
        self._request.observers = [*self._output.frames(), *([] if recorder is None else [recorder])]

    @property
    def progress(self) -> Progress | None:
        return self._output.progress

    # As `TurnView` has them

    def opened(self, found: dict[str, Any]) -> None:
        self._found = found
        blocks = decode(list[v1.ContentBlock], json.encode(self._request.blocks))
        self._state.begin_turn(blocks)
        if self._options.stops_on_violation:
            from dragoman.cli.exec.hosted.violations import HostedViolations

            self._violations = HostedViolations(found, self._state)
        self._output.write_event(
            Opened(session_id=found["sessionId"], agent=self._agent(), scripted=self._is_scripted(), is_resumed=True)
        )

    def update(self, update: dict[str, Any]) -> None:
        found = decode(v1.SessionUpdate, json.encode(update))
        fold(self._state, found)
        if isinstance(found, v1.ToolCall | v1.ToolCallUpdate):
            self._tools.note(found)
            self._tool_updates.append(update)
            if self._patch is not None:
                self._patch.note(self._state.tool_calls[found.tool_call_id])
        elif isinstance(found, v1.UsageUpdate):
            self._has_usage = self._has_usage or bool(found.used or found.cost)
        self._output.update(found, self._state, self._tools)
        violation = None if self._violations is None else self._violations.look(found)
        if violation is not None:
            self._output.violated(violation)

    def decided(self, decision: dict[str, Any]) -> None:
        if self._violations is not None:
            self._violations.decided(decision)

    def protected(self) -> None:
        self._has_changed_protected = True

    @property
    def wants_stop(self) -> bool:
        watch = self._violations
        return watch is not None and (watch.is_found or self._has_changed_protected)

    def note(self, text: str) -> None:
        self._output.note(text)

    def still(self, seconds: float) -> None:
        if self._options.progress in ("plain", "terminal"):
            self._output.note(f"still working after {seconds:.0f} s")

    def tool_updates(self) -> list[dict[str, Any]]:
        return self._tool_updates

    # Another try

    def begin_retry(self, end: HostedEnd) -> bool:
        """Wait, and prepare another try, if the turn failed in a way that may pass and changed nothing."""
        number, of, options = len(self._retries) + 1, self._options.retries, self._options
        error = None if end.error is None else as_error(end.error)
        facts = facts_of(end, fails_on_deny=options.fails_on_deny)
        if number > of or not may_pass(facts, error) or self._has_changed_something(end):
            return False
        seconds = wait_seconds(number, error)
        left = None
        if options.timeout_seconds is not None:
            left = options.timeout_seconds - (monotonic() - self._started) - seconds
            if left <= 0:
                return False
        code = exit_code_of(facts)
        message = error_of(code, facts, end).message
        self._retries.append(results.RunRetry(KINDS[code], message, round(seconds * 1000)))  # type: ignore[arg-type]
        self._output.retrying(self._retries[-1], number, of)
        sleep(seconds)
        self._request.prompt_id = os.urandom(16).hex()
        self._request.timeout_seconds = left
        self._tool_updates.clear()
        self._has_usage = False
        if options.recording is not None:
            self._observe(f"{options.recording}.retry-{number}")
        return True

    def _has_changed_something(self, end: HostedEnd) -> bool:
        """Whether the turn may have changed something, as far as it was seen."""
        kinds = {str(each.get("kind")) for each in decisions_of(end) if each.get("action") == "allow"}
        calls = results.tool_calls(self._state, self._state.turns[-1])
        kinds |= {str(call.kind) for call in calls}
        return bool(end.report.get("commands") or kinds - HARMLESS)

    # The end

    def end_turn(self, end: HostedEnd) -> None:
        """The turn is over, and may be tried again."""
        state = self._state
        if not state.is_running:  # it never came to a prompt
            state.begin_turn([])
        usage = end.result.get("usage")
        self._tokens = tokens = decode(v1.Usage, json.encode(usage)) if isinstance(usage, dict) else None
        state.end_turn(end.stop_reason, tokens if tokens is not None else UNSET)
        end.is_empty = end.stop_reason == "end_turn" and self._is_empty(tokens)
        end.violations = [] if self._violations is None else self._violations.found

    def finish(self, end: HostedEnd) -> int:
        """Write the result; gives the exit code."""
        facts = facts_of(end, fails_on_deny=self._options.fails_on_deny)
        code = exit_code_of(facts)
        for decision in decisions_of(end):
            if self._options.progress not in ("none", "json") or decision.get("action") != "allow":
                self._output.note(known_keys.mask(note_decision(decision)))
        result = self._result(code, facts, end, self._tokens)
        self._output.finish(result, self._state)
        if self._output.failure is not None:
            raise self._output.failure
        return code

    def _changes(self, end: HostedEnd) -> list[Change]:
        """The files that the host wrote for the agent."""
        return [
            Change(str(each["path"]), _content(each.get("before")), _content(each.get("after")))
            for each in end.report.get("files") or ()
        ]

    def _write_patch(self, end: HostedEnd) -> results.RunPatch | None:
        path, watch = self._options.patch, self._patch
        if path is None or watch is None:
            return None
        data, files, left_out = watch.build(self._changes(end), self._state, self._state.turns[-1])
        try:
            with open(path, "wb") as file:
                file.write(data)
        except OSError as error:
            self._output.note(f"--patch {path}: {error.strerror}")
            return None
        return results.RunPatch(os.path.abspath(path), files, left_out)

    def _is_empty(self, tokens: v1.Usage | None) -> bool:
        turn = self._state.turns[-1]
        has_text = any(text.strip() for text in turn.texts)
        return not (has_text or self._tool_updates or self._has_usage or (tokens and tokens.total_tokens))

    def _result(self, code: int, facts: RunFacts, end: HostedEnd, tokens: v1.Usage | None) -> results.RunResult:
        state, turn = self._state, self._state.turns[-1]
        own = end.result.get("_meta")
        found = (own.get("dragoman") or {}).get("usage") if isinstance(own, dict) else None
        report = end.report
        changes = hosted_changes(report.get("followed"))
        return results.RunResult(
            exit_code=code,
            error=None if code == 0 else error_of(code, facts, end),
            text=results.final_text(state, turn) + results.cut_notice(turn),
            messages=[text for text in turn.texts if text],
            lost_characters=turn.lost_characters,
            stop_reason=facts.stop_reason,
            session_id=self._found.get("sessionId"),
            agent=self._agent() if self._found else None,
            scripted=self._is_scripted() or _is_scripted(own),
            usage=results.usage(state, tokens, found if isinstance(found, dict) else {}),
            tool_calls=[self._tools.describe(call) for call in results.tool_calls(state, turn)],
            files_changed=with_seen(results.files_changed(self._changes(end), state, turn), changes),
            permissions=results.permissions(map(_permission, decisions_of(end))),
            duration_ms=round((monotonic() - self._started) * 1000),
            violations=[*end.violations, *(_violation(each) for each in report.get("changes") or ())],
            retries=list(self._retries),
            patch=self._write_patch(end),
            dangerously_allow_all=bool((self._found.get("terms") or {}).get("allows_all")),
            commands=[_command(each) for each in report.get("commands") or ()],
            changes=changes,
        )

    def _agent(self) -> results.RunAgent:
        from shlex import split

        text = str(self._found.get("agent", ""))
        words = split(text.removeprefix("-- "))
        is_command = text.startswith("-- ")
        return results.RunAgent(name=None if is_command else words[0], command=words if is_command else [])

    def _is_scripted(self) -> bool:
        return str(self._found.get("agent", "")).split(" ")[0] == "scripted"


def _content(text: object) -> bytes | None:
    return b64decode(text) if isinstance(text, str) else None


def _is_scripted(meta: object) -> bool:
    own = meta.get("dragoman") if isinstance(meta, dict) else None
    return isinstance(own, dict) and own.get("scripted") is True


def _permission(found: dict[str, Any]) -> results.RunPermission:
    names = {
        "title": "title",
        "kind": "kind",
        "action": "action",
        "decidedBy": "decided_by",
        "rule": "rule",
        "toolCallId": "tool_call_id",
        "optionId": "option_id",
        "optionKind": "option_kind",
        "command": "command",
        "paths": "paths",
    }
    return msgspec.convert({ours: found.get(theirs) for theirs, ours in names.items()}, results.RunPermission)


def _violation(found: dict[str, Any]) -> results.RunViolation:
    path = str(found.get("path"))
    return results.RunViolation(
        title=path,
        kind="edit",
        rule=None,
        decided_by="protected file",
        tool_call_id=None,
        paths=[path],
        command=found.get("command"),
        kept=found.get("kept"),
        is_restored=bool(found.get("isRestored")),
    )


def _command(found: dict[str, Any]) -> results.RunCommand:
    return results.RunCommand(
        terminal_id=str(found.get("terminalId")),
        command=str(found.get("command")),
        sandbox=found.get("sandbox"),
        exit_code=found.get("exitCode"),
        signal=found.get("signal"),
        refused=[results.Refused(each["kind"], each["subject"]) for each in found.get("refused") or ()],
    )


def write_queued(request: TurnRequest, turn: HostedTurn) -> None:
    """Write that a prompt is queued, as one JSON document."""
    from dragoman.cli.console import write_json

    write_json(
        {
            "schema": "dragoman.exec.queued/1",
            "session": request.name,
            "session_id": turn.session.get("sessionId"),
            "prompt_id": request.prompt_id,
        }
    )
