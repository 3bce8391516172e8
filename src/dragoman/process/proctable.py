"""Facts about running processes, from `/proc`.

Owns reading it. Every function raises OSError for a process that is gone or not ours to read. Decides nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, NamedTuple

_READ_BYTES: Final = 1 << 16
_DEAD: Final = "ZX"
_KTHREADD: Final = 2  # the parent of all kernel threads
TICK_SECONDS: Final = 1 / os.sysconf("SC_CLK_TCK")


class Status(NamedTuple):
    """The part of `/proc/<pid>/stat` that is needed here."""

    state: str
    parent: int
    group: int
    terminal: int = 0
    """The number of its terminal; 0 if it has none."""
    started: float = 0.0
    """When it was started, in seconds of CLOCK_BOOTTIME, rounded down to `TICK_SECONDS`."""
    environment_end: int = 1
    """Where its environment ends in memory; 0 for one without memory and in the middle of an `exec`."""

    @property
    def is_alive(self) -> bool:
        return self.state not in _DEAD

    @property
    def is_in_exec(self) -> bool:
        """Whether it is being replaced by another program; also true for a moment while it ends."""
        return self.is_alive and not self.is_kernel_thread and self.environment_end == 0

    @property
    def is_kernel_thread(self) -> bool:
        return self.parent in (0, _KTHREADD)


def is_readable() -> bool:
    """Whether this system has a `/proc` with environments."""
    return os.path.exists("/proc/self/environ")


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def working_below(folder: str) -> list[int]:
    """Return the processes without a terminal whose working folder is this one, a real path, or below it."""
    from dragoman.policy.paths import is_below  # few programs look for processes by their folder

    found = []
    for pid in pids() if is_readable() else ():
        with suppress(OSError):
            if is_below(os.readlink(f"/proc/{pid}/cwd"), folder):
                now = status(pid)
                found += [pid] if now.is_alive and not now.terminal else []
    return found


def writes_to(pid: int, wanted: os.stat_result) -> bool:
    """Whether a process has this file or pipe open for writing; False for one that cannot be seen into."""
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found = os.stat(f"/proc/{pid}/fd/{name}")
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    flags = next(line for line in _read(f"/proc/{pid}/fdinfo/{name}").split(b"\n") if b"flags:" in line)
                    if int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY:
                        return True
    return False


def owner(pid: int) -> int:
    return os.stat(f"/proc/{pid}").st_uid


def status(pid: int) -> Status:
    # The second field is the program's name in parentheses and may itself contain spaces and parentheses.
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    started = int(fields[19]) * TICK_SECONDS
    return Status(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[4]), started, int(fields[48]))


def environment(pid: int) -> bytes:
    """Return its environment at the last `exec`; empty for the dead, for kernel threads and in the middle of one."""
    return _read(f"/proc/{pid}/environ")


def command_line(pid: int) -> str:
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode("utf-8", "surrogateescape")


def name(pid: int) -> str:
    """Return what the kernel calls the program, at most 15 characters."""
    return _read(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()


def system_call(pid: int) -> list[int]:
    """Return the system call in which a thread is stopped: number, six arguments, stack pointer, next address."""
    return [int(word, 0) for word in _read(f"/proc/{pid}/syscall").split()]


def mappings(pid: int) -> list[str]:
    """Return the files in its memory, one line each: extent, permissions, offset, device, inode, path."""
    lines = _read(f"/proc/{pid}/maps").decode("utf-8", "surrogateescape").splitlines()
    return [line for line in lines if "/" in line]


def group_is_alive(group: int) -> bool:
    """Whether a process group has a member that runs."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    if not is_readable():
        return True
    # A dead member still counts for killpg until it is reaped, and in many containers no process reaps orphans.
    try:
        candidates = pids()
    except OSError:  # no descriptor left to look with
        return True
    for pid in candidates:
        with suppress(FileNotFoundError, ProcessLookupError):
            found = status(pid)
            if found.group == group and found.is_alive:
                return True
    return False


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(fd, _READ_BYTES):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)
