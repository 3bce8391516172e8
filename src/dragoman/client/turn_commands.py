"""Which processes of an agent belong to commands of a turn, so that a cancelled turn leaves none of them running.

Some agents report a command as ended when its turn is cancelled, and let it run. A command and a server that the agent
keeps for itself are both processes below the agent, and differ only in the moment of their start. So a program that
started an agent notes when commands were first mentioned, and when a cancelled turn is over it ends what the agent
started since then (`process/sweep.py`). That comes before the turn is reported as over: no command of the next turn
can have been started yet.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dragoman.schema import v1

_REPORTED_SECONDS: Final = 1.0  # an agent may report a command a little after it started it
_ENDED: Final = ("completed", "failed")


class TurnCommands:
    """The commands of one turn, which begins now."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._mentioned: dict[str, float] = {}  # when, by the id of the tool call
        self._is_cancelled = False

    def note(self, update: v1.ToolCall | v1.ToolCallUpdate) -> None:
        """Note a tool call, or a change of one."""
        if update.status in _ENDED:
            # After a cancel it may be reported as ended, and run.
            if not self._is_cancelled:
                self._mentioned.pop(update.tool_call_id, None)
        elif update.kind == "execute":
            self._mentioned.setdefault(update.tool_call_id, monotonic())

    def cancel(self) -> None:
        """Note that the turn is cancelled."""
        self._is_cancelled = True

    @property
    def left_since(self) -> float | None:
        """The moment of `time.monotonic` since which the agent started commands that may run; None if none ran.

        What the agent started for itself is older than the turn.
        """
        if not self._mentioned:
            return None
        return max(min(self._mentioned.values()) - _REPORTED_SECONDS, self._began)
