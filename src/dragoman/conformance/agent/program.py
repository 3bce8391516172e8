"""The judged agent as a program on stdio, started again for each connection.

Owns ending its input while its output is still read, which a judge needs and a client does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.conformance.agent.target import PATIENCE
from dragoman.process import Child
from dragoman.transports.process import ProcessTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.conformance.agent.target import AgentLink


class AgentProgram:
    """The command of an agent, started for each connection."""

    def __init__(self, command: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> None:
        self.command = tuple(command)
        self._cwd = cwd
        self._env = env

    async def open(self, on_stderr: Callable[[bytes], None]) -> AgentLink:
        child = Child.spawn(self.command, cwd=self._cwd, env=self._env, patience=PATIENCE, on_stderr=on_stderr)
        return _ProgramLink(child)


class _ProgramLink(ProcessTransport):
    _ends_input = False

    def end_input(self) -> None:
        self._ends_input = True
        if not self.unsent_bytes:
            self._close_writing()

    def _drained(self) -> None:
        if self._ends_input and not self.unsent_bytes:
            self._close_writing()
        super()._drained()
