"""Session state: `fold(state, update)` applies an update, and programs read `SessionState`.

Knows the protocol's updates; does not depend on connections, clocks, files or screens. To follow a set_mode response,
fold a `CurrentModeUpdate`; for the options of a set_config_option response, a `ConfigOptionUpdate`.
Read first: session.py; then messages.py for which chunk belongs to which message. `version2/` is for updates of version
2 of the protocol and is loaded with the first of them.
"""

from typing import TYPE_CHECKING

from dragoman.state.compactions import CompactionState
from dragoman.state.message import Message
from dragoman.state.plans import PlanState
from dragoman.state.session import SessionState, TimelineItem, fold, fold_all
from dragoman.state.subagents import SessionMessageState, SubagentState
from dragoman.state.tools import ToolCallState
from dragoman.state.turns import TurnState

if TYPE_CHECKING:
    from dragoman.state.terminals import TerminalState

__all__ = [
    "CompactionState",
    "Message",
    "PlanState",
    "SessionMessageState",
    "SessionState",
    "SubagentState",
    "TerminalState",
    "TimelineItem",
    "ToolCallState",
    "TurnState",
    "fold",
    "fold_all",
]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(globals(), {".terminals": ("TerminalState",)})
