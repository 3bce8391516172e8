"""What guards an agent that this program runs: its permissions, files, terminals, sandbox and protected files.

Everything that is decided or found becomes an event, so that `exec`, the local host, `serve` and a subagent see the
same of it. Which rules hold is in the `Terms`, an `Asker` decides what they leave open. Rules decide about requests,
and some agents act without one: a tool call that is reported as completed is judged as if permission had been requested
for it, and so is every file that it shows as changed. Only a deny counts. What cannot be read is reported as unjudged.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec import convert

from dragoman.boundary import boundary_of
from dragoman.client.files import WorkspaceFiles, open_workspace
from dragoman.client.services import withhold_files
from dragoman.client.terminals import LocalTerminals
from dragoman.process.sandbox.confinement import Confinement
from dragoman.registry.built_in import runs_built_in, runs_commands_at_client
from dragoman.runs.events import (
    Asking,
    CommandEnded,
    Decided,
    LeftUnjudged,
    ProtectedChanged,
    TerminalOutput,
    Violated,
)
from dragoman.runs.opening import current_mode
from dragoman.runs.result import RunUnjudged, RunViolation
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.client import ClientOptions, RemoteAgent, Session
    from dragoman.client.permission import Answer, Asker, ClientPermissions, Question
    from dragoman.client.reading import Announcements
    from dragoman.client.terminals import Look
    from dragoman.policy import Request, Rule
    from dragoman.policy.decide import Decision
    from dragoman.process.sandbox import ProtectedChange, Sandbox, Tripwire
    from dragoman.process.sandbox.confinement import FinishedCommand
    from dragoman.runs.events import RunEvent
    from dragoman.runs.terms import Terms
    from dragoman.state.tools import ToolCallState
    from dragoman.workspace import Change, Workspace

BY_PROTECTION: Final = "protected file"
"""`decided_by` of a violation that no rule has to name."""


class RunGuard:
    """The guard of one agent and its session, as services of the connection to it.

    Args:
        terms: what was decided before.
        asker: decides what the rules leave open; None refuses that.
        report: called with each event.
    """

    def __init__(
        self,
        terms: Terms,
        *,
        asker: Asker | None,
        report: Callable[[RunEvent], None],
    ) -> None:
        self.terms = terms
        self.agent: RemoteAgent | None = None
        """Set when it has answered `initialize`."""
        self.session: Session | None = None
        """Set when it is open."""
        self.before_permitted: Callable[[Sequence[str]], None] | None = None
        """Called with paths before the answer leaves that permits their change."""
        self.workspaces: list[Workspace] = []
        """The files of the session, once the agent has used one."""
        self._asker = asker
        self._report = report
        self._judged: set[tuple[int | None, str]] = set()  # the turns and ids of calls that violate a rule
        self._unjudged: set[tuple[int | None, str]] = set()
        self._announcements: Announcements | None = None
        self._turn_rules: Sequence[Rule] | None = None
        sandboxes, entry = terms.sandboxes, terms.entry
        withheld = () if entry is None else entry.quirks.withhold
        self.confinement = Confinement(
            sandbox=sandboxes.commands,
            outside=sandboxes.outside,
            renew=None if sandboxes.search is None else sandboxes.renewed,
            tripwire=watch_protected(terms.roots, sandboxes.commands),
            is_required=sandboxes.mode == "require",
            # A sandboxed agent on the restricted thread can change protected files itself.
            restores=terms.restores or (sandboxes.agent is not None and sandboxes.agent.must_restore),
            is_expected=self.is_expected,
            on_finished=self._finished,
            on_changes=self.note_changes,
        )
        self.terminals: LocalTerminals | None = None
        if terms.chosen.offers_terminals and "terminal" not in withheld:
            self.terminals = LocalTerminals(
                permissions=self,
                on_output=lambda terminal_id, _, data: report(TerminalOutput(terminal_id=terminal_id, data=data)),
                environment=terms.environment,
                confinement=self.confinement,
            )
        files = WorkspaceFiles(
            permissions=self,
            missing="error" if entry is None else entry.quirks.missing_file,
            open_workspace=self._open_workspace,
        )
        self._files = withhold_files(files, frozenset(withheld)) if terms.chosen.offers_files else None

    def options(self) -> ClientOptions:
        """Return the services for the connection to the agent."""
        return {"permission": self.permission, "files": self._files, "terminals": self.terminals}

    # Permissions

    @cached_property
    def permissions(self) -> ClientPermissions:
        """What decides. Made, and loaded, with the first request: a plain turn needs none of it."""
        from dragoman.client.permission import ClientPermissions, Guarding

        terms, asker = self.terms, self._asker
        entry = terms.entry
        return ClientPermissions(
            lambda: terms.rules(self.mode),
            agent=terms.agent,
            asker=None if asker is None else ReportedAsker(asker, self._report),
            # An "always" that no user chose must not outlive the run.
            remember=None if terms.allows_all else terms.remember,
            keeps_rules=terms.keeps_rules,
            rule_file=terms.rule_file,
            on_decision=lambda decision: self._report(Decided(decision=decision)),
            root=terms.project,
            guarding=Guarding(
                confines=self._confines,
                allows_all=terms.allows_all,
                reads_reasons=lambda: self.reads_reasons,
                is_built_in=entry is not None and runs_built_in(entry),
                own_files=() if entry is None or entry.facts is None else entry.facts.own_files,
                before_permitted=self._copy_before,
            ),
        )

    async def permission(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> v1.SelectedPermissionOutcome | None:
        """Answer `session/request_permission`."""
        return await self.permissions.permission(request, session)

    async def check(
        self, request: Request, session: Session, *, change: Change | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        """Return if the request is permitted.

        Raises:
            RequestError: it is not permitted.
        """
        await self.permissions.check(request, session, change=change, env=env)

    async def check_confined(self, request: Request, session: Session, *, env: Mapping[str, str] | None = None) -> bool:
        """Return whether the user permitted this very command; False if it is acceptable in the sandbox only.

        Raises:
            RequestError: it is not permitted, not even in the sandbox.
        """
        return await self.permissions.check_confined(request, session, env=env)

    def is_expected(self, path: str) -> bool:
        """Whether the user permitted the change of a protected file."""
        return self.permissions.permitted.covers(path)

    @property
    def decisions(self) -> Sequence[Decision]:
        """Every decision so far."""
        return self.permissions.decisions if "permissions" in self.__dict__ else ()

    @property
    def unasked_hint(self) -> str:
        """What the user can do about the first request that no user could be asked about; empty if there is none."""
        unasked = self.permissions.unasked if self.decisions else ()
        if not unasked:
            return ""
        from dragoman.runs.hints import hint_for

        return hint_for(self.permissions.rules, unasked[0])

    @property
    def reads_reasons(self) -> bool:
        """Whether the agent reads why something was refused: the built-in one, which marks its capabilities."""
        return own_meta(None if self.agent is None else self.agent.capabilities.meta) is not None

    @property
    def mode(self) -> str | None:
        """The mode of the session, if it has modes."""
        return None if self.session is None else current_mode(self.session)

    def _copy_before(self, paths: Sequence[str]) -> None:
        if self.before_permitted is not None:  # it is another one in each turn
            self.before_permitted(paths)

    def _confines(self) -> bool:
        """Whether commands that the agent asks permission for are then run here, in the sandbox."""
        entry = self.terms.entry
        if self.confinement.sandbox is None or self.terminals is None or entry is None or self.terms.asks_inside:
            return False
        return runs_commands_at_client(entry, self.mode)

    # Files and commands

    def written(self, label: str | None = None) -> list[Change]:
        """Return the files that differ because this program wrote them for the agent, in one turn or in all."""
        return [change for workspace in self.workspaces for change in workspace.journal.net(label)]

    def look(self, terminal_id: str) -> Look | None:
        """Return what a terminal shows now, ours or, with an agent of version 2, the agent's."""
        found = None if self.terminals is None else self.terminals.look(terminal_id)
        if found is None and self.session is not None and self.session.state.terminals:
            from dragoman.client.version2.terminals import look_at

            return look_at(self.session, terminal_id)
        return found

    def _open_workspace(self, session: Session) -> Workspace:
        workspace = open_workspace(session)
        self.workspaces.append(workspace)
        return workspace

    def _finished(self, command: FinishedCommand) -> None:
        hint = None
        if command.denials:
            from dragoman.runs.hints import hint_outside

            hint = hint_outside(self.permissions.rules, command, self.terms.sandboxes.mode)
        self._report(CommandEnded(command=command, hint=hint))
        self.note_changes(command.changes, command.command)

    # Violations

    @property
    def watches(self) -> bool:
        """Whether protected files are compared: not for an agent in this process, whose changes are the program's own.

        A client that serves the files itself also guards them.
        """
        return self.terms.entry is not None and self.terms.watches()

    @property
    def is_watching(self) -> bool:
        """Whether the protected files were noted, and can be compared."""
        return self.confinement.is_armed and self.watches

    def arm(self) -> None:
        """Note the protected files as they are. Blocks."""
        if self.watches:
            self.confinement.arm()

    def compare(self) -> None:
        """Report the protected files that the agent changed itself; called when no command runs. Blocks."""
        if self.is_watching:
            self.confinement.compare()

    def begin_turn(self) -> None:
        """Read the rules again for what is done in the next turn."""
        self._turn_rules = None

    def judge_updates(self, updates: Sequence[v1.SessionUpdate]) -> None:
        """Report what completed calls did although a rule denies it; called when they are in the session's state."""
        session = self.session
        for update in updates:
            if isinstance(update, v1.ToolCall | v1.ToolCallUpdate) and session is not None:
                if update.content:
                    self._announce(update)
                call = session.state.tool_calls.get(update.tool_call_id)
                if call is not None and call.status == "completed" and (call.turn, call.id) not in self._judged:
                    self._judge_call(call, session)

    def _announce(self, update: v1.ToolCall | v1.ToolCallUpdate) -> None:
        if self._announcements is None:
            from dragoman.client.reading import Announcements

            self._announcements = Announcements()
        self._announcements.note(update)

    def _judge_call(self, call: ToolCallState, session: Session) -> None:
        if self._turn_rules is None:
            # Only a deny counts. They are read once a turn: a host reads files for it.
            self._turn_rules = [rule for rule in self.permissions.rules if rule.action == "deny"]
        if not self._turn_rules and boundary_of(session.cwd) is None:
            return
        from dragoman.client.reading import read_call
        from dragoman.client.violations import unjudged_in, violation_in
        from dragoman.workspace.folders import SessionFolders

        folders = SessionFolders(session.cwd, session.additional_directories, project=self.terms.project)
        announced = () if self._announcements is None else self._announcements.of(call)
        evidence = read_call(call, session, folders, agent=self.terms.agent, announced=announced)
        refused = [decision for decision in self.decisions if not decision.is_allowed]
        found = violation_in(evidence, self._turn_rules, refused, folders)
        if found is not None:
            self._judged.add((call.turn, call.id))
            violation = RunViolation(
                title=found.title,
                kind=found.kind,
                rule=found.rule,
                decided_by=found.decided_by,
                tool_call_id=found.tool_call_id,
                paths=list(found.paths),
            )
            self._report(Violated(violation=violation))
            return
        if (call.turn, call.id) in self._unjudged or self._judges_itself or self._ran_here(call):
            return
        left = unjudged_in(evidence, self._turn_rules, self.decisions)
        if left is not None:
            self._unjudged.add((call.turn, call.id))
            self._report(LeftUnjudged(unjudged=convert(left, RunUnjudged, from_attributes=True)))

    @property
    def _judges_itself(self) -> bool:
        """Whether the agent is our own, which asks about everything that a deny of this run may concern."""
        entry = self.terms.entry
        return entry is not None and runs_built_in(entry)

    def _ran_here(self, call: ToolCallState) -> bool:
        """Whether the command of a call ran in a terminal of this program, where it was judged before."""
        shown = [item.terminal_id for item in call.content if isinstance(item, v1.Terminal)]
        return self.terminals is not None and any(self.terminals.look(id) is not None for id in shown)

    def note_changes(self, changes: Sequence[ProtectedChange], command: str | None = None) -> None:
        """Report protected files that changed without a permission, by a command or by the agent itself."""
        if not changes:
            return
        self._report(ProtectedChanged(changes=changes, command=command))
        for change in changes:
            violation = RunViolation(
                title=f"{change.path} was {change.happened}",
                kind="delete" if change.happened == "deleted" else "edit",
                rule=None,
                decided_by=BY_PROTECTION,
                tool_call_id=None,
                paths=[change.path],
                command=command,
                kept=change.kept,
                is_restored=change.is_restored,
            )
            self._report(Violated(violation=violation))


class ReportedAsker:
    """An asker that asks as another does, and reports what is asked as long as the question is open."""

    def __init__(self, asker: Asker, report: Callable[[RunEvent], None]) -> None:
        self._asker = asker
        self._report = report

    @property
    def has_user(self) -> bool:
        return bool(getattr(self._asker, "has_user", True))

    async def ask(self, question: Question, session: Session) -> Answer | str | None:
        """Ask the user."""
        self._report(Asking(title=f"{question.words.kind}: {question.words.title}"))
        try:
            return await self._asker.ask(question, session)
        finally:
            self._report(Asking(title=""))


def own_meta(meta: object) -> dict[str, Any] | None:
    """Return the members that only the built-in agent sends; None for another agent."""
    own = meta.get("dragoman") if isinstance(meta, dict) else None
    return own if isinstance(own, dict) else None


def watch_protected(roots: Sequence[str], sandbox: Sandbox | None) -> Tripwire:
    """Return the comparison of protected files, which works with and without a sandbox."""
    from dragoman.process.sandbox.policy import unconfined_policy
    from dragoman.process.sandbox.tripwire import Tripwire
    from dragoman.settings.places import state_dir

    aside = state_dir() / "protected"
    if sandbox is not None:
        return Tripwire(sandbox.policy, aside)
    return Tripwire(unconfined_policy(roots), aside, is_confined=False)
