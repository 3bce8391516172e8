"""Everything that guards an agent which this program runs, put together in one place.

That is: the permission decisions, the files below the session's folders, the terminals, the sandbox of their commands,
and the comparison of protected files. `exec`, the local host and `serve` use it, so that an agent meets the same guard
wherever it runs. The parts are `files.py`, `terminals.py`, `confinement.py` and `permission.py`; which rules hold, who
is asked and where a report goes is decided by the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from dragoman.client.files import WorkspaceFiles, open_workspace
from dragoman.client.services import withhold_files
from dragoman.client.terminals import LocalTerminals
from dragoman.process.sandbox.confinement import Confinement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from dragoman.client import ClientOptions
    from dragoman.client.session import Session
    from dragoman.policy import Request
    from dragoman.policy.permitted import Permitted
    from dragoman.process.sandbox import ProtectedChange, Sandbox, Tripwire
    from dragoman.process.sandbox.confinement import FinishedCommand
    from dragoman.schema import v1
    from dragoman.workspace import Change, Workspace


class GuardDecisions(Protocol):
    """What decides for a guard; `ClientPermissions` is one."""

    @property
    def permitted(self) -> Permitted: ...

    async def permission(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> v1.SelectedPermissionOutcome | None: ...

    async def check(
        self, request: Request, session: Session, *, change: Change | None = None, env: Mapping[str, str] | None = None
    ) -> None: ...

    async def check_confined(
        self, request: Request, session: Session, *, env: Mapping[str, str] | None = None
    ) -> bool: ...


class AgentGuard:
    """The guard of one agent and its session.

    Args:
        decisions: decides about every request.
        roots: the folders of the session, the first one is its own.
        sandbox: where commands run that the user has not permitted; None runs all of them outside.
        is_required: commands run in the sandbox even if the user permitted them.
        restores: put back every protected file that was changed.
        withheld: capabilities that the agent is known not to handle, as in `withhold_files`; `terminal` too.
        missing: what a read of a missing file gives, as in `WorkspaceFiles`.
        offers_files, offers_terminals: whether the agent gets them at all.
        environment: gives the environment of commands; None takes that of this program.
        open_workspace: opens the files of a session.
        on_output: called with the output of terminals, as in `LocalTerminals`.
        on_finished: called when a command has ended and its protected files were compared.
        on_changes: called with changes of protected files that the agent made itself.
    """

    def __init__(
        self,
        decisions: GuardDecisions,
        roots: Sequence[str],
        *,
        sandbox: Sandbox | None = None,
        is_required: bool = False,
        restores: bool = False,
        withheld: Collection[str] = (),
        missing: Literal["error", "empty"] = "error",
        offers_files: bool = True,
        offers_terminals: bool = True,
        environment: Callable[[], Mapping[str, str]] | None = None,
        open_workspace: Callable[[Session], Workspace] = open_workspace,
        on_output: Callable[[str, Session, bytes], None] | None = None,
        on_finished: Callable[[FinishedCommand], None] | None = None,
        on_changes: Callable[[Sequence[ProtectedChange]], None] | None = None,
    ) -> None:
        self._decisions = decisions
        self.confinement = Confinement(
            sandbox=sandbox,
            tripwire=watch_protected(roots, sandbox),
            is_required=is_required,
            restores=restores,
            is_expected=self._is_expected,
            on_finished=on_finished,
            on_changes=on_changes,
        )
        self.terminals: LocalTerminals | None = None
        if offers_terminals and "terminal" not in withheld:
            self.terminals = LocalTerminals(
                permissions=decisions, on_output=on_output, environment=environment, confinement=self.confinement
            )
        files = WorkspaceFiles(permissions=decisions, missing=missing, open_workspace=open_workspace)
        self._files = withhold_files(files, frozenset(withheld)) if offers_files else None

    @property
    def has_sandbox(self) -> bool:
        """Whether commands of the agent's terminals run in a sandbox."""
        return self.confinement.sandbox is not None and self.terminals is not None

    def _is_expected(self, path: str) -> bool:
        return self._decisions.permitted.covers(path)  # what decides may be made by this first question about a change

    def options(self) -> ClientOptions:
        """The services for the connection to the agent."""
        return {"permission": self._decisions.permission, "files": self._files, "terminals": self.terminals}


def watch_protected(roots: Sequence[str], sandbox: Sandbox | None) -> Tripwire:
    """The comparison of protected files, which works with and without a sandbox."""
    from dragoman.process.sandbox.policy import unconfined_policy
    from dragoman.process.sandbox.tripwire import Tripwire
    from dragoman.settings.places import state_dir

    aside = state_dir() / "protected"
    if sandbox is not None:
        return Tripwire(sandbox.policy, aside)
    return Tripwire(unconfined_policy(roots), aside, is_confined=False)
