"""A worktree as a boundary for whole processes: the checkout it was made from is read-only, other worktrees are hidden.

Nothing else is taken from the process: not the network, not other folders, not its variables. Works with bubblewrap
only: Landlock cannot close one folder and leave the one above it open. A user namespace, for root too, keeps the
process from the mounts of other processes (`/proc/PID/root`) and from changing its own; files of the kernel that root
could use to run something outside are read-only.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from dragoman.boundary import Boundary, boundary_of
from dragoman.process.command import find_program
from dragoman.process.sandbox.bubblewrap import find_bwrap, git_mounts, terminate_inside
from dragoman.process.sandbox.policy import linked_git

_TRIAL_SECONDS: Final = 5.0
_OPEN: Final = ("--unshare-user", "--cap-drop", "ALL", "--dev-bind", "/", "/")
_KERNEL: Final = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/sys")


class ApartStarter:
    """One start of a process that is kept apart; it can ask what is inside to end."""

    def start(self, popen: Callable[[Collection[int]], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        return popen(())

    def terminate(self, group: int) -> None:
        """Send SIGTERM to the group without `bwrap`, which leads it and would end before the others are done."""
        terminate_inside(group)


class ApartCommand(Struct, frozen=True):
    """A command, ready for `launch`, `Child.spawn` or `Terminal.start`."""

    argv: Sequence[str]
    starter: ApartStarter | None = None
    """None if the command runs as it is."""


def keep_apart(argv: Sequence[str], folder: str, *, cwd: str, env: Mapping[str, str]) -> ApartCommand:
    """Return a command as it runs in a session in this folder: within the boundary, if that is in a worktree.

    Without bubblewrap it runs as it is. So does one that is not found, for the system's own error.
    """
    boundary = boundary_of(folder)
    if boundary is None or not argv or not os.path.isdir(cwd) or find_program(argv[0], env, cwd) is None:
        return ApartCommand(argv)
    program = find_bwrap((boundary.tree,))
    if program is None or not _works(program):
        return ApartCommand(argv)
    return ApartCommand([program, *_OPEN, *_mounts(boundary), "--chdir", cwd, "--", *argv], ApartStarter())


def mounts_of(folder: str) -> Iterator[str]:
    """Yield the mounts for a process in this folder; none if it is not in a worktree."""
    boundary = boundary_of(folder)
    return iter(()) if boundary is None else _mounts(boundary)


def lacks_enforcement(folder: str) -> str:
    """Return a sentence if this folder is in a worktree whose boundary no mount enforces here; empty otherwise."""
    boundary = boundary_of(folder)
    if boundary is None:
        return ""
    program = find_bwrap((boundary.tree,))
    if program is not None and _works(program):
        return ""
    return (
        f"bubblewrap cannot be used here, so only rules keep the agent from {boundary.originals[0]}: what it does "
        "without asking is not limited to the worktree; --sandbox-agent limits it"
    )


@lru_cache(maxsize=4)
def _works(program: str) -> bool:
    """Whether `bwrap` can make these mounts here, found by a trial."""
    try:
        done = subprocess.run(
            [program, *_OPEN, *_read_only(_KERNEL), "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_SECONDS,
            check=False,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _mounts(boundary: Boundary) -> Iterator[str]:
    """Yield the mounts, those of outer folders first: a mount covers what was mounted below it before."""
    yield from _read_only(_KERNEL)
    yield from ("--tmpfs", boundary.worktrees)
    place = os.path.dirname(os.path.dirname(boundary.tree))
    # The record states where the boundary runs, and the base what was there before: both are only read.
    yield from _read_only((place,))
    yield from _read_only(sorted(boundary.originals, key=len))
    git = linked_git(boundary.tree)
    yield from () if git is None else git_mounts(git)
    yield from ("--remount-ro", boundary.worktrees)
    yield from ("--bind", boundary.tree, boundary.tree)
    yield from _read_only((os.path.join(boundary.tree, ".git"),) * os.path.isfile(os.path.join(boundary.tree, ".git")))


def _read_only(paths: Collection[str] | Iterator[str]) -> Iterator[str]:
    for path in paths:
        if os.path.exists(path) and not os.path.islink(path):
            yield from ("--ro-bind", path, path)
