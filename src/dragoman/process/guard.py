"""The guard that kills this program's children when it ends without closing them, even by `kill -9`.

Owns the list of living children, the exit hook and the guard shell. Does not use event loops.

Theory of operation
-------------------
*Two ways to die.* If Python ends normally, the `atexit` hook (`kill_all`) kills
every group still on the list and sweeps for their markers. If the program is killed, no Python code runs any more; for
that there is the guard shell: one small `/bin/sh` in a session of its own that reads a pipe whose only writer is this
program. Each child has a line: `start marker` before it exists (`expect`), `watch marker group` when its group is known
(`watch`), `gone marker` at its end (`forget`), so the shell always has the current list. When this program dies, the
kernel closes the pipe, the shell reads end of file, kills every group on its list, then every process that carries one
of the markers. That reaches grandchildren, which PDEATHSIG does not (docs/decisions/0005), and works wherever `/bin/sh`
does.

*The start.* A child can kill this program before its pid is known here, so `launch` calls `expect` first: the line is
in the pipe before the child exists, and a line stays in a pipe whose writer died. The process that becomes the child
holds a copy of the pipe until just before its `exec`, so the shell does not read the end before that; it then looks for
the marker for half a second, because the marker can be seen only after the `exec`. A look during which some process was
inside one does not count, up to five seconds: on a loaded machine an `exec` takes as long as the others let it.

*Life of the shell.* It is started with the first child and dismissed with the last, so that a program without children
has no extra process and no extra descriptor. It ignores the signals that a terminal or a supervisor sends to
everything.

*What can race.* Methods are called from any thread, and also from the garbage collector (`Child.__del__`) in the middle
of another method, so the lock is reentrant. If the shell was killed, the next write fails with EPIPE, and a new shell
gets the whole list. The pipe does not block: a shell that does not read costs a warning, never a hang. A fork of this
program drops its copy of the list and of the pipe (`_disown`), because the children belong to the original, and an open
copy of the pipe would hide the original's death. A child that ends between `watch` and the shell's kill is harmless:
its group is empty, or `forget` has removed it. A signal can raise an exception at any step: a child leaves the list
only after its sweep is done.

`dragoman exec` loads this before it starts its agent, so what only an end needs is imported there.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.process.sweep import Spare

# Groups are killed with builtins only, so that nothing has to be found or started in the last moment. Daemons need
# `grep` and `/proc`, and a second look, because one that was just forking is missed by the first; a child that was just
# being started needs more of them. Signals a terminal or a supervisor sends to everything must not remove the guard
# before it has done its work.
_SCRIPT: Final = """
trap '' HUP INT QUIT TERM
members=
while read -r verb marker group; do
    kept=
    for member in $members; do case $member in *:$marker:*) ;; *) kept="$kept $member" ;; esac; done
    [ "$verb" = gone ] || kept="$kept $verb:$marker:$group"
    members=$kept
done
markers=
looks=2
for member in $members; do
    marker=${member#*:}
    marker=${marker%:*}
    case $member in
        start:*) looks=10 markers="$markers -e $marker" ;;
        watch:*) kill -KILL "-${member##*:}"; markers="$markers -e $marker" ;;
        group:*) kill -KILL "-${member##*:}" ;;
    esac
done
[ -n "$markers" ] || exit 0
in_exec='\\) [^ZX] ([13-9]|[0-9]{2,}) ([^ ]+ ){46}0 [^ ]+$'
left=100
while [ $looks -gt 0 ] && [ $left -gt 0 ]; do
    found= unclear=
    for place in $(grep -l -a -F $markers /proc/[0-9]*/environ); do
        place=${place#/proc/}
        kill -KILL "${place%/environ}" && found=1
    done
    left=$((left - 1))
    for place in $(grep -l -E "$in_exec" /proc/[0-9]*/stat); do
        place=${place%/stat}
        [ -O "$place" ] && ! grep -q -a . "$place/environ" && [ -d "$place" ] && unclear=1
    done
    [ -n "$found$unclear" ] || looks=$((looks - 1))
    [ -n "$found" ] || sleep 0.05
done
"""
_DISMISS_SECONDS: Final = 2.0
_REAP_SECONDS: Final = 2.0  # a process inside a dead device or network file system may never end
_UNKNOWN: Final = 0  # the group of a child that is being started


class _Member(NamedTuple):
    """One child on the list."""

    group: int
    spare: Spare


class Guard:
    """The living children of this program, by marker. All methods may be called from any thread."""

    def __init__(self) -> None:
        # Reentrant: a child that was not closed may be collected, and so call in, during any of these methods.
        self._lock = threading.RLock()
        self._members: dict[str, _Member] = {}
        self._shell: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._is_hooked = False
        self._has_warned = False

    def expect(self, marker: str, spare: Spare) -> None:
        """Let no process that carries `marker` outlive this program from now on; call it before there is one."""
        self._add(marker, _Member(_UNKNOWN, spare))

    def watch(self, marker: str, group: int) -> None:
        """Note that the expected child has started, and that `group` is its process group."""
        with self._lock:
            member = self._members.get(marker)
            if member is not None:
                self._add(marker, member._replace(group=group))

    def forget(self, marker: str) -> None:
        """Drop a child that is gone.

        The last one takes the shell with it, so that no process and no descriptor stays.
        """
        with self._lock:
            if self._members.pop(marker, None) is None:
                return
            self._send(f"gone {marker} 0\n")
            if self._members:
                return
            shell, pipe = self._shell, self._pipe
            self._shell, self._pipe = None, -1
        if shell is not None:
            _dismiss(shell, pipe)

    def kill_all(self) -> None:
        """Kill what is left, at once: this program is ending."""
        members = dict(self._members)
        if not members:
            return
        for member in members.values():
            _kill_group(member.group)
        for member in members.values():
            _reap(member.group)
        _sweep({marker: member.spare for marker, member in members.items()})
        for marker in members:
            self.forget(marker)

    def _add(self, marker: str, member: _Member) -> None:
        with self._lock:
            if not self._is_hooked:
                self._is_hooked = True
                atexit.register(self.kill_all)
                os.register_at_fork(after_in_child=self._disown)
            self._members[marker] = member
            if self._shell is None:
                self._start()
            self._send(self._line(marker))

    def _send(self, line: str, *, is_retry: bool = False) -> None:
        if self._shell is None:
            return
        try:
            os.write(self._pipe, line.encode())
        except BrokenPipeError:
            # The shell was killed. A new one needs the whole list, this line's child included.
            shell, pipe = self._shell, self._pipe
            self._shell, self._pipe = None, -1
            _dismiss(shell, pipe)
            if self._members and not is_retry:
                self._start()
                self._send("".join(map(self._line, self._members)), is_retry=True)
        except BlockingIOError:
            _warn("the guard shell does not read; children may outlive this program if it is killed")

    def _line(self, marker: str) -> str:
        """Return what the shell has to know.

        It could not judge which daemons are spared, so then it kills the group only.
        """
        member = self._members[marker]
        if member.group == _UNKNOWN:
            return f"start {marker} 0\n"
        return f"{'group' if member.spare else 'watch'} {marker} {member.group}\n"

    def _start(self) -> None:
        read_end = write_end = -1
        try:
            read_end, write_end = os.pipe()
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "dragoman-guard"],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"DRAGOMAN_GUARD": "1"},  # without any, a sweep could take it for a process inside exec
                close_fds=True,
                start_new_session=True,
            )
            os.set_blocking(write_end, False)
            self._pipe = write_end
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                _warn(f"no guard shell ({error}); children may outlive this program if it is killed")
            if write_end >= 0:
                os.close(write_end)
        finally:
            if read_end >= 0:
                os.close(read_end)

    def _disown(self) -> None:
        """Drop everything in a fork of this program.

        The children are the original's, and the fork's copy of the pipe would hide its death.
        """
        self._lock = threading.RLock()
        self._members = {}
        if self._shell is not None:
            self._shell.returncode = 0  # not ours to wait for
            os.close(self._pipe)
            self._shell, self._pipe = None, -1


def _dismiss(shell: subprocess.Popen[bytes], pipe: int) -> None:
    os.close(pipe)
    try:
        shell.wait(_DISMISS_SECONDS)
    except subprocess.TimeoutExpired:
        shell.kill()
        shell.wait()


def kill_now(marker: str, group: int = _UNKNOWN, spare: Spare = ()) -> int | None:
    """Kill a whole tree at once, without an event loop; returns the leader's return code if it is known."""
    _kill_group(group)
    returncode = _reap(group)
    _sweep({marker: spare})
    guard.forget(marker)
    return returncode


def _sweep(orders: Mapping[str, Spare]) -> None:
    try:
        from dragoman.process.sweep import sweep

        sweep(orders)
    except Exception as error:  # `spare` is the caller's code, and without memory nothing can be loaded
        _warn(f"the search for escaped processes failed: {error!r}")


def _kill_group(group: int) -> None:
    if group != _UNKNOWN:  # for which the system would take our own
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def _reap(pid: int) -> int | None:
    deadline = time.monotonic() + _REAP_SECONDS
    with suppress(ChildProcessError):  # collected before, by us or by another part of the program
        while pid != _UNKNOWN and time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.001)
    return None


def _warn(text: str) -> None:
    with suppress(OSError, ImportError):  # no descriptor left to load it with
        import logging

        logging.getLogger("dragoman.process").warning("%s", text)


guard: Final = Guard()
