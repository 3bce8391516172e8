"""A hosted turn in the forms that need the state of a session: JSON, events, and progress on a terminal.

Folds the updates as a client does, but without an event loop and without a role. The result has the members that plain
`exec` has; what only the host sees comes from its report of the turn.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import json

from dragoman.cli.exec import result as results
from dragoman.cli.exec.changes import hosted_changes, with_seen
from dragoman.cli.exec.events import Opened
from dragoman.cli.exec.exit_code import RunFacts, exit_code_of
from dragoman.cli.exec.hosted.ending import decisions_of, error_of, facts_of, note_decision
from dragoman.cli.exec.hosted.turn import HostedTurn
from dragoman.cli.exec.options import Options
from dragoman.cli.exec.output import Output
from dragoman.cli.exec.tool_watch import ToolWatch
from dragoman.schema import UNSET, decode, v1
from dragoman.state import SessionState, fold
from dragoman.text.secrets import known_keys

if TYPE_CHECKING:
    from dragoman.cli.exec.hosted.turn import HostedEnd, TurnRequest
    from dragoman.cli.prompt.progress import Progress


def run_shown(request: TurnRequest, options: Options | None = None) -> int:
    """Run a turn and write it in the form that the options choose; gives the exit code.

    Raises:
        OSError: stdout could not be written.
    """
    chosen = options or Options(cwd=request.cwd, progress="terminal")
    view = ShownTurn(request, chosen)
    turn = HostedTurn(request, view)
    try:
        turn.run()
    except Exception as error:  # whatever happens, one result is written
        turn.end.error = error
    return view.finish(turn, turn.end)


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
        self._started = monotonic()

    @property
    def progress(self) -> Progress | None:
        return self._output.progress

    # As `TurnView` has them

    def opened(self, found: dict[str, Any]) -> None:
        self._found = found
        blocks = decode(list[v1.ContentBlock], json.encode(self._request.blocks))
        self._state.begin_turn(blocks)
        self._output.write_event(
            Opened(session_id=found["sessionId"], agent=self._agent(), scripted=self._is_scripted(), is_resumed=True)
        )

    def update(self, update: dict[str, Any]) -> None:
        found = decode(v1.SessionUpdate, json.encode(update))
        fold(self._state, found)
        if isinstance(found, v1.ToolCall | v1.ToolCallUpdate):
            self._tools.note(found)
            self._tool_updates.append(update)
        elif isinstance(found, v1.UsageUpdate):
            self._has_usage = self._has_usage or bool(found.used or found.cost)
        self._output.update(found, self._state, self._tools)

    def note(self, text: str) -> None:
        self._output.note(text)

    def still(self, seconds: float) -> None:
        if self._options.progress in ("plain", "terminal"):
            self._output.note(f"still working after {seconds:.0f} s")

    def tool_updates(self) -> list[dict[str, Any]]:
        return self._tool_updates

    # The end

    def finish(self, turn: HostedTurn, end: HostedEnd) -> int:
        """Write the result; gives the exit code."""
        state = self._state
        if not state.turns:  # it never came to a prompt
            state.begin_turn([])
        usage = end.result.get("usage")
        tokens = decode(v1.Usage, json.encode(usage)) if isinstance(usage, dict) else None
        state.end_turn(end.stop_reason, tokens if tokens is not None else UNSET)
        end.is_empty = end.stop_reason == "end_turn" and self._is_empty(tokens)
        facts = facts_of(end, fails_on_deny=self._options.fails_on_deny)
        code = exit_code_of(facts)
        for decision in decisions_of(end):
            if self._options.progress not in ("none", "json") or decision.get("action") != "allow":
                self._output.note(known_keys.mask(note_decision(decision)))
        result = self._result(code, facts, end, tokens)
        self._output.finish(result, state)
        if self._output.failure is not None:
            raise self._output.failure
        return code

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
            files_changed=with_seen(results.files_changed((), state, turn), changes),
            permissions=results.permissions(map(_permission, decisions_of(end))),
            duration_ms=round((monotonic() - self._started) * 1000),
            violations=[_violation(each) for each in report.get("changes") or ()],
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
