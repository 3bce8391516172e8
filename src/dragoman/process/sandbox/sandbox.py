"""One interface to both backends: which is in force, how a command is started in it, what it did not get.

Owns the choice of the backend and the sentences about it. The caller starts the command itself, with `Child.spawn` or
`Terminal.start`, so that pseudo terminal, guard and sweep work as without a sandbox.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from dragoman.errors import ConfigError
from dragoman.process.command import find_program
from dragoman.process.launch import explain
from dragoman.process.sandbox import bubblewrap, landlock, thread
from dragoman.process.sandbox.denials import Denial, file_denials, socket_denials
from dragoman.process.sandbox.environment import scrub
from dragoman.process.sandbox.policy import SandboxPolicy, protected_paths

_log = logging.getLogger("dragoman.process")

Backend = Literal["bubblewrap", "thread"]

_PROMISES: Final = {
    "bubblewrap": (
        "Commands run in bubblewrap: they write only in {written}, existing protected files are read-only, secret "
        "folders look empty, {network}, and other processes cannot be seen. It does not stop the creation of a "
        "protected file that does not exist yet, nor Unix sockets outside /run and /tmp."
    ),
    "thread": (
        "Commands run on a restricted thread (Landlock and seccomp): they write only in {written}, secret folders "
        "cannot be read, {network}. It does not stop changes of protected files in these folders (the tripwire "
        "reports and reverts them), nor a change of mode or time of files outside, nor a look at file names and "
        "command lines, nor the use of the user's other terminals and shared memory."
    ),
}


class Available(msgspec.Struct, frozen=True, kw_only=True):
    """Which backends work on this machine, and why the others do not."""

    backends: tuple[Backend, ...]
    """The best one first; empty if there is no sandbox here."""
    reasons: dict[str, str]
    """Backend -> why it cannot be used."""

    def describe(self) -> str:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in self.reasons.items())
        if not self.backends:
            return f"no sandbox is available ({reasons})"
        return f"sandbox: {self.backends[0]}" + (f" ({reasons})" if reasons else "")


def available(roots: Sequence[str] = ()) -> Available:
    """Look which backends work here. Runs `bwrap` once; keep the result.

    Args:
        roots: The user's folders; a `bwrap` that lies in them is not trusted.
    """
    if sys.platform != "linux":
        reason = "needs Linux"
        return Available(backends=(), reasons={"bubblewrap": reason, "thread": reason})
    real = [os.path.realpath(root) for root in roots]
    checks: dict[Backend, str | None] = {
        "bubblewrap": bubblewrap.why_not(bubblewrap.find_bwrap(real)),
        "thread": thread.why_not(),
    }
    return Available(
        backends=tuple(name for name, reason in checks.items() if reason is None),
        reasons={name: reason for name, reason in checks.items() if reason is not None},
    )


class Confined:
    """One command, ready for `Terminal.start` or `Child.spawn`: pass its `argv`, `cwd`, `env` and `starter`."""

    def __init__(
        self,
        argv: list[str],
        cwd: str,
        env: dict[str, str],
        starter: thread.ThreadStarter | bubblewrap.BubblewrapStarter,
        policy: SandboxPolicy,
        protected: Sequence[str],
    ) -> None:
        self.argv = argv
        self.cwd = cwd
        self.env = env
        self.starter = starter
        self._policy = policy
        self._protected = protected

    def denials(self, output: str) -> list[Denial]:
        """Return what the command wanted and did not get, as far as it can be known.

        Call it when the command has ended and its protected files were compared: it reads what the command printed. A
        failure is logged: no text of a command keeps its caller from going on.
        """
        found = socket_denials(self.starter.attempts)
        try:
            found += file_denials(self._policy, self._protected, output, self.cwd)
        except Exception:
            _log.exception("what the sandbox kept from a command is not known")
        return found


class Sandbox:
    """A sandbox for commands: one policy, one backend."""

    def __init__(self, policy: SandboxPolicy, backend: Backend) -> None:
        self.policy: Final = policy
        self.backend: Final = backend
        self._thread: thread.RestrictedThread | None = None
        self._bubblewrap: bubblewrap.Bubblewrap | None = None
        if backend == "thread":
            reason = thread.why_not()
            if reason is None:
                self._thread = thread.RestrictedThread(policy)
        else:
            program = bubblewrap.find_bwrap(policy.written)
            reason = bubblewrap.why_not(program)
            if reason is None and program is not None:
                self._bubblewrap = bubblewrap.Bubblewrap(policy, program)
        if reason is not None:
            raise ConfigError(f"the sandbox {backend!r} cannot be used: {reason}")

    @classmethod
    def best(cls, policy: SandboxPolicy) -> Sandbox:
        """Make one with the backend that promises most here. Raises: ConfigError: none works, with the reasons."""
        found = available(policy.written)
        if not found.backends:
            raise ConfigError(found.describe())
        return cls(policy, found.backends[0])

    @property
    def must_restore(self) -> bool:
        """Whether protected files are guarded by the tripwire alone, which then has to put them back."""
        return self.backend == "thread"

    def confine(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> Confined:
        """Prepare one command. Start it at once, because the folders are looked at now.

        Args:
            env: The whole environment; it is scrubbed here.

        Raises:
            ConfigError: the command or the folder cannot be used.
        """
        folder = os.path.realpath(cwd)
        variables = dict(env) if self.policy.is_wide else scrub(env, self.policy.temporary)
        if self._bubblewrap is None:
            assert self._thread is not None  # one of the two is set
            return Confined(list(argv), folder, variables, self._thread.starter(), self.policy, ())
        if not os.path.isdir(folder):
            raise explain(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), cwd), str(argv[:1]), cwd)
        if not argv:
            raise ConfigError("the command is empty; give the program and its arguments")
        # bwrap would report a missing program by exit code 1, which looks like a failure of the command itself.
        if find_program(argv[0], variables, folder) is None:
            raise explain(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)), argv[0], folder)
        starter = self._bubblewrap.starter()
        protected = [] if self.policy.is_wide else protected_paths(self.policy)
        command = self._bubblewrap.command(argv, folder, starter.filter_fd, protected)
        return Confined(command, folder, variables, starter, self.policy, protected)

    def describe(self) -> str:
        """State which backend is in force, what it stops, and what it does not stop."""
        if self.policy.is_wide:
            closed = len(self.policy.hidden) + len(self.policy.read_only)
            return f"Commands outside the sandbox cannot reach what rules about files deny ({closed} mounts)."
        network = "the network is open" if self.policy.network else "there is no network"
        if self.backend == "bubblewrap" and not self.policy.network:
            network = "there is no network but their own loopback"
        text = _PROMISES[self.backend].format(written=", ".join(self.policy.written), network=network)
        if self.backend == "thread" and landlock.abi() < landlock.ABI_SIGNALS:
            text += " This kernel does not stop signals to other processes of the user either."
        left = self._bubblewrap.unbound() if self._bubblewrap else 0
        return f"{text} {left} protected files are too many to be read-only." if left else text
