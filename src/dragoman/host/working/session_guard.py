"""The guard of a session's agent: its permissions, files, terminals, sandbox and protected files, as `exec` has them.

A rule decides: those that the session was opened with, the user's and the project's, and those that answers of "always"
added. What no rule decides is asked of the clients of the session. A protected file that was changed without a
permission is reported to the clients, and in the log of the host.
"""

from __future__ import annotations

import asyncio
import logging
import os
from base64 import b64encode
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.client.files import open_workspace, turn_label
from dragoman.client.guard import AgentGuard
from dragoman.client.permission import AllowAll, ClientPermissions, Guarding
from dragoman.errors import ConfigError
from dragoman.host.working.turn_report import TurnReport, TurnReports, change_sentence
from dragoman.policy.modes import MODES
from dragoman.registry.built_in import runs_built_in, runs_commands_at_client
from dragoman.runs.terms import SessionTerms
from dragoman.settings.places import private_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.client import ClientOptions, Session
    from dragoman.host.services import AsksClients
    from dragoman.host.session import HostedSession
    from dragoman.policy import Action, Rule
    from dragoman.policy.decide import Decision
    from dragoman.process.sandbox import ProtectedChange
    from dragoman.process.sandbox.confinement import FinishedCommand
    from dragoman.process.sandbox.opening import OpenedSandbox
    from dragoman.registry.agents import AgentEntry
    from dragoman.runs.changes import SessionChanges
    from dragoman.snapshots.records import TurnChanges
    from dragoman.workspace import Workspace

_log = logging.getLogger("dragoman.host")
PROTECTED: Final = "protected_file"
"""The kind of a notice about a protected file."""
_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_TURNS: Final = 16


class GuardTerms(Struct, frozen=True, kw_only=True):
    """What a host knows about the guard of one session.

    `rules` gives the rules of the user besides those of `terms`; `project` is the folder that they count for.
    `remember` keeps the rule of an answer of "always"; without it the answer holds for this session. `environment`
    gives that of commands, None the host's own.
    """

    rules: Callable[[], Sequence[Rule]]
    terms: SessionTerms = SessionTerms()
    entry: AgentEntry | None = None
    """The program of the agent; None for an agent in this process."""
    ledger_name: str | None = None
    """The agent as the ledger has it; None for the name of its entry."""
    project: str | None = None
    restores: bool = False
    remember: Callable[[str, Action], None] | None = None
    rule_file: str | None = None
    """Where `remember` writes."""
    environment: Callable[[], Mapping[str, str]] | None = None


class SessionGuard:
    """Guards the agent of one session. `close` it."""

    def __init__(self, hosted: HostedSession, asks: AsksClients, known: GuardTerms) -> None:
        """Make the guard.

        Raises:
            ConfigError: a sandbox is required and there is none, or settings are broken.
        """
        self._hosted = hosted
        self._asks = asks
        self._known = known
        self._roots = (hosted.record.cwd, *hosted.directories)
        self._reports = TurnReports()
        self._workspaces: list[Workspace] = []
        self._labels: OrderedDict[str, str] = OrderedDict()  # of the journal, by the id of the prompt
        entry, terms = known.entry, known.terms
        allows_all = terms.allows_all or (entry is not None and entry.allows_all)
        remember = known.remember
        self._typed = terms.rules()
        self._opened = self._open_sandbox()
        self._permissions = ClientPermissions(
            self._rules,
            agent=hosted.record.agent if entry is None else entry.name,
            asker=AllowAll() if allows_all else asks,
            # An "always" that no user chose must not outlive the session.
            remember=None if allows_all or remember is None else lambda text, action, _: remember(text, action),
            on_decision=self._decided,
            root=known.project,
            guarding=Guarding(
                confines=self._confines,
                reads_reasons=self._reads_reasons,
                own_files=() if entry is None or entry.facts is None else entry.facts.own_files,
            ),
        )
        self._guard = AgentGuard(
            self._permissions,
            self._roots,
            sandbox=None if self._opened is None else self._opened.sandbox,
            is_required=terms.sandbox == "require",
            restores=known.restores,
            withheld=() if entry is None else entry.quirks.withhold,
            missing="error" if entry is None else entry.quirks.missing_file,
            offers_files=terms.offers_files,
            offers_terminals=terms.offers_terminals,
            environment=known.environment,
            open_workspace=self._open_workspace,
            on_finished=self._finished,
        )

    @property
    def reads_reasons(self) -> bool:
        """Whether the agent reads why something was refused."""
        return self._reads_reasons()

    @property
    def rule_file(self) -> str | None:
        """Where the rule of an answer of "always" is kept; None if it holds for the session only."""
        return self._known.rule_file

    def options(self) -> ClientOptions:
        """The options of the connection to the agent."""
        return {**self._guard.options(), "elicitation": self._asks, "changes": self._follow_changes()}

    def _follow_changes(self) -> SessionChanges | None:
        """Look at the folders before and after each turn; not for an agent in this process, which has no program."""
        entry = self._known.entry
        if entry is None or not self._known.terms.follows_changes:
            return None
        from dragoman.runs.changes import SessionChanges

        return SessionChanges(
            agent=self._known.ledger_name or entry.name,
            on_problem=lambda sentence: _log.warning("session %s: %s", self._hosted.id, sentence),
            on_end=self._followed,
        )

    def _followed(self, records: Sequence[TurnChanges]) -> None:
        self._report.followed = [{"folder": record.root.hex(), "number": record.number} for record in records]

    async def arm(self) -> None:
        """Note the protected files before a program is started, and before each turn.

        What changes between turns is the user's work. A client that serves the files itself also guards them.
        """
        if self._known.entry is not None and self._hosted.delegate is None:
            await asyncio.to_thread(self._guard.confinement.arm)

    async def turn_ends(self) -> None:
        """Find the protected files that the agent changed itself; called when no command runs."""
        running, agent = self._hosted.turn, self._hosted.agent.running
        if running is not None and agent is not None:
            self._labels[str(running["promptId"])] = turn_label(agent.session)
            while len(self._labels) > _MOST_TURNS:
                self._labels.popitem(last=False)
        if self._guard.confinement.is_armed and self._hosted.delegate is None:
            self._changed(await asyncio.to_thread(self._guard.confinement.changes), None)

    def report(self, prompt_id: str) -> TurnReport:
        """What happened in the turn of a prompt."""
        return self._reports.find(prompt_id) or TurnReport()

    def files(self, prompt_id: str) -> list[dict[str, Any]]:
        """The files that the host wrote for the agent in the turn of a prompt, before and after, in base64.

        What is too much to send is left out.
        """
        label, size, found = self._labels.get(prompt_id), 0, []
        changes = [] if label is None else [each for one in self._workspaces for each in one.journal.net(label)]
        for change in changes:
            size += len(change.before or b"") + len(change.after or b"")
            if size <= _MOST_BYTES:
                before, after = _encoded(change.before), _encoded(change.after)
                found.append({"path": change.path, "before": before, "after": after})
        return found

    def _open_workspace(self, session: Session) -> Workspace:
        workspace = open_workspace(session)
        self._workspaces.append(workspace)
        return workspace

    def close(self) -> None:
        """Remove the private folder of the sandbox."""
        if self._opened is not None:
            self._opened.close()

    def _rules(self) -> list[Rule]:
        found = [*self._typed, *self._known.rules()]
        entry = self._known.entry
        if entry is not None and runs_built_in(entry):
            # Choosing a mode is the user's decision; the agent does not ask about what its mode allows.
            mode = MODES.get(self._mode or "")
            found += () if mode is None else mode.rules(self._roots)
        return found

    @property
    def _mode(self) -> str | None:
        modes = self._hosted.facts.get("modes")
        return modes.get("currentModeId") if isinstance(modes, dict) else None

    def _confines(self) -> bool:
        entry = self._known.entry
        return self._guard.has_sandbox and entry is not None and runs_commands_at_client(entry, self._mode)

    def _reads_reasons(self) -> bool:
        running = self._hosted.agent.running
        meta: Any = None if running is None else running.remote.capabilities.meta
        return isinstance(meta, dict) and isinstance(meta.get("dragoman"), dict)

    def _open_sandbox(self) -> OpenedSandbox | None:
        terms = self._known.terms
        if terms.sandbox == "off":
            return None
        from dragoman.process.sandbox.opening import open_sandbox

        try:
            return open_sandbox(self._roots, writable=terms.writable, hidden=private_folders())
        except ConfigError as error:
            if terms.sandbox == "require":
                raise
            _log.warning("commands of %s run without a sandbox: %s", self._hosted.id, error)
            return None

    # What happens

    @property
    def _report(self) -> TurnReport:
        running = self._hosted.turn
        return self._reports.open("" if running is None else str(running["promptId"]))

    def _decided(self, decision: Decision) -> None:
        self._hosted.note_decision(decision)
        self._report.note_decision(decision)

    def _finished(self, command: FinishedCommand) -> None:
        self._report.note_command(command)
        self._changed(command.changes, command.command)

    def _changed(self, changes: Sequence[ProtectedChange], command: str | None) -> None:
        self._report.note_changes(changes, command)
        for change in changes:
            sentence = change_sentence(change, command)
            self._hosted.notice(sentence, PROTECTED)
            _log.warning("%s: %s", self._hosted.id, sentence)


def _encoded(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode()


def host_environment(withheld: Sequence[str] = ()) -> dict[str, str]:
    """The environment of this process without some variables."""
    return {name: value for name, value in os.environ.items() if name not in withheld}
