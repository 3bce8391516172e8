"""Where in the tree of agents a turn stands, and with it whether it may start another subagent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from dragoman.builtin.subagents.subagents import Subagents

MOST_DEPTH: Final = 2
"""The agent, its subagents, and theirs. One that builds may let another explore; below that no user can follow what is
done in their name, each level loses what the one above knows, and a run costs the product of all levels."""


class SubagentScope(Struct, frozen=True):
    """The place of one turn: its session's subagents, and the names of the agents above it."""

    subagents: Subagents
    path: tuple[str, ...] = ()
    """The names of the subagents from the session's own agent down to this one."""
    call_id: str = ""
    """The call of the session's own agent that this turn belongs to."""

    @property
    def may_delegate(self) -> bool:
        return len(self.path) < MOST_DEPTH

    @property
    def is_main(self) -> bool:
        """Whether this is the session's own agent, and not a subagent."""
        return not self.path

    def below(self, name: str, call_id: str) -> SubagentScope:
        """The scope of a subagent that this turn starts with a call."""
        return SubagentScope(self.subagents, (*self.path, name), self.call_id or call_id)
