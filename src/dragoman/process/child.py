"""A program that we started, from its start until every process of its tree is gone.

Owns reading stderr and the steps that end the tree. Does not know what goes through stdin and stdout: the caller takes
those pipes.

Theory of operation
-------------------
A program is started in its own session, so its process group has its pid as
number, and its environment carries a random marker that everything it starts inherits. Group and marker are how the
tree is found again: the group for nearly everything, the marker for what left the group (`setsid`, a double fork, a
daemon).

*States.* running -> exited (`_exit` is done, `returncode` is known) -> gone (`_gone` is done: the tree is ended and
every descriptor is closed). `wait` waits for exited, `wait_gone` and `close` for gone.

*The ladder* (`_end_tree`, a task that `begin_close` starts once):
  1. stdin is closed; well-behaved agents end within `Patience.stdin_seconds`;
  2. SIGTERM to the group, then up to `Patience.term_seconds` until the group is empty;
  3. SIGKILL to the group;
  4. a sweep (`sweep.py`, on its thread) ends what carries the marker and is not in the group.
It also runs after the child has ended by itself, because launchers such as `npx` leave the real agent behind. It is
never cancelled by a caller: callers wait through `shield`. If the event loop is torn down, the task is cancelled and
`_kill_now` does steps 3 and 4 synchronously.

*Who calls whom.* `ExitWatch` (a pidfd on the loop) calls `_on_exit` exactly once: the rest of stderr is read, the
ladder starts, then `when_exited` callbacks run. The order matters: a callback sees the complete stderr. `guard.py`
holds every child from before its start until its sweep is done, and kills it if this program dies first.

*What can race.*
  - The child exits while the ladder waits: each step first looks whether the group is still alive. A group keeps its
    number as long as one member lives, so the number is not signalled after the last member is gone.
  - The pid is reused after the exit: the child is collected by `ExitWatch` only, and signals go to the group after a
    check, never to the bare pid; the sweep checks the marker again through a pidfd before it signals.
  - `close` from several tasks, or during the ladder: there is one ladder and one future for all.
  - The object is garbage-collected without `close`: `__del__` kills the tree at once and warns.
  - This program is killed: see `guard.py`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, repeat
from typing import Final, NamedTuple

from dragoman.process.guard import guard, kill_now
from dragoman.process.launch import Launched, Starter, StrPath, launch
from dragoman.process.proctable import group_is_alive
from dragoman.process.ring import TAIL_BYTES, Ring
from dragoman.process.sweep import Spare, end_commands, sweeper

_log = logging.getLogger("dragoman.process")

_READ_BYTES: Final = 1 << 16  # what a pipe holds
_LAST_WORDS_BYTES: Final = (
    1 << 20
)  # read from stderr at exit at most: the largest pipe, because a grandchild may go on writing
_KILL_SECONDS: Final = 10.0  # SIGKILL is immediate unless the machine is overloaded or the process hangs in the kernel
_GROUP_POLL_SECONDS: Final = (0.005, 0.01, 0.02, 0.05)  # then the last one again; there is no event for a group's end


class ExitWatch:
    """A watch that calls `ended` once on the loop, with the return code, or None if other code collected the status.

    Waits for a single pid: by a pidfd on the event loop, or in a thread where the system has none. Never waits for "any
    child", installs no signal handler and leaves asyncio's child watchers alone, so a program's own children stay its
    own. Not `asyncio`'s `Process.wait`: it does not return while a grandchild holds a pipe.
    """

    def __init__(self, pid: int, loop: asyncio.AbstractEventLoop, ended: Callable[[int | None], None]) -> None:
        self.cpu_seconds: float | None = None
        """The processor time of the child and of the children that it waited for; known when it has ended."""
        self._pid = pid
        self._loop = loop
        self._ended = ended
        self._fd = _open_pidfd(pid)
        if self._fd >= 0:
            loop.add_reader(self._fd, self._collect)
        else:
            threading.Thread(target=self._wait, name=f"dragoman-wait-{pid}", daemon=True).start()

    def stop(self) -> None:
        """Watch no more; `ended` is not called."""
        self._ended = _ignore
        if self._fd >= 0:
            with suppress(RuntimeError):  # the loop may be closed
                self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _collect(self) -> None:
        try:
            pid, status, used = os.wait4(self._pid, os.WNOHANG)
            if pid == 0:
                return
            self.cpu_seconds = used.ru_utime + used.ru_stime
        except ChildProcessError:
            # The program ignores SIGCHLD or waits for every child it has: then the status is lost, the end is not.
            self._finish(None)
        else:
            self._finish(os.waitstatus_to_exitcode(status))

    def _finish(self, returncode: int | None) -> None:
        ended = self._ended
        self.stop()
        ended(returncode)

    def _wait(self) -> None:
        # Collected on this thread: macOS before 3.13 has no way to wait and leave the status for the loop.
        returncode: int | None = None
        with suppress(ChildProcessError):
            _, status, used = os.wait4(self._pid, 0)
            self.cpu_seconds = used.ru_utime + used.ru_stime
            returncode = os.waitstatus_to_exitcode(status)
        with suppress(RuntimeError):  # the loop is closed, so no task waits any more
            self._loop.call_soon_threadsafe(self._finish, returncode)


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, an old or restricted kernel, or no descriptor left
        return -1


def _ignore(returncode: int | None) -> None:
    pass


class Patience(NamedTuple):
    """How long the ladder waits on its steps.

    Of twenty agents measured on a slow machine most end within 1.4 s of stdin EOF; the others need the signal, so more
    patience with EOF only makes their users wait.
    """

    stdin_seconds: float = 2.0
    term_seconds: float = 3.0


PATIENCE: Final = Patience()


class Child:
    """A running program in its own session. Call `close`; otherwise it is killed when this program ends."""

    def __init__(
        self,
        launched: Launched,
        *,
        patience: Patience = PATIENCE,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> None:
        self.pid = launched.pid
        self.marker = launched.marker
        self.returncode: int | None = None
        self.was_signalled = False
        """The ladder had to use a signal while the child was still running."""
        self._stdin, self._stdout, self._stderr = launched.stdin, launched.stdout, launched.stderr
        self._ring = Ring()
        self._on_stderr = on_stderr
        self._starter = launched.starter
        self._spare = launched.spare
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._ladder: asyncio.Task[None] | None = None
        self._exit_callbacks: list[Callable[[], None]] = []
        self._watch = ExitWatch(self.pid, self._loop, self._on_exit)
        os.set_blocking(self._stderr, False)
        self._loop.add_reader(self._stderr, self._read_stderr)

    @classmethod
    def spawn(
        cls,
        argv: Sequence[StrPath],
        *,
        cwd: StrPath | None = None,
        env: Mapping[str, str | None] | None = None,
        inherit_env: bool = True,
        merge_stderr: bool = False,
        spare: Spare = (),
        patience: Patience = PATIENCE,
        on_stderr: Callable[[bytes], None] | None = None,
        starter: Starter | None = None,
    ) -> Child:
        """Start a program; needs a running event loop.

        Args:
            env: Variables added to this program's environment; None as a value removes one.
            inherit_env: False makes `env` the whole environment.
            merge_stderr: Send stderr to stdout, the only way to keep the order of the two.
            spare: Escaped processes that the sweep leaves alone.
            patience: How long each step of the ladder waits.
            on_stderr: Called with what the program writes to stderr, as it comes.
            starter: Starts the program and asks it to end in its own way: a sandbox.

        Raises:
            ConfigError: The command or the directory cannot be used.
            DragomanError: The system could not start one more program.
        """
        asyncio.get_running_loop()  # fail before there is a process to lose
        launched = launch(
            argv,
            cwd=cwd,
            env=env,
            inherit_env=inherit_env,
            merge_stderr=merge_stderr,
            spare=spare,
            starter=starter,
        )
        try:
            return cls(launched, patience=patience, on_stderr=on_stderr)
        except BaseException:
            launched.end()
            raise

    @property
    def is_running(self) -> bool:
        return not self._exit.done()

    def take_pipes(self) -> tuple[int, int]:
        """Return our ends of its stdin and stdout; the caller closes them from now on, stdin before `close`."""
        pipes = self._stdin, self._stdout
        self._stdin = self._stdout = -1
        return pipes

    def stderr_tail(self, size_bytes: int = TAIL_BYTES) -> str:
        """Return the end of what it wrote to stderr so far, as text."""
        self._read_rest_of_stderr()  # what it wrote before a message is there when the message is
        return self._ring.tail(size_bytes)

    def stderr_kept(self) -> bytes:
        """Return everything of stderr that is still kept (the last MiB)."""
        return self._ring.kept()

    def when_exited(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the loop as soon as the child itself ended, whatever its descendants do."""
        if self._exit.done():
            self._loop.call_soon(callback)
        else:
            self._exit_callbacks.append(callback)

    async def wait(self) -> int | None:
        """Wait for its exit; the return code is negative for a signal, None if other code collected the status."""
        await asyncio.shield(self._exit)
        return self.returncode

    @property
    def cpu_seconds(self) -> float | None:
        """The processor time of the program and of the children that it waited for; None until it has ended."""
        return self._watch.cpu_seconds

    def begin_close(self) -> None:
        """Start the ladder if it is not under way; it goes on whether or not a task waits for it."""
        self._stdin = _closed(self._stdin)
        if self._ladder is not None or self._gone.done():
            return
        if self._loop.is_closed():
            self._kill_now()
        else:
            self._ladder = self._loop.create_task(self._end_tree(), name=f"dragoman-end-{self.pid}")

    async def close(self) -> None:
        """End the child and everything it started; return when all of these processes are gone."""
        self.begin_close()
        await self.wait_gone()

    async def wait_gone(self) -> None:
        """Return when the child has ended, and everything it started with it."""
        if not self._gone.done():
            await asyncio.shield(self._gone)

    def __del__(self) -> None:
        if hasattr(self, "_watch") and not self._gone.done():
            self._kill_now()  # first, because a warning may be an error
            warnings.warn(f"child {self.pid} was never closed", ResourceWarning, source=self, stacklevel=2)

    async def _end_tree(self) -> None:
        try:
            await self._ask_to_end()
            self._signal_group(signal.SIGKILL)
            await asyncio.wait({self._exit}, timeout=_KILL_SECONDS)
            if not self._exit.done():
                _log.warning("process %d cannot be killed; it hangs inside the kernel", self.pid)
            await self._sweep()
        except asyncio.CancelledError:
            # Only the loop can cancel this task, and it does so while it is torn down: there is no time to wait.
            self._kill_now()
        finally:
            self._release()

    async def _ask_to_end(self) -> None:
        await asyncio.wait({self._exit}, timeout=self._patience.stdin_seconds)
        if not self._group_is_alive():
            return
        self._signal_group(signal.SIGTERM)
        deadline = time.monotonic() + self._patience.term_seconds
        await asyncio.wait({self._exit}, timeout=self._patience.term_seconds)
        for seconds in chain(_GROUP_POLL_SECONDS, repeat(_GROUP_POLL_SECONDS[-1])):
            if not self._group_is_alive() or time.monotonic() > deadline:
                return
            await asyncio.sleep(seconds)

    def _group_is_alive(self) -> bool:
        return not self._exit.done() or group_is_alive(self.pid)

    def _signal_group(self, number: signal.Signals) -> None:
        """Signal the group if it has a living member; without one its number may belong to another group."""
        if not self._group_is_alive():
            return
        self.was_signalled = self.was_signalled or not self._exit.done()
        with suppress(ProcessLookupError, PermissionError):
            if self._starter is not None and number == signal.SIGTERM:
                self._starter.terminate(self.pid)
            else:
                os.killpg(self.pid, number)

    async def end_commands(self, since: float) -> None:
        """End what it started at or after a moment of `time.monotonic`, and leave itself and everything older alone."""
        await asyncio.to_thread(end_commands, self.marker, self.pid, self._spare, since)

    async def _sweep(self) -> None:
        swept: asyncio.Future[None] = self._loop.create_future()

        def done() -> None:
            guard.forget(self.marker)
            with suppress(RuntimeError):  # the loop is closed, so no task waits any more
                self._loop.call_soon_threadsafe(_resolve, swept)

        sweeper.submit(self.marker, self._spare, done)
        await swept

    def _on_exit(self, returncode: int | None) -> None:
        self.returncode = returncode
        self._read_rest_of_stderr()
        self.begin_close()
        self._announce_exit()

    def _announce_exit(self) -> None:
        _resolve(self._exit)
        callbacks, self._exit_callbacks = self._exit_callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:  # a failing callback must not stop the ladder
                _log.exception("a callback for the end of process %d failed", self.pid)

    def _kill_now(self) -> None:
        """Take steps 3 and 4 of the ladder synchronously: for when there is no time or no event loop."""
        self._watch.stop()
        returncode = kill_now(self.marker, self.pid, self._spare)
        if not self._exit.done():
            self.returncode = returncode
            self.was_signalled = True
        self._release()

    def _release(self) -> None:
        if self._gone.done():
            return
        self._watch.stop()
        self._read_rest_of_stderr()
        self._close_stderr()
        self._stdin, self._stdout = _closed(self._stdin), _closed(self._stdout)
        _resolve(self._gone)
        if not self._exit.done():
            self._announce_exit()

    def _read_stderr(self) -> int:
        """Read once; gives the number of bytes, 0 when there is nothing more now."""
        try:
            data = os.read(self._stderr, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            data = b""
        if not data:
            self._close_stderr()
            return 0
        self._ring.add(data)
        if self._on_stderr is not None:
            try:
                self._on_stderr(data)
            except Exception:  # an observer must not be able to stop the drain, which would block the child
                _log.exception("the observer of stderr failed")
        return len(data)

    def _read_rest_of_stderr(self) -> None:
        left = _LAST_WORDS_BYTES
        while self._stderr >= 0 and left > 0 and (size := self._read_stderr()):
            left -= size

    def _close_stderr(self) -> None:
        if self._stderr >= 0:
            with suppress(RuntimeError):  # the loop may be closed
                self._loop.remove_reader(self._stderr)
            self._stderr = _closed(self._stderr)


def _closed(fd: int) -> int:
    if fd >= 0:
        os.close(fd)
    return -1


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        with suppress(RuntimeError):  # waiters on a closed loop cannot be woken
            future.set_result(None)
