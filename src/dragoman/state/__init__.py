"""Session state: `fold(state, update)` applies an update, and programs read `SessionState`.

Knows the protocol's updates; does not depend on connections, clocks, files or screens. To follow a set_mode response,
fold a `CurrentModeUpdate`; for the options of a set_config_option response, a `ConfigOptionUpdate`.
Read first: session.py; then messages.py for which chunk belongs to which message.
"""

from dragoman.state.compactions import CompactionState
from dragoman.state.message import Message
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
