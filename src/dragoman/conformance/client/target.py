"""Where judged clients come from, and what the judge needs of a connection from one.

Owns the two protocols that `program.py` and `in_process.py` implement. Does not depend on what is exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from dragoman.errors import DragomanError
from dragoman.rpc import Transport

if TYPE_CHECKING:
    from pathlib import Path

Output: TypeAlias = Callable[[bytes], None]
AgentEnding: TypeAlias = Literal["closed", "signalled", "killed"]
"""How the client ended its agent: it closed the agent's stdin; it only sent SIGTERM; or the agent just disappeared."""

# How long a client may take to end once its agent is gone. The case is over by then.
LEAVE_SECONDS: Final = 1.0


class NoAgent(DragomanError):
    """The client did not start the agent it was given."""


class ClientLink(Transport, Protocol):
    """The agent's end of a connection, and what else the judge has to know about the client at the other end."""

    ending: AgentEnding | None
    """How the client ended its agent; None while it runs, or if the judge was first."""

    def end_output(self) -> None:
        """Let the client read the end of the agent's stdout, after everything that was written."""

    async def log(self, data: bytes) -> None:
        """Write to the agent's stderr; return when the client's end of it took everything. Raises: Skip."""

    def interrupt(self) -> None:
        """Do to the client what Ctrl-C at its terminal would do."""

    async def wait_exit(self) -> int | None:
        """Wait until the client itself has ended; return how, negative for a signal."""


class ClientTarget(Protocol):
    """What opens connections from clients."""

    command: tuple[str, ...]

    async def open(self, folder: Path, on_output: Output, within_seconds: float) -> ClientLink:
        """Start a fresh client and wait for its connection. `on_output` receives what it prints.

        Raises: NoAgent when the client does not start its agent; ConfigError when the client cannot be started.
        """
