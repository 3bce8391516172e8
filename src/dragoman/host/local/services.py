"""Files, terminals and permission decisions for the agents of the local host: the same rules as `exec` has.

A rule decides: those typed when the session was opened, the user's and the project's, and those that answers of
"always" added. What no rule decides is asked of the clients of the session. Commands run in the sandbox if the session
was opened with one. What happened in a turn is kept until the next one, for the client that wants a report of it.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.builtin.modes import MODES
from dragoman.client.confinement import Confinement
from dragoman.client.files import WorkspaceFiles
from dragoman.client.permission import ClientPermissions
from dragoman.client.services import withhold_files
from dragoman.client.terminals import LocalTerminals
from dragoman.errors import ConfigError
from dragoman.host.local.agents import find_entry, ledger_name, runs_built_in
from dragoman.host.local.environment import ALLOWED, received
from dragoman.policy import parse_rule
from dragoman.policy.decide import NO_USER, USER, Selection, is_allowing, is_clear
from dragoman.policy.paths import is_below
from dragoman.process.sandbox import Sandbox, available, make_policy
from dragoman.process.sandbox.policy import unconfined_policy
from dragoman.process.sandbox.tripwire import Tripwire
from dragoman.schema import v1
from dragoman.settings.places import config_dir, data_dir, state_dir
from dragoman.settings.rule_file import open_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.client import ClientOptions, Session
    from dragoman.client.confinement import FinishedCommand
    from dragoman.client.permission import Question
    from dragoman.host.services import AsksClients
    from dragoman.host.session import HostedSession
    from dragoman.policy import Request, Rule
    from dragoman.policy.decide import Decision, Option
    from dragoman.process.sandbox import ProtectedChange
    from dragoman.scripting.changes import SessionChanges
    from dragoman.snapshots.records import TurnChanges

_log = logging.getLogger("dragoman.host")
ALLOW_ALL: Final = "--dangerously-allow-all"
_MOST_REPORTED: Final = 1000
_MOST_REPORTS: Final = 16


class SessionTerms(Struct, frozen=True, kw_only=True):
    """What a client decided about a session when it opened it; kept with the session, also after a restart."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allows_all: bool = False
    sandbox: str = "off"
    """`off`, `auto` or `require`, for the commands that the host runs for the agent."""
    writable: tuple[str, ...] = ()
    offers_files: bool = True
    offers_terminals: bool = True
    uses_ledger: bool = True
    follows_changes: bool = True
    """Whether the folders are looked at before and after each turn, for `dragoman sessions diff` and `rewind`."""


def read_terms(found: object) -> SessionTerms:
    """The terms of a session, from its facts. Raises: ConfigError."""
    try:
        return msgspec.convert(found or {}, SessionTerms)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the terms of the session cannot be read: {error}") from None


class TurnReport(Struct, kw_only=True):
    """What was decided and done by the host in the turn of one prompt."""

    decisions: list[dict[str, Any]] = []
    commands: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    """Protected files that were changed without a permission."""
    followed: list[dict[str, Any]] = []
    """Where the snapshots have what the turn changed: folder and number of the turn."""


class SessionServices:
    """The services of one session's agent."""

    def __init__(self, hosted: HostedSession, asks: AsksClients) -> None:
        """Make the services.

        Raises:
            ConfigError: a sandbox is required and there is none, or settings are broken.
        """
        self._reports: dict[str, TurnReport] = {}
        self._hosted = hosted
        self._asks = asks
        self._cwd = hosted.record.cwd
        self._roots = (self._cwd, *hosted.directories)
        self._terms = read_terms(hosted.facts.get("terms"))
        self._entry, settings = find_entry(hosted.record.agent, self._cwd)
        self._project = self._cwd if settings.root is None else str(settings.root)
        self._settings_rules = settings.rules()
        self._temporary: str | None = None
        self._sandbox = self._make_sandbox()
        restores = settings.restores_protected
        self.allows_all = self._terms.allows_all or self._entry.allows_all
        self.permissions = _Permissions(
            self._rules,
            services=self,
            agent=self._entry.name,
            asker=_Asker(asks),
            remember=None if self.allows_all else self._remember,
            on_decision=self._decided,
            root=self._project,
        )
        self._confinement = Confinement(
            sandbox=self._sandbox,
            tripwire=self._tripwire(),
            is_required=self._terms.sandbox == "require",
            restores=restores,
            is_expected=self.permissions.is_expected,
            on_finished=self._finished,
            on_changes=lambda changes: self._changed(changes, None),
        )
        self.terminals: LocalTerminals | None = None

    @property
    def confines(self) -> bool:
        """Whether commands that the agent asks permission for are then run here, in the sandbox."""
        if self._sandbox is None or self.terminals is None:
            return False
        facts = self._entry.facts
        return runs_built_in(self._entry) or (facts is not None and facts.runs_in_terminals)

    def options(self) -> ClientOptions:
        """The options of the connection to the agent."""
        withheld = self._entry.quirks.withhold
        if "terminal" not in withheld and self._terms.offers_terminals:
            self.terminals = LocalTerminals(
                permissions=self.permissions,
                confinement=self._confinement,
                environment=self._environment,
            )
        self._confinement.arm()
        files = WorkspaceFiles(permissions=self.permissions, missing=self._entry.quirks.missing_file)
        return {
            "permission": self.permissions.permission,
            "files": withhold_files(files, withheld) if self._terms.offers_files else None,
            "terminals": self.terminals,
            "elicitation": self._asks,
            "changes": self._changes(),
        }

    def _changes(self) -> SessionChanges | None:
        if not self._terms.follows_changes:
            return None
        from dragoman.scripting.changes import SessionChanges

        return SessionChanges(
            agent=ledger_name(self._hosted.record.agent),
            on_problem=lambda sentence: _log.warning("session %s: %s", self._hosted.id, sentence),
            on_end=self._followed,
        )

    def _followed(self, records: Sequence[TurnChanges]) -> None:
        self._report.followed = [{"folder": record.root.hex(), "number": record.number} for record in records]

    def _environment(self) -> dict[str, str]:
        """What commands of terminals may have: that of the client, and of it what every program needs."""
        env = self._hosted.env
        return dict(os.environ) if env is None else received(env, ALLOWED)

    def close(self) -> None:
        """Remove the private folder of the sandbox."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    # Rules

    def _rules(self) -> list[Rule]:
        terms = self._terms
        found = [parse_rule(text, "deny", "flag", "--deny") for text in terms.deny]
        found += [parse_rule(text, "ask", "flag", "--policy") for text in terms.ask]
        found += [parse_rule(text, "allow", "flag", "--allow") for text in terms.allow]
        if os.path.lexists(config_dir() / "rules.json"):
            found += open_rules().rules(self._project)
        found += self._settings_rules
        if runs_built_in(self._entry):
            # Choosing a mode is the user's decision; the agent does not ask about what its mode allows.
            modes = self._hosted.facts.get("modes")
            mode = MODES.get(modes.get("currentModeId", "") if isinstance(modes, dict) else "")
            found += () if mode is None else mode.rules(self._roots)
        return found

    def _remember(self, text: str, action: Any, scope: object) -> None:
        open_rules().remember(text, action, "project", self._project)

    # The sandbox

    def _make_sandbox(self) -> Sandbox | None:
        if self._terms.sandbox == "off":
            return None
        try:
            here = available(self._roots)
            if not here.backends:
                raise ConfigError(here.describe())
            self._temporary = tempfile.mkdtemp(prefix="dragoman-sandbox-")
            policy = make_policy(
                self._roots,
                temporary=self._temporary,
                writable=self._terms.writable,
                hidden=(config_dir(), data_dir(), state_dir()),
                network=False,
            )
            return Sandbox(policy, here.backends[0])
        except ConfigError as error:
            self.close()
            if self._terms.sandbox == "require":
                raise
            _log.warning("commands of %s run without a sandbox: %s", self._hosted.id, error)
            return None

    def _tripwire(self) -> Tripwire:
        aside = state_dir() / "protected"
        if self._sandbox is not None:
            return Tripwire(self._sandbox.policy, aside)
        return Tripwire(unconfined_policy(self._roots), aside, is_confined=False)

    # What is reported

    def report(self, prompt_id: str) -> TurnReport:
        """What happened in the turn of a prompt, with protected files that the agent changed itself."""
        self._confinement.compare()
        return self._reports.get(prompt_id) or TurnReport()

    @property
    def _report(self) -> TurnReport:
        running = self._hosted.turn
        id = "" if running is None else str(running["promptId"])
        if id not in self._reports:
            self._reports[id] = TurnReport()
            while len(self._reports) > _MOST_REPORTS:
                del self._reports[next(iter(self._reports))]
        return self._reports[id]

    def _decided(self, decision: Decision) -> None:
        self._hosted.note_decision(decision)
        if len(self._report.decisions) < _MOST_REPORTED:
            self._report.decisions.append(
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

    def _finished(self, command: FinishedCommand) -> None:
        if len(self._report.commands) < _MOST_REPORTED:
            self._report.commands.append(
                {
                    "terminalId": command.terminal_id,
                    "command": command.command,
                    "sandbox": command.sandbox,
                    "exitCode": command.exit_code,
                    "signal": command.signal,
                    "refused": [{"kind": each.kind, "subject": each.subject} for each in command.denials],
                }
            )
        self._changed(command.changes, command.command)

    def _changed(self, changes: Sequence[ProtectedChange], command: str | None) -> None:
        for change in changes:
            self._report.changes.append(
                {
                    "path": change.path,
                    "command": command,
                    "kept": change.kept,
                    "isRestored": change.is_restored,
                }
            )


class _Asker:
    """Asks the clients of the session."""

    def __init__(self, asks: AsksClients) -> None:
        self._asks = asks

    async def ask(self, question: Question, session: Session) -> str | None:
        outcome = await self._asks(question.permission, session)
        return outcome.option_id if isinstance(outcome, v1.SelectedPermissionOutcome) else None


class _Permissions(ClientPermissions):
    """Decides as `ClientPermissions` does, with what a session was opened for."""

    def __init__(self, *args: Any, services: SessionServices, **options: Any) -> None:
        super().__init__(*args, **options)
        self._services = services
        self._permitted_paths: set[str] = set()
        self._permitted_lines: list[str] = []

    async def select(self, question: Question, options: Sequence[Option], session: Session) -> Selection:
        if self._services.allows_all:
            allowing = [option for option in options if is_allowing(option.kind) and is_clear(option, options)]
            allowing.sort(key=lambda option: option.kind != "allow_once")
            return Selection(next(iter(allowing), None), ALLOW_ALL)
        selection = await super().select(question, options, session)
        # No client made a choice: for the run that is the same as a user who does not exist.
        is_unasked = selection.option is None and selection.decided_by == USER
        return Selection(None, NO_USER) if is_unasked else selection

    def confines_requests(self) -> bool:
        return self._services.confines

    def note_permitted(self, requests: Sequence[Request], decision: Decision) -> None:
        for request in requests:
            if request.kind in ("edit", "delete", "move"):
                self._permitted_paths.update(request.paths)
            elif request.kind == "execute" and decision.decided_by == USER:
                self._permitted_lines.append(request.shell or " ".join(request.command or ()))

    def is_expected(self, path: str) -> bool:
        """Whether the user permitted the change of a protected file."""
        if self._services.allows_all or any(is_below(path, permitted) for permitted in self._permitted_paths):
            return True
        inner = os.path.relpath(path, self._root or "/")
        return any(path in line or inner in line for line in self._permitted_lines)
