"""The enclosure of commands: the sandbox they run in, and the comparison of protected files around them.

Owns the order of the steps around one command, for the client's terminals, the guard and the built-in agent. Whether a
command runs inside is decided by the permission check, and the caller starts it.

What can race: commands run in parallel. The files are noted when the first of them starts and compared when each of
them ends, so a change is reported with the first command that ends after it, and never missed. The looks take tens of
milliseconds in a large project, so they run in threads, one after another.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.policy.paths import is_below

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
    """The enclosure of one client's commands.

    Args:
        sandbox: where commands run that the user has not permitted; None runs all of them outside.
        outside: closes what rules deny to commands outside the sandbox; None closes nothing there.
        renew: called before each command, in a thread; returns both with the files that rules deny then.
        tripwire: compares protected files before and after each command; None does not.
        is_required: commands run in the sandbox even if the user permitted them.
        restores: put back every protected file that was changed; the restricted thread does so in any case.
        rearms: files that changed while no command ran are the user's work, as with the built-in agent, whose own
            writes all pass `accept`. Otherwise they are the agent's, which is another program, and are reported.
        is_expected: whether the user permitted the change of a protected file.
        on_finished: called when a command has ended and its protected files were compared.
        on_changes: called with changes that were found while no command ran: the agent made them itself.
    """

    def __init__(
        self,
        *,
        sandbox: Sandbox | None = None,
        outside: Sandbox | None = None,
        renew: Callable[[], tuple[Sandbox | None, Sandbox | None]] | None = None,
        tripwire: Tripwire | None = None,
        is_required: bool = False,
        restores: bool = False,
        rearms: bool = False,
        is_expected: Callable[[str], bool] | None = None,
        on_finished: Callable[[FinishedCommand], None] | None = None,
        on_changes: Callable[[Sequence[ProtectedChange]], None] | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.outside = outside
        self._renew = renew
        self.is_required: Final = is_required
        self.on_finished = on_finished
        self._tripwire = tripwire
        self._restores = restores
        self._rearms = rearms
        self._is_expected = is_expected
        self._on_changes = on_changes
        self._running = 0
        self._is_armed = False
        self._turn = asyncio.Lock()  # what is counted and what was looked at belong together
        self._looking = threading.Lock()  # a look whose caller was cancelled goes on in its thread

    @property
    def is_armed(self) -> bool:
        """Whether the protected files were noted."""
        return self._is_armed

    # These block, and may be called in a thread.

    def arm(self) -> None:
        """Note the protected files as they are; without this call, the first command does it."""
        with self._looking:
            if self._tripwire is not None:
                self._tripwire.arm()
            self._is_armed = True

    def changes(self) -> tuple[ProtectedChange, ...]:
        """Compare the protected files now; what the agent changed itself."""
        return self._check(self._restores, ())

    def compare(self) -> None:
        """Compare the protected files now, and report what the agent changed itself."""
        self._report(self.changes())

    # Around a command

    async def begin(self) -> None:
        """Call this before a command is started; every `begin` needs an `end`."""
        async with self._turn:
            if self._renew is not None:
                self.sandbox, self.outside = await asyncio.to_thread(self._renew)
            if not self._is_armed or (self._rearms and self._running == 0):
                await asyncio.to_thread(self.arm)
            elif self._running == 0:  # otherwise a change may be that of the command which runs
                self._report(await asyncio.to_thread(self.changes))
            self._running += 1

    def confine(
        self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], added: Mapping[str, str], is_inside: bool = True
    ) -> Confined | None:
        """Prepare a command for the sandbox, or for the outside; `added` are the variables that the agent set.

        None if nothing is closed to commands outside.

        Raises:
            ConfigError: the command or the folder cannot be used.
        """
        if not is_inside:
            return None if self.outside is None else self.outside.confine(argv, cwd=cwd, env=env)
        assert self.sandbox is not None  # the caller has looked
        confined = self.sandbox.confine(argv, cwd=cwd, env=env)
        # The sandbox removes variables of the user. Those of the agent hold nothing that it does not have already.
        confined.env.update({name: value for name, value in added.items() if name not in _TEMPORARY})
        return confined

    async def end(self, *, was_inside: bool, permitted: Sequence[str] = ()) -> tuple[ProtectedChange, ...]:
        """Compare the protected files after a command has ended, also if the caller is cancelled meanwhile.

        `permitted` are files that this command may change, and what is below them.
        """
        return await asyncio.shield(self._end(was_inside, permitted))

    async def _end(self, was_inside: bool, permitted: Sequence[str]) -> tuple[ProtectedChange, ...]:
        must_restore = was_inside and self.sandbox is not None and self.sandbox.must_restore
        async with self._turn:
            try:
                return await asyncio.to_thread(self._check, self._restores or must_restore, permitted)
            finally:
                self._running -= 1

    async def accept(self, path: str) -> None:
        """Take note of a change that was made with permission, so that it does not count as one of a command."""
        async with self._turn:  # while the files are being looked at, it is not known yet what was seen of this one
            if self._tripwire is not None and self._is_armed and (self._running or not self._rearms):
                await asyncio.to_thread(self._accept, self._tripwire, path)

    def _accept(self, tripwire: Tripwire, path: str) -> None:
        with self._looking:
            tripwire.accept(path)

    def _check(self, restore: bool, permitted: Sequence[str]) -> tuple[ProtectedChange, ...]:
        if self._tripwire is None:
            return ()
        real = [os.path.realpath(path) for path in permitted]

        def is_expected(path: str) -> bool:
            is_named = any(is_below(path, folder) for folder in real)
            return is_named or (self._is_expected is not None and self._is_expected(path))

        with self._looking:
            return tuple(self._tripwire.check(restore=restore, is_expected=is_expected))

    def _report(self, changes: Sequence[ProtectedChange]) -> None:
        if changes and self._on_changes is not None:
            self._on_changes(changes)
