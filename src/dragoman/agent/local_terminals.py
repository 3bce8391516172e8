"""A command as a child of this process, behaving like a client's terminal.

Owns reading its output into a bounded tail. That nothing of it survives is the promise of `dragoman.process`.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from dragoman.agent.client import ClientError
from dragoman.agent.terminals import TerminalHandle
from dragoman.errors import INTERNAL_ERROR, DragomanError
from dragoman.process import Child, Patience
from dragoman.process.ring import Ring
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What a command may leave in memory when the author names no limit; a model reads far less.
OUTPUT_BYTES = 1024 * 1024
_READ_BYTES = 1 << 16
# Read at once after the command ended: what a pipe can hold. A grandchild may go on writing for ever.
_LAST_BYTES = 1 << 20
# Its stdin is closed from the start, so the ladder begins with TERM.
_PATIENCE = Patience(stdin_seconds=0.0, term_seconds=1.0)


class LocalTerminal(TerminalHandle):
    """A child and the tail of what it wrote."""

    is_live = False

    def __init__(self, limit_bytes: int) -> None:
        self.id = f"local-{os.urandom(6).hex()}"
        self.is_released = False
        self._limit_bytes = limit_bytes
        self._ring = Ring(max(limit_bytes, 1))
        self._stdout = -1
        self._child: Child

    @classmethod
    def start(
        cls, argv: Sequence[str], cwd: str, env: Mapping[str, str] | None, output_byte_limit: int | None
    ) -> LocalTerminal:
        """Raises: ClientError when the command cannot be started."""
        terminal = cls(OUTPUT_BYTES if output_byte_limit is None else output_byte_limit)
        try:
            child = Child.spawn(argv, cwd=cwd, env=dict(env or {}), patience=_PATIENCE, merge_stderr=True)
        except DragomanError as error:
            raise ClientError(INTERNAL_ERROR, str(error)) from error
        terminal._attach(child)
        return terminal

    @property
    def text(self) -> str:
        """The kept output as text."""
        return _tail(self._ring.kept(), self._limit_bytes, is_final=not self._child.is_running)

    async def output(self) -> v1.TerminalOutputResponse:
        self._require_live()
        self._read_rest()
        truncated = self._ring.total_bytes > self._limit_bytes
        if self._child.is_running:
            return v1.TerminalOutputResponse(self.text, truncated)
        code, name = self._status()
        return v1.TerminalOutputResponse(self.text, truncated, v1.TerminalExitStatus(code, name))

    async def wait(self) -> v1.WaitForTerminalExitResponse:
        self._require_live()
        await self._child.wait()
        return v1.WaitForTerminalExitResponse(*self._status())

    async def kill(self) -> None:
        self._require_live()
        await self._child.close()

    async def release(self) -> None:
        if not self.is_released:
            self.is_released = True
            # Started here, so that it goes on even if the wait below is cancelled.
            self._child.begin_close()
            await self._child.close()
            self._close_stdout()

    def _shown(self) -> v1.ToolCallContent:
        return v1.Content(v1.TextContent(self.text))

    def _attach(self, child: Child) -> None:
        self._child = child
        stdin, self._stdout = child.take_pipes()
        os.close(stdin)
        os.set_blocking(self._stdout, False)
        asyncio.get_running_loop().add_reader(self._stdout, self._read)
        child.when_exited(self._read_rest)

    def _read(self) -> int:
        if self._stdout < 0:
            return 0
        try:
            data = os.read(self._stdout, _READ_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self._close_stdout()
        self._ring.add(data)
        return len(data)

    def _read_rest(self) -> None:
        left = _LAST_BYTES
        while left > 0 and (size := self._read()):
            left -= size

    def _close_stdout(self) -> None:
        if self._stdout >= 0:
            with suppress(RuntimeError):  # the loop may be closed
                asyncio.get_running_loop().remove_reader(self._stdout)
            os.close(self._stdout)
            self._stdout = -1

    def _status(self) -> tuple[int | None, str | None]:
        code = self._child.returncode
        if code is None or code >= 0:
            return code, None
        try:
            return None, signal.Signals(-code).name
        except ValueError:
            return None, f"SIG{-code}"


def _tail(data: bytes, limit_bytes: int, *, is_final: bool) -> str:
    """The last characters of `data`, at most `limit_bytes` when encoded, never half a character (rule 287)."""
    if limit_bytes == 0:
        return ""
    # A character whose second half has not arrived yet is left out, not replaced.
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(_from_boundary(data), is_final)
    encoded = text.encode()
    if len(encoded) > limit_bytes:  # every invalid byte became three
        text = _from_boundary(encoded[-limit_bytes:]).decode()
    return text


def _from_boundary(data: bytes) -> bytes:
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
