"""The agent role: prompts become turns, turns become updates and one answer.

Owns the protocol's rules for an agent. Does not know how bytes move, nor any model. Read `agent.py` first, then
`turn.py`, which is what the author of an agent works with, and `connection.py`, where requests arrive. Names that not
every agent needs to start are loaded when first used.
"""

from typing import TYPE_CHECKING

from dragoman.agent.agent import Agent
from dragoman.agent.client import ClientError, RemoteClient
from dragoman.agent.context import Context

if TYPE_CHECKING:
    from dragoman.agent.permission import Permission
    from dragoman.agent.session import AgentSession
    from dragoman.agent.terminals import TerminalHandle
    from dragoman.agent.tools import ToolCallHandle
    from dragoman.agent.turn import Turn

__all__ = [
    "Agent",
    "AgentSession",
    "ClientError",
    "Context",
    "Permission",
    "RemoteClient",
    "TerminalHandle",
    "ToolCallHandle",
    "Turn",
]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(
        globals(),
        {
            ".permission": ("Permission",),
            ".session": ("AgentSession",),
            ".terminals": ("TerminalHandle",),
            ".tools": ("ToolCallHandle",),
            ".turn": ("Turn",),
        },
    )
