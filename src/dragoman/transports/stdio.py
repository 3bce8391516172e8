"""The transport of an agent: this program's own stdin and stdout, which lead to the editor that started it.

Owns making the stream private. The transport keeps its own copies of descriptors 0 and 1; descriptor 1 then points at
stderr and 0 at /dev/null, so that no `print`, no library and no child process can put noise into the stream (rule 6)
or eat a part of it. Does not know what an agent is.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Final

from dragoman.errors import ConfigError, DragomanError
from dragoman.transports._descriptors import duplicate, private_copy
from dragoman.transports.fd import FLUSH_SECONDS, FdTransport

_HINT: Final = (
    "This is an ACP agent: it reads JSON-RPC messages from stdin and writes them to stdout.\n"
    "It is meant to be started by an editor or another client. Press Ctrl-D to end it.\n"
)


class StdioTransport(FdTransport):
    """The transport of an agent. It takes descriptors 0 and 1 over until it is closed, or for good.

    By default they are not given back: what is printed while the program ends would still reach the client. With
    `restore=True` they are, when the transport is closed, for programs that go on afterwards.

    Raises:
        ConfigError: stdin or stdout is closed.
    """

    def __init__(self, *, restore: bool = False, flush_seconds: float = FLUSH_SECONDS) -> None:
        if sys.platform == "win32":
            raise DragomanError("dragoman does not run on Windows; use WSL, where Linux rules apply")
        # Python leaves these None when a descriptor was closed at start; its number may by now be anything else's.
        if sys.__stdin__ is None or sys.__stdout__ is None:
            raise ConfigError("stdin or stdout is closed; start this agent with a pipe at both")
        self._made_unblocking: set[int] = set()
        self._to_restore: list[tuple[int, int]] = []
        if os.isatty(0):
            _print(_HINT)
        if restore:
            self._to_restore = [(duplicate(0), 0), (duplicate(1), 1)]
        read_fd, write_fd = self._private(0, os.O_RDONLY), self._private(1, os.O_WRONLY)
        _point_away()
        super().__init__(read_fd, write_fd, peer="the client", flush_seconds=flush_seconds)

    def _private(self, fd: int, mode: int) -> int:
        copy, is_shared = private_copy(fd, mode)
        if is_shared:
            self._made_unblocking.add(copy)
        return copy

    def _let_go(self, fd: int) -> None:
        if fd in self._made_unblocking:
            with suppress(OSError):
                os.set_blocking(fd, True)
        super()._let_go(fd)
        if self._read_fd < 0 and self._write_fd < 0:
            for copy, original in self._to_restore:
                os.dup2(copy, original)
                os.close(copy)
            self._to_restore = []


def _point_away() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null if sys.__stderr__ is None else 2, 1)
    os.close(null)
    # What was printed before is still in Python's buffer and now goes to stderr too; later lines appear as they come.
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True)


def _print(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
