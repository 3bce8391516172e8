"""What a host decided and did in the last turns of a session, for the client that wants a report of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy.decide import Decision
    from dragoman.process.sandbox import ProtectedChange
    from dragoman.process.sandbox.confinement import FinishedCommand

_MOST_REPORTED: Final = 1000
_MOST_REPORTS: Final = 16
_COMMAND_CHARACTERS: Final = 120


class TurnReport(Struct, kw_only=True):
    """What was decided and done by the host in the turn of one prompt."""

    decisions: list[dict[str, Any]] = []
    commands: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    """Protected files that were changed without a permission."""
    followed: list[dict[str, Any]] = []
    """Where the snapshots have what the turn changed: folder and number of the turn."""

    def note_decision(self, decision: Decision) -> None:
        if len(self.decisions) < _MOST_REPORTED:
            self.decisions.append(
                {
                    "title": decision.title,
                    "kind": decision.kind,
                    "action": decision.action,
                    "decidedBy": decision.decided_by,
                    "rule": decision.rule,
                    "toolCallId": decision.tool_call_id,
                    "optionId": decision.option_id,
                    "optionKind": decision.option_kind,
                    "command": decision.command,
                    "paths": list(decision.paths),
                    "isUnasked": decision.is_unasked,
                }
            )

    def note_command(self, command: FinishedCommand) -> None:
        if len(self.commands) < _MOST_REPORTED:
            self.commands.append(
                {
                    "terminalId": command.terminal_id,
                    "command": command.command,
                    "sandbox": command.sandbox,
                    "exitCode": command.exit_code,
                    "signal": command.signal,
                    "refused": [{"kind": each.kind, "subject": each.subject} for each in command.denials],
                }
            )

    def note_changes(self, changes: Sequence[ProtectedChange], command: str | None) -> None:
        for change in changes[: _MOST_REPORTED - len(self.changes)]:
            self.changes.append(
                {"path": change.path, "command": command, "kept": change.kept, "isRestored": change.is_restored}
            )


class TurnReports:
    """The reports of the last turns, by the id of the prompt."""

    def __init__(self) -> None:
        self._reports: dict[str, TurnReport] = {}

    def find(self, prompt_id: str) -> TurnReport | None:
        return self._reports.get(prompt_id)

    def open(self, prompt_id: str) -> TurnReport:
        """The report of a turn; a new one is begun if there is none."""
        if prompt_id not in self._reports:
            self._reports[prompt_id] = TurnReport()
            while len(self._reports) > _MOST_REPORTS:
                del self._reports[next(iter(self._reports))]
        return self._reports[prompt_id]


def change_sentence(change: ProtectedChange, command: str | None) -> str:
    """What happened to a protected file, for the clients and the log of the host."""
    done = f"{change.happened} and then put back" if change.is_restored else change.happened
    who = "the agent" if command is None else f"the command: {shorten(command, _COMMAND_CHARACTERS)}"
    kept = (
        "" if change.kept is None else f" ({'a copy' if change.happened == 'created' else 'as it was'}: {change.kept})"
    )
    problem = "" if change.problem is None else f" ({change.problem})"
    return f"The protected file {change.path} was {done}{kept}{problem}, without a permission, by {who}"
