"""Where judged agents come from, and what the judge needs of a connection to one.

Owns the two protocols that `program.py` and `in_process.py` implement. Does not depend on what is exchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from dragoman.process import Patience
from dragoman.rpc import Transport

if TYPE_CHECKING:
    from collections.abc import Callable

# An agent that does not end by itself after a case is ended soon. How long an agent needs after the end of its input is
# measured by a case of its own, before this begins.
PATIENCE: Final = Patience(stdin_seconds=1.0, term_seconds=1.0)


class AgentLink(Transport, Protocol):
    """A transport whose input can be ended while its output is still read."""

    def end_input(self) -> None:
        """Let the agent read the end of its input, after everything that was written."""

    @property
    def returncode(self) -> int | None:
        """How the program ended; None while it runs, or if there is no program."""


class AgentTarget(Protocol):
    """What opens connections to agents."""

    command: tuple[str, ...]

    async def open(self, on_stderr: Callable[[bytes], None]) -> AgentLink:
        """Connect to a fresh agent.

        Raises: ConfigError, DragomanError when there is no agent to connect to.
        """
