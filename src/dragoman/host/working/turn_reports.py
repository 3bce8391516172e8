"""What the runs of a session's agent report: notices for its log, and reports for the clients that sent prompts.

A report is made only if a client wants it, and the last ones are kept until it asks for its own.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.runs.events import Decided, Noted, ProtectedChanged, Violated
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from dragoman.host.session import HostedSession
    from dragoman.host.working.prompts import HostedPrompt
    from dragoman.process.sandbox import ProtectedChange
    from dragoman.runs.agent_run import GuardedRun
    from dragoman.runs.events import EndOfTurn, RunEvent

_log = logging.getLogger("dragoman.host")
PROTECTED: Final = "protected_file"
"""The kind of a notice about a protected file."""
VIOLATION: Final = "violation"
"""The kind of a notice about something that was done although a rule denies it."""
_MOST_REPORTS: Final = 16
_COMMAND_CHARACTERS: Final = 120


class TurnReports:
    """The reports of one session, whichever process of its agent ran the turns."""

    def __init__(self, session: HostedSession) -> None:
        self._session = session
        self._reports: OrderedDict[str, dict[str, Any]] = OrderedDict()  # by the id of the prompt

    def take(self, event: RunEvent) -> None:
        """Show the clients what was decided and found."""
        session = self._session
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
            case Noted(text=text):
                _log.warning("session %s: %s", session.id, text)

    async def keep(self, prompt: HostedPrompt, run: GuardedRun, end: EndOfTurn) -> None:
        """Keep what the client of a prompt wants to know about its turn, which has just ended."""
        record, state = run.record, run.state if run.is_prompted else None
        report: dict[str, Any] = {
            "permissions": msgspec.to_builtins(record.permissions()),
            "violations": msgspec.to_builtins(record.violations),
            "unaskedHint": run.guard.unasked_hint if any(made.is_unasked for made in record.decisions) else "",
            "isEmpty": state is not None and record.is_empty(state),
            "mayHaveChanged": record.may_have_changed,
        }
        if (prompt.wants_patch or prompt.wants_result) and not end.gave_up:  # what does not react may still write
            await asyncio.to_thread(run.end_now)
        if prompt.wants_patch:
            data, files, left_out = await asyncio.to_thread(run.make_patch)
            patch = {"data": b64encode(data).decode(), "files": files, "left_out": msgspec.to_builtins(left_out)}
            report["patch"] = patch
        if prompt.wants_result:
            result = record.result(state)
            result.session_id = self._session.id
            report["result"] = msgspec.to_builtins(result)
        self._reports[prompt.id] = report
        while len(self._reports) > _MOST_REPORTS:
            self._reports.popitem(last=False)

    def find(self, prompt_id: str) -> dict[str, Any]:
        """The report of a prompt; empty for none."""
        return self._reports.get(prompt_id, {})


def change_sentence(change: ProtectedChange, command: str | None) -> str:
    """What happened to a protected file, for the clients and the log of the host."""
    done = f"{change.happened} and then put back" if change.is_restored else change.happened
    who = "the agent" if command is None else f"the command: {shorten(command, _COMMAND_CHARACTERS)}"
    kept = (
        "" if change.kept is None else f" ({'a copy' if change.happened == 'created' else 'as it was'}: {change.kept})"
    )
    problem = "" if change.problem is None else f" ({change.problem})"
    return f"The protected file {change.path} was {done}{kept}{problem}, without a permission, by {who}"
