"""What the runs of a session's agent report: notices for its log, events and reports for the clients that sent prompts.

Both are made only if a client wants them. The last reports are kept until it asks for its own.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections import OrderedDict, deque
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from dragoman.runs.events import (
    Asking,
    CommandEnded,
    CommandStarted,
    Decided,
    Initialized,
    LeftUnjudged,
    Noted,
    Opened,
    ProtectedChanged,
    TerminalOutput,
    TurnEnded,
    TurnStarted,
    Violated,
)
from dragoman.schema import v1
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dragoman.host.session import HostedSession
    from dragoman.host.working.prompts import HostedPrompt
    from dragoman.process.sandbox import ProtectedChange
    from dragoman.runs.agent_run import GuardedRun
    from dragoman.runs.events import EndOfTurn, RunEvent

_log = logging.getLogger("dragoman.host")
PROTECTED: Final = "protected_file"
"""The kind of a notice about a protected file."""
VIOLATION: Final = "violation"
UNJUDGED: Final = "unjudged"
"""The kind of a notice about something that was done although a rule denies it."""
_MOST_REPORTS: Final = 16
_MOST_WARNINGS: Final = 16
_COMMAND_CHARACTERS: Final = 120
# What the client that sent a prompt gets as it happens; updates have their own messages, with what led to them.
_PASSED: Final = (TurnStarted, Asking, Decided, CommandStarted, TerminalOutput, CommandEnded, Violated, LeftUnjudged)
_PASSED_BYTES: Final = 1024 * 1024  # output of the commands of one turn: it is kept in the log, with everything else


_reporting: ContextVar[TurnReports | None] = ContextVar("reporting", default=None)


class AgentWarnings(logging.Handler):
    """A handler for what the library warns of in the tasks of an agent's connection: for the reports of its session."""

    def emit(self, record: logging.LogRecord) -> None:
        reports = _reporting.get()
        if reports is not None and record.name != _log.name:  # the host's own are for its log
            reports.warnings.append(f"{record.levelname.lower()}: {record.getMessage()}")


class TurnReports:
    """The reports of one session, whichever process of its agent ran the turns."""

    def __init__(self, session: HostedSession) -> None:
        self._session = session
        self._reports: OrderedDict[str, dict[str, Any]] = OrderedDict()  # by the id of the prompt
        self._unread: dict[str, str] = {}  # the ids of prompts, with the keys of the clients that want their reports
        self._initialized: Initialized | None = None
        self._opened: Opened | None = None
        self._events_for: str | None = None  # the key of the client that gets the events of the turn
        self._passed_bytes = 0
        self.warnings: deque[str] = deque(maxlen=_MOST_WARNINGS)
        """About the agent, since the last report."""

    @contextmanager
    def warned(self) -> Iterator[None]:
        """Let the tasks that are created while this is entered report their warnings here, for as long as they run."""
        token = _reporting.set(self)
        try:
            yield
        finally:
            _reporting.reset(token)

    def begin(self, prompt: HostedPrompt, run: GuardedRun, event: TurnStarted) -> None:
        """Send the client of a turn what it would have seen at the start of a run of its own, and what comes next."""
        assert self._initialized is not None
        assert self._opened is not None
        session = self._session
        self._events_for, self._passed_bytes = prompt.by, 0
        # The host can show a login in a terminal, and is offered that, too; `exec` cannot, and is not.
        offered = [method for method in run.agent.auth_methods if not isinstance(method, v1.AuthMethodTerminal)]
        methods = tuple(str(getattr(method, "id", "")) for method in offered)
        self._pass_on(replace(self._initialized, at=event.at, login_methods=methods))
        is_resumed = session.prompts.turn_number > 1
        now = {"mode": run.mode, "model": run.model, "at": event.at}
        self._pass_on(replace(self._opened, session_id=session.id, is_resumed=is_resumed, **now))
        self._pass_on(event)

    def take(self, event: RunEvent) -> None:
        """Show the clients what was decided and found."""
        session = self._session
        if self._events_for is not None and isinstance(event, _PASSED):
            self._pass_on(event)
        match event:
            case Decided(decision=decision):
                session.note_decision(decision)
            case ProtectedChanged(changes=changes, command=command):
                for change in changes:
                    sentence = change_sentence(change, command)
                    session.notice(sentence, PROTECTED)
                    _log.warning("%s: %s", session.id, sentence)
            case Violated(violation=violation) if violation.rule is not None:  # else it was just shown
                sentence = f"{violation.title} was done, but is denied by {violation.decided_by}"
                session.notice(f"violation: {violation.kind}: {sentence}", VIOLATION)
                _log.warning("%s: violation: %s: %s", session.id, violation.kind, sentence)
            case LeftUnjudged(unjudged=left):
                sentence = f"{left.title} was done; {left.why}, and {left.decided_by} may concern it"
                session.notice(f"unjudged: {left.kind}: {sentence}", UNJUDGED)
                _log.warning("%s: unjudged: %s: %s", session.id, left.kind, sentence)
            case Noted(text=text):
                _log.warning("session %s: %s", session.id, text)
            case Initialized():
                self._initialized = event
            case Opened():
                self._opened = event
            case TurnEnded():
                self._events_for = None

    def _pass_on(self, event: RunEvent) -> None:
        """Send an event to the client of the turn: by the log, so that it comes behind the updates that led to it."""
        if isinstance(event, TerminalOutput):
            self._passed_bytes += len(event.data)
            if self._passed_bytes > _PASSED_BYTES:
                return
        body = {"method": "_dragoman/run_event", "params": {"event": event}, "by": self._events_for}
        self._session.append("extension", body)

    async def keep(self, prompt: HostedPrompt, run: GuardedRun, end: EndOfTurn) -> None:
        """Keep what the client of a prompt wants to know about its turn, which has just ended."""
        record, state = run.record, run.state if run.is_prompted else None
        report: dict[str, Any] = {
            "permissions": msgspec.to_builtins(record.permissions()),
            "violations": msgspec.to_builtins(record.violations),
            "unjudged": msgspec.to_builtins(record.unjudged),
            "unaskedHint": run.guard.unasked_hint if any(made.is_unasked for made in record.decisions) else "",
            "isEmpty": state is not None and record.is_empty(state),
            "lostMessages": run.lost_messages,
            "mayHaveChanged": record.may_have_changed,
        }
        if record.stop_reason is None or report["isEmpty"]:  # the agent's log may be the only place that says why
            report["stderrTail"] = self._session.agent.traffic.stderr_tail
        if (prompt.wants_patch or prompt.wants_result) and not end.gave_up:  # what does not react may still write
            await asyncio.to_thread(run.end_now)
        if prompt.wants_patch:
            data, files, left_out = await asyncio.to_thread(run.make_patch)
            patch = {"data": b64encode(data).decode(), "files": files, "left_out": msgspec.to_builtins(left_out)}
            report["patch"] = patch
        if self.warnings:
            report["warnings"] = list(self.warnings)
            self.warnings.clear()
        if prompt.wants_result:
            result = record.result(state)
            result.session_id = self._session.id
            result.kept_seconds = self._session.kept_seconds
            report["result"] = msgspec.to_builtins(result)
        self._reports[prompt.id] = report
        self._unread[prompt.id] = prompt.by
        while len(self._reports) > _MOST_REPORTS:
            self._unread.pop(self._reports.popitem(last=False)[0], None)

    def are_awaited_by(self, clients: Collection[str]) -> bool:
        """Whether one of these clients has not asked for its report yet."""
        return any(client in clients for client in self._unread.values())

    def find(self, prompt_id: str) -> dict[str, Any]:
        """Return the report of a prompt; empty for none."""
        self._unread.pop(prompt_id, None)
        return self._reports.get(prompt_id, {})


def change_sentence(change: ProtectedChange, command: str | None) -> str:
    """Return what happened to a protected file, for the clients and the log of the host."""
    done = f"{change.happened} and then put back" if change.is_restored else change.happened
    who = "the agent" if command is None else f"the command: {shorten(command, _COMMAND_CHARACTERS)}"
    kept = (
        "" if change.kept is None else f" ({'a copy' if change.happened == 'created' else 'as it was'}: {change.kept})"
    )
    problem = "" if change.problem is None else f" ({change.problem})"
    return f"The protected file {change.path} was {done}{kept}{problem}, without a permission, by {who}"
