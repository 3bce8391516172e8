"""A command in a terminal, from its start until nothing of it is left.

Owns reading its output, on a pseudo terminal or a pipe, into a bounded tail, and the promise that nothing it wrote
before its end is lost. `child.py` promises that no process of it survives. Does not know the protocol's types, and does
not check whether the command may run.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from dragoman.process.child import Child, Patience
from dragoman.process.command import find_program
from dragoman.process.launch import Starter
from dragoman.process.pty import behind_pty, hold_open, open_pty
from dragoman.process.ring import Ring
from dragoman.process.sweep import Spare

_log = logging.getLogger("dragoman.process")

DEFAULT_BYTES: Final = 1 << 20  # kept when the request names no limit; a model reads far less
CEILING_BYTES: Final = 4 << 20  # six times as long when every byte has to be escaped, it still fits into one message
COLUMNS: Final = 120
ROWS: Final = 40
_READ_BYTES: Final = 1 << 16
# Read at once after the command ended: what a pipe can hold. A grandchild may go on writing forever.
_LAST_BYTES: Final = 1 << 20
# A terminal writes `\r\n` for `\n`, and `\r\r\n` where a program wrote `\r\n` itself.
_MOST_RETURNS: Final = 2
# Its stdin is empty from the start, so the ladder begins with TERM.
_PATIENCE: Final = Patience(stdin_seconds=0.0, term_seconds=1.0)


class Terminal:
    """A running command and the tail of its output. `release` it; its process group never outlives the command."""

    def __init__(
        self, child: Child, tail: Tail, on_output: Callable[[bytes], None] | None, pty: tuple[int, str] | None = None
    ) -> None:
        self.pid: Final = child.pid
        self._child = child
        self._tail = tail
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        stdin, self._source = child.take_pipes()
        os.close(stdin)
        os.set_blocking(self._source, False)
        # With a pseudo terminal the pipe ends when the child has opened that: only then is it read, because before
        # that it looks like one that every program has closed.
        self._pty, self._pty_path = pty or (-1, "")
        self._held = -1
        self._is_reporting = False
        self._loop.add_reader(self._source, self._read)
        child.when_exited(self._on_exit)

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        pty: bool = True,
        columns: int = COLUMNS,
        rows: int = ROWS,
        limit_bytes: int | None = None,
        ceiling_bytes: int = CEILING_BYTES,
        on_output: Callable[[bytes], None] | None = None,
        spare: Spare = (),
        starter: Starter | None = None,
        patience: Patience | None = None,
    ) -> Terminal:
        """Start a command; needs a running event loop.

        Args:
            env: The whole environment of the command.
            pty: False runs it on a pipe instead of a pseudo terminal.
            limit_bytes: How much of the end of its output is kept, at most `ceiling_bytes`.
            on_output: Called with its raw output as it comes.
            spare: Processes it starts that may outlive it.
            starter: Starts the command and asks it to end in its own way: a sandbox.
            patience: How long it has to end by itself.

        Raises:
            ConfigError: The command or the directory cannot be used.
            DragomanError: The system could not start one more program.
        """
        limit_bytes = min(DEFAULT_BYTES if limit_bytes is None else limit_bytes, ceiling_bytes)
        # A program that cannot be found is started without the shell in front, for the system's own error.
        program = find_program(argv[0], env, cwd) if pty and argv and os.path.isdir(cwd) else None
        opened = _try_pty(columns, rows) if program is not None else None
        spawn = partial(
            Child.spawn,
            cwd=cwd,
            inherit_env=False,
            merge_stderr=True,
            spare=spare,
            patience=patience or _PATIENCE,
            starter=starter,
        )
        if program is None or opened is None:
            return cls(spawn(argv, env=env), Tail(limit_bytes, is_tty=False), on_output)
        try:
            command, variables = behind_pty(argv, program, opened[1], env)
            child = spawn(command, env=variables)
        except BaseException:
            os.close(opened[0])
            raise
        return cls(child, Tail(limit_bytes, is_tty=True), on_output, opened)

    @property
    def marker(self) -> str:
        """The marker in the environment of everything the command starts."""
        return self._child.marker

    @property
    def is_running(self) -> bool:
        return self._child.is_running

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and for a command that was ended by a signal."""
        code = self._child.returncode
        return code if code is not None and code >= 0 else None

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended the command."""
        code = self._child.returncode
        if code is None or code >= 0:
            return None
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"SIG{-code}"

    @property
    def text(self) -> str:
        """The kept output; lines end with `\\n`, colours and other control sequences are as they were written."""
        return self.read()[0]

    @property
    def truncated(self) -> bool:
        """Whether output before `text` was dropped."""
        return self.read()[1]

    def read(self) -> tuple[str, bool]:
        """Return `text` and `truncated` of one moment, including what was written up to now."""
        if not self._is_reporting:  # an observer that looks here must not start to read again
            self._read_rest()
        return self._tail.read(is_final=not self.is_running)

    async def wait(self) -> None:
        """Return when the command has ended; its output is complete then."""
        await self._child.wait()

    async def kill(self) -> None:
        """End the command with everything it started; the output stays."""
        await self._child.close()
        self._read_rest()

    def begin_release(self) -> None:
        """Start what `release` does; it goes on whether or not a task waits for it."""
        self._child.begin_close()

    async def release(self) -> None:
        """End the command with everything it started, and give its descriptors back.

        The output can be read as long as this object is kept: a client goes on showing the terminal.
        """
        try:
            await self._child.close()
        finally:
            self._read_rest()
            self._close()

    def _on_exit(self) -> None:
        self._read_rest()
        self._held = _closed(self._held)

    def _read_rest(self) -> None:
        left = _LAST_BYTES
        while left > 0 and (size := self._read()):
            left -= size

    def _read(self) -> int:
        """Read once; gives the number of bytes, 0 when there is nothing more now."""
        while self._source >= 0:
            try:
                data = os.read(self._source, _READ_BYTES)
            except (BlockingIOError, InterruptedError):
                return 0
            except OSError:  # EIO: no process has the other end of the pseudo terminal open
                data = b""
            if data:
                self._take(data)
                return len(data)
            if not self._go_on():
                return 0
        return 0

    def _take(self, data: bytes) -> None:
        self._tail.add(data)
        if self._on_output is None:
            return
        self._is_reporting = True
        try:
            self._on_output(data)
        except Exception:  # an observer must not be able to stop the reading, which would block the command
            _log.exception("the observer of a terminal's output failed")
        finally:
            self._is_reporting = False

    def _go_on(self) -> bool:
        """Take the next source, if there is any, after one has ended."""
        if self._pty >= 0:
            self._forget_source()
            self._source, self._pty = self._pty, -1
            self._loop.add_reader(self._source, self._read)
            return True
        if self._pty_path and self.is_running and self._held < 0:
            # Every process has closed the terminal, and one may open it again by /dev/tty. With one end held open
            # here it is an idle terminal instead of an ended one, which would keep the loop busy.
            self._held = hold_open(self._pty_path)
            if self._held >= 0:
                return True
        self._forget_source()
        return False

    def _forget_source(self) -> None:
        if self._source >= 0:
            with suppress(RuntimeError):  # the loop may be closed
                self._loop.remove_reader(self._source)
            self._source = _closed(self._source)

    def _close(self) -> None:
        self._forget_source()
        self._pty, self._held = _closed(self._pty), _closed(self._held)

    def __del__(self) -> None:
        if hasattr(self, "_held"):
            self._close()


def _try_pty(columns: int, rows: int) -> tuple[int, str] | None:
    try:
        return open_pty(columns, rows)
    except OSError as error:
        _log.warning("no pseudo terminal to be had (%s); a command runs on a pipe, without colours", error)
        return None


def _closed(fd: int) -> int:
    if fd >= 0:
        os.close(fd)
    return -1


class Tail:
    """The last `limit_bytes` of the output of a command, as text; with `is_tty` a line ends with `\\n` alone."""

    __slots__ = ("_held", "_is_tty", "_ring", "limit_bytes")

    def __init__(self, limit_bytes: int, *, is_tty: bool) -> None:
        self.limit_bytes = limit_bytes
        self._is_tty = is_tty
        self._ring = Ring(max(limit_bytes, 1))
        self._held = b""  # returns at the end: what comes next decides whether they belong to a line end

    def add(self, data: bytes) -> None:
        if self._is_tty:
            data = self._held + data
            end = len(data)
            while end > 0 and len(data) - end < _MOST_RETURNS and data[end - 1] == 0x0D:
                end -= 1
            data, self._held = data[:end], data[end:]
            for _ in range(_MOST_RETURNS):
                data = data.replace(b"\r\n", b"\n")
        self._ring.add(data)

    def read(self, *, is_final: bool) -> tuple[str, bool]:
        """Return the kept text, at most `limit_bytes` when encoded (rule 287), and whether any is missing before it.

        A character whose other half may still come is left out, unless this `is_final`.
        """
        is_cut = self._ring.total_bytes + len(self._held) > self.limit_bytes
        if self.limit_bytes == 0:
            return "", is_cut
        data = self._ring.kept() + self._held
        # Half a character can only be in front if something was cut off there.
        whole = _from_boundary(data) if is_cut else data
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(whole, is_final)
        encoded = text.encode()
        if len(encoded) <= self.limit_bytes:
            return text, is_cut
        # Every byte that is not text became a replacement character of three bytes.
        return _from_boundary(encoded[-self.limit_bytes :]).decode(), True


def _from_boundary(data: bytes) -> bytes:
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
