"""The start of one program: pipes, environment, its own session, and errors that say what to do.

Owns the step from an argument list to a pid and three pipe ends. The guard knows the program before it exists, so it
never outlives this one; the code that ends it calls `guard.forget`. Does not use the event loop.

`subprocess.Popen` without `preexec_fn` starts programs by `vfork`: 0.15 ms, whatever the size of this process. Setting
PDEATHSIG would need Python code in a forked copy of a program with threads (1.6 ms, 11 ms at 300 MiB, may deadlock) or
one more program in front (1 ms), and kills the first process only. `guard.py` does that work for the whole group.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from dragoman.errors import ConfigError, DragomanError
from dragoman.process.guard import guard, kill_now

if TYPE_CHECKING:
    from dragoman.process.sweep import Spare

MARKER_VARIABLE: Final = "DRAGOMAN_CHILD"

StrPath = str | os.PathLike[str]


class Starter(Protocol):
    """How a program is started and asked to end, if not directly: a sandbox has its own way."""

    def start(self, popen: Callable[[Collection[int]], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Call `popen` once, on any thread, with the descriptors that the program gets besides its standard ones."""

    def terminate(self, group: int) -> None:
        """Ask the program to end; `group` is its process group. Raises: OSError."""


class Launched:
    """A running program that the guard knows: its pid and our ends of its pipes."""

    __slots__ = ("marker", "pid", "spare", "starter", "stderr", "stdin", "stdout")

    def __init__(
        self,
        pid: int,
        marker: str,
        stdin: int,
        stdout: int,
        stderr: int,
        starter: Starter | None = None,
        spare: Spare = (),
    ) -> None:
        self.pid = pid
        self.starter = starter
        self.spare = spare
        self.marker = marker
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr

    def close(self) -> None:
        """Close our ends of the pipes."""
        _close([self.stdin, self.stdout, self.stderr])

    def end(self) -> None:
        """Kill the program with everything it started, at once, and close the pipes: for one that is not used."""
        kill_now(self.marker, self.pid, self.spare)
        self.close()


def launch(
    argv: Sequence[StrPath],
    *,
    cwd: StrPath | None = None,
    env: Mapping[str, str | None] | None = None,
    inherit_env: bool = True,
    merge_stderr: bool = False,
    spare: Spare = (),
    starter: Starter | None = None,
) -> Launched:
    """Start `argv` in a session of its own, with a pipe at each of its three standard descriptors.

    `merge_stderr` sends stderr where stdout goes, the only way to keep the order of the two. `spare` are the daemons of
    the program that may outlive it. `starter` starts the program instead of this function.

    Raises:
        ConfigError: the command or the directory cannot be used; the message says which and what to do.
        DragomanError: the system could not start one more program (descriptors, memory, processes).
    """
    if sys.platform == "win32":
        raise DragomanError("dragoman cannot start programs on Windows; use WSL, where Linux rules apply")
    if not argv:
        raise ConfigError("the command is empty; give the program and its arguments")
    command = [os.fspath(part) for part in argv]
    marker = os.urandom(16).hex()
    environment = _environment(env, marker, inherit_env)
    gate = _Gate()
    fds: list[int] = []
    try:
        guard.expect(marker, spare)
        for _ in range(3):
            fds.extend(os.pipe())
        child_in, our_in, our_out, child_out, our_err, child_err = fds

        def popen(kept: Collection[int] = ()) -> subprocess.Popen[bytes]:
            with gate:
                return subprocess.Popen(
                    command,
                    stdin=child_in,
                    stdout=child_out,
                    stderr=child_out if merge_stderr else child_err,
                    cwd=cwd,
                    env=environment,
                    close_fds=True,
                    pass_fds=kept,
                    start_new_session=True,
                )

        process = starter.start(popen) if starter else popen()
        guard.watch(marker, process.pid)
        # We reap this pid ourselves. An unset returncode would make Popen warn when it is collected, and would add
        # the pid to a module-wide list that is polled at the next Popen of any code, which could take the exit status
        # from us.
        process.returncode = 0
    except (OSError, ValueError) as error:
        guard.forget(marker)
        _close(fds)
        raise explain(error, command[0], cwd) from error
    except BaseException:  # a signal may raise at any step, also when the program runs already
        gate.close()
        kill_now(marker)
        _close(fds)
        raise
    _close([child_in, child_out, child_err])
    return Launched(process.pid, marker, our_in, our_out, our_err, starter, spare)


class _Gate:
    """A gate that is entered to start a program, on any thread, and closed when the start was given up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._is_closed:
            self._lock.release()
            raise DragomanError("the start of this program was given up")

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def close(self) -> None:
        """Wait for a start under way, and let none begin."""
        with self._lock:
            self._is_closed = True


def _environment(env: Mapping[str, str | None] | None, marker: str, inherit_env: bool) -> dict[str, str]:
    environment = dict(os.environ) if inherit_env else {}
    for name, value in (env or {}).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    # An agent may itself start agents with this library: the outer program finds the inner ones too.
    outer = os.environ.get(MARKER_VARIABLE)
    environment[MARKER_VARIABLE] = f"{outer}:{marker}" if outer else marker
    return environment


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def explain(error: OSError | ValueError, command: str, cwd: StrPath | None) -> DragomanError:
    if not isinstance(error, OSError):
        return ConfigError(f"cannot start {command!r}: {error}; remove the NUL byte or the '=' in a variable's name")
    if cwd is not None and error.filename is not None and os.fspath(error.filename) == os.fspath(cwd):
        place = os.fspath(cwd)
        return ConfigError(f"cannot start {command!r} in {place!r}: {error.strerror}; give an existing directory")
    why = _explain_command(error, command, cwd)
    if why:
        return ConfigError(f"cannot start {command!r}: {why}")
    return DragomanError(
        f"cannot start {command!r}: {error.strerror} (errno {error.errno}); try again when there is room"
    )


def _explain_command(error: OSError, command: str, cwd: StrPath | None) -> str:
    """Return what is wrong with the command itself; empty if it is not the command's fault."""
    is_path = os.sep in command
    match error.errno:
        case errno.ENOENT if is_path and os.path.exists(os.path.join(cwd or "", command)):
            return "the interpreter named in its first line does not exist; install it or call another one directly"
        case errno.ENOENT:
            return "no such file; correct the path" if is_path else "not found; install it or give its full path"
        case errno.EACCES:
            return "not executable; set its executable bit or put its interpreter in front"
        case errno.ENOEXEC:
            return "not a program this system can run; a script needs a first line like #!/bin/sh"
        case errno.ENOTDIR | errno.ELOOP | errno.ENAMETOOLONG:
            return f"{error.strerror}; correct the path"
        case errno.E2BIG:
            return "its arguments and environment are longer than the system allows; shorten them"
    return ""
