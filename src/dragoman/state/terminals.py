"""The terminals that an agent of version 2 runs and reports; a tool call's content refers to them by id.

Of the output the end is kept, as bytes: a character may be split between two chunks. Does not run anything, and
does not know the terminals that a client offers to agents of version 1.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import TYPE_CHECKING, Final

from dragoman.schema import UNSET
from dragoman.state.messages import patched

if TYPE_CHECKING:
    from typing import Any

    from dragoman.schema.v2 import TerminalExitStatus, TerminalOutputChunk, TerminalSize, TerminalUpdate

# The same as the terminals of `client/` keep by default.
OUTPUT_LIMIT: Final = 1024 * 1024


class TerminalState:
    """One terminal of the agent as last reported; None where nothing is reported."""

    __slots__ = ("_can_cancel", "_command", "_cwd", "_exit_status", "_id", "_lost", "_meta", "_output", "_revision",
                 "_size")  # fmt: skip

    def __init__(self, terminal_id: str) -> None:
        self._id = terminal_id
        self._command: str | None = None
        self._cwd: str | None = None
        self._exit_status: TerminalExitStatus | None = None
        self._size: TerminalSize | None = None
        self._can_cancel = False
        self._meta: dict[str, Any] | None = None
        self._output = bytearray()
        self._lost = 0
        self._revision = 0

    @property
    def id(self) -> str:
        """The agent's id for it."""
        return self._id

    @property
    def command(self) -> str | None:
        """The command that runs in it."""
        return self._command

    @property
    def cwd(self) -> str | None:
        """The folder the command was started in."""
        return self._cwd

    @property
    def exit_status(self) -> TerminalExitStatus | None:
        """How the command ended; None while it runs."""
        return self._exit_status

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs, and if a signal ended it."""
        code = None if self._exit_status is None else self._exit_status.exit_code
        return None if code is UNSET else code

    @property
    def is_running(self) -> bool:
        """No exit was reported."""
        return self._exit_status is None

    @property
    def size(self) -> TerminalSize | None:
        """Columns and rows."""
        return self._size

    @property
    def can_cancel(self) -> bool:
        """The agent offers to end the command, see `Session.cancel_terminal`."""
        return self._can_cancel

    @property
    def meta(self) -> dict[str, Any] | None:
        """The `_meta` of its updates."""
        return self._meta

    @property
    def output(self) -> bytes:
        """The end of what the command wrote, control sequences included."""
        return bytes(self._output)

    @property
    def text(self) -> str:
        """The output as text; bytes that are not UTF-8 are replaced."""
        return self._output.decode("utf-8", "replace")

    @property
    def lost_bytes(self) -> int:
        """How much of the beginning of the output was dropped."""
        return self._lost

    @property
    def revision(self) -> int:
        """Grows with each change."""
        return self._revision

    def __repr__(self) -> str:
        return f"TerminalState({self._id!r}, {self._command!r}, is_running={self.is_running})"


class _GrowingTerminal(TerminalState):
    __slots__ = ()

    def fold(self, update: TerminalUpdate) -> None:
        if update.command is not UNSET:
            self._command = update.command
        if update.cwd is not UNSET:
            self._cwd = update.cwd
        if update.exit_status is not UNSET:
            self._exit_status = update.exit_status
        if update.size is not UNSET:
            self._size = update.size
        if update.capabilities is not UNSET:
            self._can_cancel = bool(update.capabilities and update.capabilities.cancel)
        if update.meta is not UNSET:
            self._meta = patched(self._meta, update.meta)
        if update.output is not UNSET:
            self._output.clear()
            self._lost = 0
            if update.output is not None:
                self.append(update.output.data)
        self._revision += 1

    def append(self, data: str) -> None:
        try:
            self._output += b64decode(data)
        except (NotBase64, ValueError):
            return  # it is lost; a check of the recording reports it
        excess = len(self._output) - OUTPUT_LIMIT
        if excess > 0:
            del self._output[:excess]  # (a bytearray moves its start and copies nothing)
            self._lost += excess
        self._revision += 1


class AgentTerminals:
    """All terminals of an agent, by id."""

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: dict[str, _GrowingTerminal] = {}

    def fold(self, update: TerminalUpdate) -> None:
        """Add a terminal, or change the one that has this id."""
        self._get(update.terminal_id).fold(update)

    def fold_chunk(self, chunk: TerminalOutputChunk) -> None:
        """Append to the output of a terminal."""
        self._get(chunk.terminal_id).append(chunk.data)

    def _get(self, terminal_id: str) -> _GrowingTerminal:
        if terminal_id not in self.by_id:
            self.by_id[terminal_id] = _GrowingTerminal(terminal_id)
        return self.by_id[terminal_id]
