"""The guard of a hosted session's agent, and the records of its last turns.

What is decided and found is the same as in `exec`, because the same parts do it (`dragoman.runs`). Here it is passed
on: decisions of rules and notices go into the log of the session, and what a client wants to know about its turn is
kept until it asks for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from base64 import b64encode
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.client.files import turn_label
from dragoman.runs.agent_run import is_marked_scripted
from dragoman.runs.events import (
    Asking,
    CommandEnded,
    Decided,
    EndOfTurn,
    Initialized,
    Opened,
    ProtectedChanged,
    TerminalOutput,
    TurnEnded,
    TurnStarted,
    Updated,
    Violated,
)
from dragoman.runs.guard import RunGuard
from dragoman.runs.opening import current_model
from dragoman.runs.record import RunRecord, describe_agent
from dragoman.schema import v1
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.client import ClientOptions
    from dragoman.errors import DragomanError
    from dragoman.host.agents import RunningAgent
    from dragoman.host.services import AsksClients
    from dragoman.host.session import HostedSession
    from dragoman.host.working.prompts import HostedPrompt
    from dragoman.process.sandbox import ProtectedChange
    from dragoman.runs.changes import SessionChanges
    from dragoman.runs.events import RunEvent
    from dragoman.runs.terms import Terms
    from dragoman.snapshots.records import TurnChanges
    from dragoman.workspace import Change

_log = logging.getLogger("dragoman.host")
PROTECTED: Final = "protected_file"
"""The kind of a notice about a protected file."""
VIOLATION: Final = "violation"
"""The kind of a notice about something that was done although a rule denies it."""
_MOST_REPORTS: Final = 16
_CALLS: Final = frozenset((v1.ToolCall, v1.ToolCallUpdate))
_COMMAND_CHARACTERS: Final = 120
# What the client that sent a prompt gets as it happens; updates have their own messages, with what led to them.
_PASSED: Final = (Initialized, Opened, TurnStarted, Asking, Decided, TerminalOutput, CommandEnded, Violated)
_PASSED_BYTES: Final = 1024 * 1024  # output of the commands of one turn: it is kept in the log, with everything else


class SessionGuard:
    """Guards the agent of one session. `close` it."""

    def __init__(self, hosted: HostedSession, asks: AsksClients, terms: Terms) -> None:
        self._hosted = hosted
        self._asks = asks
        self._terms = terms
        self._reports: OrderedDict[str, dict[str, Any]] = OrderedDict()  # by the id of the prompt
        self._followed: Sequence[TurnChanges] = ()
        self._turns_before: int | None = None  # in the state of the agent's session; None between two turns
        self.guard = RunGuard(terms, asker=asks, report=self._take)
        self._record: RunRecord | None = None
        """Of the turn that runs, if its client wants a report of it."""
        self._events_for: str | None = None  # the key of the client that gets the events of the turn
        self._passed_bytes = 0

    @property
    def reads_reasons(self) -> bool:
        """Whether the agent reads why something was refused."""
        return self.guard.reads_reasons

    @property
    def rule_file(self) -> str | None:
        """Where the rule of an answer of "always" is kept; None if it holds for the session only."""
        return self._terms.rule_file

    def options(self) -> ClientOptions:
        """The options of the connection to the agent."""
        return {**self.guard.options(), "elicitation": self._asks, "changes": self._follow_changes()}

    def _follow_changes(self) -> SessionChanges | None:
        """Look at the folders before and after each turn; not for an agent in this process, which has no program."""
        if self._terms.entry is None or not self._terms.chosen.follows_changes:
            return None
        from dragoman.runs.changes import SessionChanges

        return SessionChanges(
            agent=self._terms.ledger_name or self._terms.entry.name,
            on_problem=lambda sentence: _log.warning("session %s: %s", self._hosted.id, sentence),
            on_end=self._note_followed,
        )

    def _note_followed(self, records: Sequence[TurnChanges]) -> None:
        self._followed = records

    def adopt(self, agent: RunningAgent) -> None:
        """The agent has a session."""
        self.guard.agent, self.guard.session = agent.remote, agent.session

    # A turn

    async def arm(self) -> None:
        """Note the protected files before a program is started, and before each turn.

        What changes between turns is the user's work.
        """
        if self._terms.entry is not None:
            await asyncio.to_thread(self.guard.arm)

    def prompted(self, prompt: HostedPrompt) -> None:
        """A prompt is sent next."""
        self._followed = ()
        session = self.guard.session
        self._turns_before = 0 if session is None else len(session.state.turns)
        self.guard.begin_turn()
        self._record = self.guard.before_permitted = None
        if session is not None and prompt.wants_report:
            self._record = record = RunRecord(self._terms, look=self.guard.look, written=self._written)
            meta = None if self.guard.agent is None else self.guard.agent.capabilities.meta
            record.agent = describe_agent(self._terms, None if self.guard.agent is None else self.guard.agent.info)
            record.session_id = session.id
            record.is_scripted = record.is_scripted or is_marked_scripted(meta)
            if prompt.wants_patch:
                self.guard.before_permitted = record.copy_before()
            if prompt.wants_events:
                self._begin_events(prompt, record)

    def _begin_events(self, prompt: HostedPrompt, record: RunRecord) -> None:
        """Send the client what it would have seen at the start of a run of its own."""
        agent, session = self.guard.agent, self.guard.session
        assert agent is not None
        assert session is not None
        self._events_for, self._passed_bytes = prompt.by, 0
        methods = tuple(str(getattr(method, "id", "")) for method in agent.auth_methods)
        self._pass_on(Initialized(agent=record.agent, protocol_version=agent.protocol_version, login_methods=methods))
        self._pass_on(
            Opened(
                session_id=self._hosted.id,
                is_resumed=self._hosted.prompts.turn_number > 1,
                is_scripted=record.is_scripted,
                mode=self.guard.mode,
                model=current_model(session),
            )
        )
        self._pass_on(TurnStarted(prompt_id=prompt.id))

    def _pass_on(self, event: RunEvent) -> None:
        """Send an event to the client of the turn: by the log, so that it comes behind the updates that led to it."""
        if self._events_for is None or not isinstance(event, _PASSED):
            return
        if isinstance(event, TerminalOutput):
            self._passed_bytes += len(event.data)
            if self._passed_bytes > _PASSED_BYTES:
                return
        self._hosted.append(
            "extension", {"method": "_dragoman/run_event", "params": {"event": event}, "by": self._events_for}
        )

    def updated(self, agent_session: str, updates: Sequence[v1.SessionUpdate], lines: Sequence[bytes]) -> None:
        """Updates of the agent; in a turn they belong to its record, and what they show as done is judged."""
        if self._record is None and _CALLS.isdisjoint(map(type, updates)):
            return  # nothing to judge, as in nearly all of a stream
        session = self.guard.session
        is_prompted = self._turns_before is not None and session is not None
        if session is None or agent_session != session.id or not is_prompted:
            return
        if len(session.state.turns) <= (self._turns_before or 0):
            return  # the prompt is not sent yet
        if self._record is not None:
            self._record.take(Updated(session_id=agent_session, updates=updates, lines=lines))
            self._record.copy_named(updates, session.state)
        self.guard.judge_updates(updates)

    def answered(self, prompt: HostedPrompt, outcome: v1.PromptResponse | DragomanError) -> None:
        """The agent has answered the prompt, or is gone."""
        if self._record is None:
            return
        is_response = not isinstance(outcome, Exception)
        end = EndOfTurn(
            response=outcome if is_response else None,  # type: ignore[arg-type]  # not an exception
            error=outcome if isinstance(outcome, Exception) else None,
            was_cancelled=prompt.is_cancelled,
        )
        self._record.take(TurnEnded(prompt_id=prompt.id, end=end))

    async def turn_ends(self, prompt: HostedPrompt) -> None:
        """Find the protected files that the agent changed itself, and keep what the client wants to know.

        Called when no command runs.
        """
        if self._terms.entry is not None and self.guard.confinement.is_armed and self._terms.watches():
            self.guard.note_changes(await asyncio.to_thread(self.guard.confinement.changes))
        self._turns_before = self._events_for = None
        record, self._record = self._record, None
        if record is not None:
            self._reports[prompt.id] = await self._report(prompt, record)
            while len(self._reports) > _MOST_REPORTS:
                self._reports.popitem(last=False)

    async def _report(self, prompt: HostedPrompt, record: RunRecord) -> dict[str, Any]:
        state = None if self.guard.session is None else self.guard.session.state
        has_turn = state is not None and bool(state.turns)
        report: dict[str, Any] = {
            "permissions": msgspec.to_builtins(record.permissions()),
            "violations": msgspec.to_builtins(record.violations),
            "unaskedHint": self.guard.unasked_hint if any(made.is_unasked for made in record.decisions) else "",
            "isEmpty": has_turn and state is not None and record.is_empty(state),
            "mayHaveChanged": record.may_have_changed,
        }
        if prompt.wants_patch or prompt.wants_result:
            from dragoman.runs.changes import described_changes

            record.changes = await asyncio.to_thread(described_changes, self._followed)
        if prompt.wants_patch:
            report["patch"] = await asyncio.to_thread(self._make_patch, record)
        if prompt.wants_result:
            result = record.result(state if has_turn else None)
            result.session_id = self._hosted.id
            report["result"] = msgspec.to_builtins(result)
        return report

    def _make_patch(self, record: RunRecord) -> dict[str, Any]:
        from dragoman.runs.changes import patch_of

        found, session, patch = patch_of(self._followed, self._terms.roots[0]), self.guard.session, record.patch
        if found is None and session is not None and patch is not None and session.state.turns:
            found = patch.build(self._written(), session.state, session.state.turns[-1])
        data, files, left_out = found or (b"", [], [])
        return {"data": b64encode(data).decode(), "files": files, "left_out": msgspec.to_builtins(left_out)}

    def report(self, prompt_id: str) -> dict[str, Any]:
        """What happened in the turn of a prompt, for the client that sent it; empty for nothing."""
        return self._reports.get(prompt_id, {})

    def _written(self) -> list[Change]:
        session = self.guard.session
        return [] if session is None else self.guard.written(turn_label(session))

    def close(self) -> None:
        """Remove the private folder of the sandbox."""
        self._terms.sandboxes.close()

    # What happens

    def _take(self, event: RunEvent) -> None:
        if self._record is not None:
            self._record.take(event)
        self._pass_on(event)
        match event:
            case Decided(decision=decision):
                self._hosted.note_decision(decision)
            case ProtectedChanged(changes=changes, command=command):
                for change in changes:
                    sentence = change_sentence(change, command)
                    self._hosted.notice(sentence, PROTECTED)
                    _log.warning("%s: %s", self._hosted.id, sentence)
            case Violated(violation=violation) if violation.rule is not None:
                sentence = f"{violation.title} was done, but is denied by {violation.decided_by}"
                self._hosted.notice(f"violation: {violation.kind}: {sentence}", VIOLATION)
                _log.warning("%s: violation: %s: %s", self._hosted.id, violation.kind, sentence)


def change_sentence(change: ProtectedChange, command: str | None) -> str:
    """What happened to a protected file, for the clients and the log of the host."""
    done = f"{change.happened} and then put back" if change.is_restored else change.happened
    who = "the agent" if command is None else f"the command: {shorten(command, _COMMAND_CHARACTERS)}"
    kept = (
        "" if change.kept is None else f" ({'a copy' if change.happened == 'created' else 'as it was'}: {change.kept})"
    )
    problem = "" if change.problem is None else f" ({change.problem})"
    return f"The protected file {change.path} was {done}{kept}{problem}, without a permission, by {who}"


def host_environment(withheld: Sequence[str] = ()) -> dict[str, str]:
    """The environment of this process without some variables."""
    return {name: value for name, value in os.environ.items() if name not in withheld}
