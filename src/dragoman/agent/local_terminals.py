"""A command as a child of this process, behaving like a client's terminal.

Owns the translation to the protocol's types. `dragoman.process` runs the command and ends all of its processes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dragoman.agent.client import ClientError
from dragoman.agent.terminals import TerminalHandle
from dragoman.errors import INTERNAL_ERROR, DragomanError
from dragoman.process.terminal import DEFAULT_BYTES, Terminal
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class LocalTerminal(TerminalHandle):
    """A child on a pipe and the tail of what it wrote."""

    is_live = False

    def __init__(self, terminal: Terminal) -> None:
        self.id = f"local-{os.urandom(6).hex()}"
        self.is_released = False
        self._terminal = terminal

    @classmethod
    def start(
        cls, argv: Sequence[str], cwd: str, env: Mapping[str, str] | None, output_byte_limit: int | None
    ) -> LocalTerminal:
        """Raises: ClientError when the command cannot be started."""
        limit_bytes = DEFAULT_BYTES if output_byte_limit is None else output_byte_limit
        try:
            # The agent runs its own command: it sees what the agent sees, and keeps as much as the author says.
            terminal = Terminal.start(
                argv,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                pty=False,
                limit_bytes=limit_bytes,
                ceiling_bytes=limit_bytes,
            )
        except DragomanError as error:
            raise ClientError(INTERNAL_ERROR, str(error)) from error
        return cls(terminal)

    async def output(self) -> v1.TerminalOutputResponse:
        self._require_live()
        text, is_truncated = self._terminal.read()
        if self._terminal.is_running:
            return v1.TerminalOutputResponse(text, is_truncated)
        status = v1.TerminalExitStatus(self._terminal.exit_code, self._terminal.signal)
        return v1.TerminalOutputResponse(text, is_truncated, status)

    async def wait(self) -> v1.WaitForTerminalExitResponse:
        self._require_live()
        await self._terminal.wait()
        return v1.WaitForTerminalExitResponse(self._terminal.exit_code, self._terminal.signal)

    async def kill(self) -> None:
        self._require_live()
        await self._terminal.kill()

    async def release(self) -> None:
        if not self.is_released:
            self.is_released = True
            await self._terminal.release()

    def _shown(self) -> v1.ToolCallContent:
        return v1.Content(v1.TextContent(self._terminal.text))
