"""The bubblewrap backend: the command sees the system through mounts of its own.

Owns the command line of `bwrap` and the trial run that decides whether it works here. Existing protected paths are
bound read-only; nothing is mounted on a path that does not exist, because that would leave an empty file behind.

Order of the mounts decides: the system read-only, then what is writable, then what is protected and what rules keep
read-only in it, then what is hidden: a link that another command swaps in at this moment cannot uncover it. Only hidden
folders that contain a writable one come before that. There is no `--new-session`: signals to the group reach the
inside, and typing into the terminal, which that option prevents, is refused by seccomp. SIGTERM to the outer `bwrap`
would kill everything inside at once, so `terminate` leaves it out; it ends with the command.

The network is stopped by its namespace, which reports nothing. So a second seccomp program, which `bwrap` inherits,
reports each address that a command names. Its listener always lets the call happen: a command that changes the address
meanwhile gains nothing.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from dragoman.policy.paths import is_below
from dragoman.process import proctable
from dragoman.process.sandbox.filter import Machine, address_filter, machine, namespace_filter, user_filter
from dragoman.process.sandbox.listener import (
    CallAnswer,
    Listener,
    ReportedCall,
    SocketAttempt,
    install,
    set_no_new_privs,
)
from dragoman.process.sandbox.policy import GIT_OWN_KEPT, LinkedGit, SandboxPolicy, protected_paths

MOST_BINDS: Final = 64  # each costs 0.1 ms; the tripwire looks after the rest
_TRIAL_SECONDS: Final = 5.0
# Sockets of services (docker, D-Bus, the resolver) live in /run, those of X11 and ssh-agent in /tmp.
_PRIVATE: Final = ("/tmp", "/var/tmp", "/run")  # replaced by empty ones inside
_ADDRESS_BYTES: Final = 28  # of the longest address looked at
_NAMES_PORT: Final = 53
_RESOLVER: Final = "/run/systemd/resolve"
_ISOLATION: Final = (
    *("--unshare-pid", "--unshare-ipc", "--die-with-parent"),
    *("--cap-drop", "ALL"),  # for root, who could otherwise mount everything writable again
)
# With these root could remove a mount, or read what lies below it from the disk, the memory or another process.
_UNCOVERING: Final = (
    *("CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_RAWIO", "CAP_SYS_MODULE", "CAP_SYS_BOOT", "CAP_MKNOD"),
    "CAP_DAC_READ_SEARCH",
)
_SYSTEM: Final = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
# An ordinary file without content, for a mount that has to be readable: devices are not.
_EMPTY: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "py.typed")
# Settings of the kernel are files of root, who needs no capability to write them. `bwrap` covers only some of them.
_PROC_READ_ONLY: Final = ("--remount-ro", "/proc")


def find_bwrap(roots: Sequence[str]) -> str | None:
    """Return the `bwrap` of this system; never one that lies in a folder which commands can write."""
    found = shutil.which("bwrap")
    if found is None:
        return None
    path = os.path.realpath(found)
    return None if any(is_below(path, root) for root in roots) else path


def why_not(program: str | None) -> str | None:
    """Return why this backend cannot be used here, found by a trial run; None if it can."""
    if program is None:
        return "bwrap is not installed (package bubblewrap), or lies in a folder that commands can write"
    if machine() is None:
        return f"the system calls of {os.uname().machine} are not known here"
    trial = [program, *_ISOLATION, "--unshare-net", *_SYSTEM, *_PROC_READ_ONLY, "true"]
    try:
        done = subprocess.run(
            trial, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL_SECONDS, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} cannot be run: {error}"
    if done.returncode == 0:
        return None
    words = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
    return f"{program} does not work here: {words[0]}"


class Bubblewrap:
    """Command lines of `bwrap` for one policy."""

    def __init__(self, policy: SandboxPolicy, program: str) -> None:
        calls = machine()
        assert calls is not None, why_not(program)  # the caller has asked `why_not`
        self._policy = policy
        self._program = program
        self._calls: Machine = calls
        # In a namespace of its own root can mount what belongs to root outside.
        self._nests = (policy.nests or policy.is_wide) and os.geteuid() != 0
        make_filter = user_filter if policy.is_wide else namespace_filter
        self._filter = make_filter(calls, nests=self._nests)
        self._addresses = address_filter(calls)
        # A set-uid `bwrap` has no rights with `no_new_privs`, which the program needs.
        self._can_report = not policy.network and not os.stat(program).st_mode & stat.S_ISUID

    def starter(self) -> BubblewrapStarter:
        """Return the starter of one command."""
        return BubblewrapStarter(self._filter, Listener(self._report, self._judge, outlives=True))

    def _report(self) -> int:
        if not self._can_report:
            return -1
        set_no_new_privs(self._calls)
        return install(self._calls, self._addresses)

    def _judge(self, asked: ReportedCall) -> CallAnswer:
        place, size = asked.arguments[1:3] if asked.number == self._calls.connect else asked.arguments[4:6]
        return CallAnswer(_outside_address(asked.pid, place, size), 0)

    def command(self, argv: Sequence[str], cwd: str, filter_fd: int, protected: Sequence[str]) -> list[str]:
        """Return `argv` behind `bwrap`, with these protected paths, which exist, read-only."""
        if self._policy.is_wide:
            from dragoman.process.sandbox.apart import mounts_of  # it imports this module

            apart = mounts_of(self._policy.roots[0]) if self._policy.roots else ()
            mounts = [*_wide(), *apart, *_keep(self._policy.read_only), *_close(self._policy.hidden)]
            return [self._program, *mounts, "--seccomp", str(filter_fd), "--chdir", cwd, "--", *argv]
        network = () if self._policy.network else ("--unshare-net",)
        shared = [git.shared for git in self._policy.linked]  # has mounts of its own
        guarded = [path for path in protected if not any(is_below(path, folder) for folder in shared)]
        around = {place for place in self._policy.hidden if any(is_below(one, place) for one in self._policy.written)}
        mounts = [
            *self._system(),
            *_hide(around),
            *self._written(),
            *(word for git in self._policy.linked for word in git_mounts(git)),
            *_protect(guarded[:MOST_BINDS]),
            *_keep(self._policy.read_only),
            *self._hide_inside(place for place in self._policy.hidden if place not in around),
        ]
        ending = ["--seccomp", str(filter_fd), "--chdir", cwd, "--"]
        return [self._program, *_ISOLATION, *network, *mounts, *ending, *argv]

    def unbound(self) -> int:
        """Return how many protected paths are too many to be bound, and guarded by the tripwire alone."""
        return max(0, len(protected_paths(self._policy)) - MOST_BINDS)

    def _system(self) -> Iterator[str]:
        yield from _SYSTEM
        if not self._nests:  # the user's number inside is set by a file there
            yield from _PROC_READ_ONLY
        for place in _PRIVATE:
            if os.path.isdir(place) and not os.path.islink(place):
                yield from ("--tmpfs", place)
        if self._policy.network and os.path.isdir(_RESOLVER):
            yield from ("--ro-bind", _RESOLVER, _RESOLVER)

    def _hide_inside(self, places: Iterable[str]) -> Iterator[str]:
        """Hide places, those in writable folders read-only: what is written into an empty folder would be lost."""
        for place in places:
            is_inside = any(is_below(place, folder) for folder in self._policy.written)
            if not is_inside:
                yield from _hide([place])
            else:
                yield from _close([place])

    def _written(self) -> Iterator[str]:
        # Outer folders first: a mount hides what was mounted below it before.
        shared = {folder for git in self._policy.linked for folder in git.written}
        for folder in sorted(set(self._policy.written) - shared, key=len):
            yield from ("--bind", folder, folder)


def git_mounts(git: LinkedGit) -> Iterator[str]:
    """Yield the mounts for the git folder that a linked worktree shares with its project.

    The folder is an empty one with everything in it mounted again, so nothing that is made in it lasts, such as a
    `commondir` or another configuration. A file that is mounted cannot be replaced: `git pack-refs` fails before it
    removes a branch. So does `git gc`, which would not see what the user packs meanwhile.
    """
    yield from ("--tmpfs", git.shared)
    for name in sorted(os.listdir(git.shared)):
        path = os.path.join(git.shared, name)
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path) or os.path.isfile(path):
            yield from ("--bind" if path in git.written else "--ro-bind", path, path)
    for name in ("packed-refs", "gc.pid.lock"):
        if not os.path.lexists(os.path.join(git.shared, name)):
            yield from ("--ro-bind", _EMPTY, os.path.join(git.shared, name))
    yield from ("--bind", git.own, git.own)
    for name in GIT_OWN_KEPT:
        path = os.path.join(git.own, name)
        if os.path.isfile(path) and not os.path.islink(path):
            yield from ("--ro-bind", path, path)


def _protect(paths: Sequence[str]) -> Iterator[str]:
    held: set[str] = set()
    for path in paths:
        if os.path.islink(path):
            continue  # the bind would land on what it points to; the tripwire looks after the link
        # Without a mount on it `.git` could be renamed, and another one with writable hooks put in its place.
        for folder in _git_folders(path):
            if folder not in held and not os.path.islink(folder):
                held.add(folder)
                yield from ("--bind", folder, folder)
        yield from ("--ro-bind", path, path)


def _wide() -> Iterator[str]:
    """Yield the mounts and rights of a command that may do everything but reach what is mounted over."""
    yield from ("--die-with-parent", "--dev-bind", "/", "/")
    if os.geteuid() == 0:
        yield from ("--dev", "/dev", "--ro-bind", "/sys", "/sys", "--ro-bind", "/proc", "/proc")
        yield from (word for name in _UNCOVERING for word in ("--cap-drop", name))


def _close(places: Iterable[str]) -> Iterator[str]:
    for place in places:
        if os.path.isdir(place):
            yield from ("--tmpfs", place, "--remount-ro", place)
        elif os.path.lexists(place):
            yield from ("--ro-bind", "/dev/null", place)


def _keep(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if os.path.lexists(path):
            yield from ("--ro-bind", path, path)


def _hide(places: Iterable[str]) -> Iterator[str]:
    for place in places:
        # What lies in a private folder is gone already, and has nothing to be mounted on.
        if any(is_below(place, private) for private in _PRIVATE):
            continue
        if os.path.isdir(place):
            yield from ("--tmpfs", place)
        elif os.path.lexists(place):
            yield from ("--ro-bind", "/dev/null", place)


def _git_folders(path: str) -> list[str]:
    """Return the folders on the way from `.git` to a path inside it, outer ones first."""
    parts = path.split("/")[:-1]
    if ".git" not in parts:
        return []
    first = parts.index(".git") + 1
    return ["/".join(parts[:end]) for end in range(first, len(parts) + 1)]


class BubblewrapStarter:
    """One start of `bwrap` with the seccomp program at a descriptor; it can ask what is inside to end."""

    def __init__(self, codes: bytes, listener: Listener) -> None:
        self._listener = listener
        self.filter_fd = os.memfd_create("dragoman-seccomp", os.MFD_CLOEXEC)
        os.write(self.filter_fd, codes)
        os.lseek(self.filter_fd, 0, os.SEEK_SET)

    @property
    def attempts(self) -> tuple[SocketAttempt, ...]:
        return self._listener.attempts

    def start(self, popen: Callable[[Collection[int]], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        try:
            return self._listener.start(popen, (self.filter_fd,))
        finally:
            self.close()

    def terminate(self, group: int) -> None:
        """Send SIGTERM to the group without the outer `bwrap`, which leads it. The inner one ignores it."""
        terminate_inside(group)

    def close(self) -> None:
        if self.filter_fd >= 0:
            os.close(self.filter_fd)
            self.filter_fd = -1

    def __del__(self) -> None:
        if hasattr(self, "filter_fd"):
            self.close()


def terminate_inside(group: int) -> None:
    """Send SIGTERM to every member of a group except its leader."""
    for pid in proctable.pids():
        with suppress(OSError):
            if pid != group and proctable.status(pid).group == group:
                _terminate(pid, group)


def _terminate(pid: int, group: int) -> None:
    """Send SIGTERM to a member of the group; a number that was reused meanwhile is not signalled."""
    fd = os.pidfd_open(pid)
    try:
        if proctable.status(pid).group == group:
            signal.pidfd_send_signal(fd, signal.SIGTERM)
    finally:
        os.close(fd)


def _outside_address(pid: int, place: int, size: int) -> str | None:
    """Return the address in a process's memory, if it is of the network and not of the command's own loopback."""
    try:
        fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            raw = os.pread(fd, min(size, _ADDRESS_BYTES), place)
        finally:
            os.close(fd)
        family, port = struct.unpack_from("=H", raw)[0], struct.unpack_from("!H", raw, 2)[0]
        if family == socket.AF_INET:
            host: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.IPv4Address(raw[4:8])
        elif family == socket.AF_INET6:
            host = ipaddress.IPv6Address(raw[8:24])
            host = host.ipv4_mapped or host
        else:
            return None
    except (OSError, OverflowError, struct.error, ValueError):
        return None  # the call will fail as well, or its process was killed
    # The resolver of many systems listens on the loopback outside: a question for a name is one for the network.
    if (host.is_loopback or host.is_unspecified) and port != _NAMES_PORT:
        return None
    return f"{host} port {port}"
