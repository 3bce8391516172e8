"""What the agent reports and does: recorded, counted, and acted on if it is a violation or reaches a limit.

Owns what follows when a rule was violated or a limit is reached: the record, the sentence for the user, and the cancel.
Nothing here delays a line: updates pass before they are looked at.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec.structs import replace

from dragoman.client.reading import read_call
from dragoman.client.violations import Unjudged, Violation, unjudged_in, violation_in
from dragoman.errors import DragomanError, RequestError
from dragoman.policy.decide import ASK_DENY
from dragoman.proxy.guard.session import GuardedSession
from dragoman.schema import v1
from dragoman.workspace.folders import SessionFolders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msgspec import Raw

    from dragoman.client.session import Session
    from dragoman.policy.decide import Decision
    from dragoman.process.sandbox import ProtectedChange
    from dragoman.process.sandbox.confinement import FinishedCommand
    from dragoman.proxy.guard.files import FileAccess
    from dragoman.proxy.guard.permissions import GuardPermissions
    from dragoman.proxy.guard.plan import GuardPlan
    from dragoman.proxy.guard.sessions import GuardedSessions
    from dragoman.proxy.guard.terminals import GuardedTerminals, StartedCommand
    from dragoman.state import ToolCallState

_CHANGING: Final = frozenset({"edit", "delete", "move"})
_MOST_REPORTED: Final = 10_000


class Outlets(Protocol):
    """What the guard sends by itself."""

    def send_update(self, session: Session, update: object) -> None:
        """Send the editor a session update of the guard's own."""

    def send_cancel(self, session: Session) -> None:
        """Cancel the session's turn."""

    def say(self, sentence: str) -> None:
        """Show the user a sentence, on stderr."""


class SessionWatch:
    """The watch over all sessions of one guard."""

    permissions: GuardPermissions
    terminals: GuardedTerminals
    """Both are set by the services, which report to the watch."""

    def __init__(self, plan: GuardPlan, sessions: GuardedSessions, outlets: Outlets) -> None:
        self._plan = plan
        self._events = plan.events
        self._limits = plan.limits
        self._sessions = sessions
        self._outlets = outlets
        self._reported: set[tuple[str, int, str]] = set()  # violations, once for each session, turn and tool call
        self._unjudged: set[tuple[str, int, str]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.editor: dict[str, Any] = {}
        """The capabilities of the editor."""

    # Turns

    def begin_turn(self, session: GuardedSession, params: bytes, blocks: list[Any]) -> None:
        """Begin a turn: a prompt passes to the agent.

        Raises: RequestError if a limit is reached.
        """
        reached = self._limits.reached(session.id)
        if reached is not None:
            self._events.limit(session.id, reached, "refused")
            raise RequestError.internal_error(f"dragoman guard: {reached}")
        session.begin_turn()
        self._limits.add(session.id, {"turns": 1})
        self._events.prompt(session, params, blocks)
        left = self._limits.seconds_left(session.id)
        if left is not None and session.id not in self._timers:
            timer = asyncio.get_running_loop().call_later(left, self._stop_if_reached, session)
            self._timers[session.id] = timer

    def end_turn(
        self, session: GuardedSession, stop_reason: str | None, usage: dict[str, Any], code: int | None = None
    ) -> None:
        """End a turn: the agent answered a prompt; `code` is that of an error."""
        timer = self._timers.pop(session.id, None)
        if timer is not None:
            timer.cancel()
        used: dict[str, float] = {}
        if session.prompts == 1:
            used["seconds"] = time.monotonic() - session.turn_began
        total = usage.get("totalTokens")
        if isinstance(total, int) and total > 0:
            used["tokens"] = total
        self._limits.add(session.id, used)
        if session.currency:
            usage |= {"cost": session.cost, "currency": session.currency}
        self._events.turn_end(session, stop_reason, code, usage)
        session.end_turn(stop_reason)

    # Updates

    def look(self, kind: str, update: Raw, session: GuardedSession, *, is_history: bool = False) -> None:
        """Look at an update of the agent; what is history was judged when it happened, or never will be."""
        before = session.cost
        try:
            call = session.take(kind, update)
        except DragomanError:
            return
        if is_history:
            return
        if call is not None:
            self._look_at(call, session, bytes(update))
        elif kind == "usage_update":
            self._limits.add(session.id, {"cost": max(0.0, session.cost - before)})
            self._stop_if_reached(session)

    def _look_at(self, call: ToolCallState, session: GuardedSession, update: bytes) -> None:
        self._events.tool_call(call, session, update)
        if call.status != "completed":
            return
        if call.kind in _CHANGING:
            changed = [diff.path for diff in call.content if isinstance(diff, v1.Diff)]
            changed = changed or [location.path for location in call.locations]
            files = [os.path.realpath(os.path.join(session.cwd, path)) for path in changed if "\0" not in path]
            self._limits.add(session.id, {}, files)
            self._stop_if_reached(session)
        if call.kind not in session.seen_kinds:
            self._plan.conduct.note("unasked", str(call.kind))
        try:
            permissions = self.permissions.of(session)
            rules, root = permissions.rules, self._plan.found.project(session.cwd)
        except DragomanError as error:
            self._outlets.say(f"the rules cannot be read: {error}")
            return
        key = (session.id, session.turn, call.id)
        if key in self._reported:
            return
        folders = SessionFolders(session.cwd, session.additional_directories, project=root)
        agent = self._plan.agent
        evidence = read_call(call, session, folders, agent=agent, announced=session.announcements.of(call))
        decisions = [decision for decision in permissions.decisions if decision.session_id == session.id]
        violation = violation_in(
            evidence, rules, [decision for decision in decisions if not decision.is_allowed], folders
        )
        left = None
        # Tools of the built-in agent that run or change something state it in their input; its others only talk.
        is_known = self._plan.is_built_in and call.kind == "other"
        if violation is None and key not in self._unjudged and not (is_known or self._ran_in_terminal(call, session)):
            left = unjudged_in(evidence, rules, decisions)
        if violation is not None:
            if len(self._reported) < _MOST_REPORTED:
                self._reported.add(key)
            self._report(violation, session)
        elif left is not None:
            if len(self._unjudged) < _MOST_REPORTED:
                self._unjudged.add(key)
            self._report_unjudged(left, session)

    def _ran_in_terminal(self, call: ToolCallState, session: GuardedSession) -> bool:
        """Whether the command of a call ran in a terminal of the guard or the editor, where it was judged before."""
        shown = [item.terminal_id for item in call.content if isinstance(item, v1.Terminal)]
        return any(session.has_editor_terminal(id) or self.terminals.local.look(id) is not None for id in shown)

    # Violations

    def _report(self, violation: Violation, session: GuardedSession) -> None:
        cancels = self._plan.cancels_on_violation and session.prompts > 0
        self._events.violation(violation, session.id, session.turn, "cancelled" if cancels else "reported")
        what = violation.command or ", ".join(violation.paths) or violation.title
        sentence = f"violation of the rule {violation.rule!r}: the agent did this without asking: {what}"
        self._outlets.say(sentence)
        self._notify(session, f"{sentence}{' (the turn is cancelled)' if cancels else ''}")
        if cancels:
            self._cancel(session)

    def _report_unjudged(self, left: Unjudged, session: GuardedSession) -> None:
        cancels = self._plan.cancels_on_violation and session.prompts > 0
        self._events.unjudged(left, session.id, session.turn, "cancelled" if cancels else "reported")
        sentence = f"unjudged: the agent did this without asking: {left.title}; {left.why}, and {left.decided_by} may "
        sentence += "concern it"
        self._outlets.say(sentence)
        self._notify(session, f"{sentence}{' (the turn is cancelled)' if cancels else ''}")
        if cancels:
            self._cancel(session)

    def _notify(self, session: GuardedSession, sentence: str) -> None:
        """Show the user a sentence in the editor."""
        own = self.editor.get("session")
        if isinstance(own, dict) and isinstance(own.get("notices"), dict):
            self._outlets.send_update(session, v1.Notice("warning", "dragoman guard", sentence))
        else:
            text = v1.TextContent(f"\n\n[dragoman guard] {sentence}\n\n")
            self._outlets.send_update(session, v1.AgentMessageChunk(text))

    def _cancel(self, session: GuardedSession) -> None:
        session.note_cancel()
        self._outlets.send_cancel(session)

    # Limits

    def _stop_if_reached(self, session: GuardedSession) -> None:
        if not session.prompts or session.is_cancelled:
            return
        # This turn and its last file were counted already; a limit of one turn permits one.
        running = {"seconds": time.monotonic() - session.turn_began, "turns": -1, "files": -1}
        reached = self._limits.reached(session.id, running)
        if reached is not None:
            self._events.limit(session.id, reached, "cancelled")
            self._outlets.say(reached)
            self._notify(session, f"{reached} (the turn is cancelled)")
            self._cancel(session)

    def check_file(self, path: str, session: GuardedSession) -> None:
        """Raises: RequestError if no further file may be changed."""
        refused = self._limits.refuses_file(session.id, path)
        if refused is not None:
            self._events.limit(session.id, refused, "refused")
            raise RequestError.internal_error(f"dragoman guard: {refused}")

    # What the services report

    def decided(self, decision: Decision, waited_ms: int) -> None:
        """Record what was decided about a permission; the user took so long to answer."""
        if decision.decided_by == ASK_DENY:
            decision = replace(decision, reason="no rule allows it, and no user is to be asked")
        self._events.decision(decision, self._sessions.find(decision.session_id), waited_ms)

    def accessed(self, access: FileAccess, session: GuardedSession) -> None:
        """Record and count a file that was read or written."""
        self._events.file(access, session)
        if access.operation != "read":
            self._limits.add(session.id, {}, [access.path])

    def started(self, command: StartedCommand, session: GuardedSession) -> None:
        """Record that a command was started."""
        self._events.command(command, session)

    def command_ended(self, terminal_id: str, session_id: str, exit_code: Any, signal: Any) -> None:
        """Record that a command in a terminal of the editor has ended."""
        self._events.command_ended(terminal_id, session_id, exit_code, signal)

    def finished(self, command: FinishedCommand) -> None:
        """Record that a command that ran here has ended, and show its whole output."""
        self._events.command_ended(command.terminal_id, command.session_id, command.exit_code, command.signal)
        session = self._sessions.find(command.session_id)
        if session is not None:
            self.terminals.finished(command.terminal_id, session)
        self._report_changes(command.changes, command.command, session)

    def is_expected(self, path: str) -> bool:
        """Whether the user permitted the change of a protected file."""
        return self.permissions.is_expected(path)

    def changed_protected(self, changes: Sequence[ProtectedChange]) -> None:
        """Report protected files that were changed while no command ran here: the agent did it."""
        sessions = list(self._sessions)
        running = next((session for session in sessions if session.prompts), None)
        self._report_changes(changes, None, running or next(iter(sessions), None))

    def _report_changes(
        self, changes: Sequence[ProtectedChange], command: str | None, session: GuardedSession | None
    ) -> None:
        for change in changes:
            violation = Violation(
                title=f"{change.path} was {change.happened}",
                kind="delete" if change.happened == "deleted" else "edit",
                rule=None,
                decided_by="protected file",
                paths=(change.path,),
                command=command,
            )
            self._events.violation(
                violation, "" if session is None else session.id, 0 if session is None else session.turn, "reported"
            )
            how = f"by {command}" if command is not None else "while the agent worked, without a permission of yours"
            restored = "; it was put back" if change.is_restored else ""
            sentence = f"the protected file {change.path} was {change.happened} {how}{restored}"
            self._outlets.say(sentence)
            if session is not None:
                self._notify(session, sentence)

    def close(self) -> None:
        """Wait for nothing any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
