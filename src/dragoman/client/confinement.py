"""What encloses the commands of an agent's terminals: a sandbox, and the comparison of protected files.

Owns the order of the steps around one command, also when several commands run at a time: the tripwire is armed before
the first of them and checked after each. `terminals.py` starts the commands; which of them run inside is the result of
the permission check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.policy import Request
    from dragoman.process.sandbox import Confined, Denial, ProtectedChange, Sandbox, Tripwire

_TEMPORARY: Final = ("TMPDIR", "TMP", "TEMP")


class FinishedCommand(Struct, frozen=True, kw_only=True):
    """A command that has ended, and what it did that it should not have done.

    `sandbox` is the backend it ran in, None for a command that ran outside. `denials` are what the sandbox kept from
    it, `changes` the protected files that differ from before it.
    """

    terminal_id: str
    session_id: str
    command: str
    request: Request
    sandbox: str | None
    exit_code: int | None
    signal: str | None
    denials: tuple[Denial, ...] = ()
    changes: tuple[ProtectedChange, ...] = ()


class Confinement:
    """Encloses the commands of a client's terminals.

    Args:
        sandbox: where commands run that the user has not permitted; None runs all of them outside.
        tripwire: compares protected files before and after each command; None does not.
        is_required: commands run in the sandbox even if the user permitted them.
        restores: put back every protected file that was changed; the restricted thread does so in any case.
        is_expected: whether the user permitted the change of a protected file.
        on_finished: called when a command has ended and its protected files were compared.
        on_changes: called with changes that were found while no command ran: the agent made them itself.
    """

    def __init__(
        self,
        *,
        sandbox: Sandbox | None = None,
        tripwire: Tripwire | None = None,
        is_required: bool = False,
        restores: bool = False,
        is_expected: Callable[[str], bool] | None = None,
        on_finished: Callable[[FinishedCommand], None] | None = None,
        on_changes: Callable[[Sequence[ProtectedChange]], None] | None = None,
    ) -> None:
        self.sandbox: Final = sandbox
        self.is_required: Final = is_required
        self.on_finished = on_finished
        self._tripwire = tripwire
        self._restores = restores
        self._is_expected = is_expected
        self._on_changes = on_changes
        self._running = 0
        self._is_armed = False

    def arm(self) -> None:
        """Note the protected files as they are; without this call, the first command does it."""
        if self._tripwire is not None:
            self._tripwire.arm()
        self._is_armed = True

    @property
    def is_armed(self) -> bool:
        """Whether the protected files were noted."""
        return self._is_armed

    def changes(self) -> tuple[ProtectedChange, ...]:
        """Compare the protected files now; what the agent changed itself. May be called in a thread."""
        return self._check(restore=self._restores)

    def compare(self) -> None:
        """Compare the protected files now, and report what the agent changed itself."""
        changes = self.changes()
        if changes and self._on_changes is not None:
            self._on_changes(changes)

    def begin(self) -> None:
        """Call this before a command is started; every `begin` needs an `end`."""
        if not self._is_armed:
            self.arm()
        elif self._running == 0:  # otherwise a change may be that of the command which runs
            self.compare()
        self._running += 1

    def confine(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], added: Mapping[str, str]) -> Confined:
        """Prepare a command for the sandbox; `added` are the variables that the agent set.

        Raises:
            ConfigError: the command or the folder cannot be used.
        """
        assert self.sandbox is not None  # the caller has looked
        confined = self.sandbox.confine(argv, cwd=cwd, env=env)
        # The sandbox removes variables of the user. Those of the agent hold nothing that it does not have already.
        confined.env.update({name: value for name, value in added.items() if name not in _TEMPORARY})
        return confined

    def end(self, *, was_inside: bool) -> tuple[ProtectedChange, ...]:
        """Compare the protected files after a command has ended."""
        self._running -= 1
        must_restore = was_inside and self.sandbox is not None and self.sandbox.must_restore
        return self._check(restore=self._restores or must_restore)

    def _check(self, *, restore: bool) -> tuple[ProtectedChange, ...]:
        if self._tripwire is None:
            return ()
        return tuple(self._tripwire.check(restore=restore, is_expected=self._is_expected))
