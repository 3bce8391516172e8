"""Calls become session state: `fold(state, update)`, and programs look at `SessionState`.

Knows the protocol's updates and nothing of connections, clocks, files or screens. To follow a set_mode answer, fold a
`CurrentModeUpdate`; for the options a set_config_option answer carries, a `ConfigOptionUpdate`.
Read first: session.py; then messages.py for which chunk goes where.
"""

from dragoman.state.compactions import CompactionState
from dragoman.state.messages import Message
from dragoman.state.plans import PlanState
from dragoman.state.session import SessionState, TimelineItem, fold, fold_all
from dragoman.state.subagents import SessionMessageState, SubagentState
from dragoman.state.tools import ToolCallState
from dragoman.state.turns import TurnState

__all__ = [
    "CompactionState",
    "Message",
    "PlanState",
    "SessionMessageState",
    "SessionState",
    "SubagentState",
    "TimelineItem",
    "ToolCallState",
    "TurnState",
    "fold",
    "fold_all",
]
