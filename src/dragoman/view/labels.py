"""Short words about blocks that all writers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import size
from dragoman.view.blocks import ShownTerminal

if TYPE_CHECKING:
    from dragoman.view.blocks import ToolBlock, TurnBlock

STEP_SIGNS: Final = {"completed": "☑", "in_progress": "◐"}
_ENDINGS: Final = {
    "end_turn": "Done",
    "cancelled": "Cancelled",
    "refusal": "The agent refused to continue",
    "max_tokens": "Stopped at the limit of tokens",
    "max_turn_requests": "Stopped at the limit of requests",
}


def ending(block: TurnBlock) -> str:
    """How a turn ended, in a few words."""
    if block.is_lost:
        return "The agent ended during the turn"
    if block.stop_reason is None:
        return "Ended without an answer"
    return _ENDINGS.get(block.stop_reason, f"Stopped: {block.stop_reason}")


def tokens(block: TurnBlock) -> str:
    """The tokens of a turn; empty if the agent did not report them."""
    if block.input_tokens is None or block.output_tokens is None:
        return ""
    return f"{size(block.input_tokens)} tokens in, {size(block.output_tokens)} out"


def outcome(block: ToolBlock) -> str:
    """How a tool call ended: a command that failed counts as failed, whatever status the agent reports."""
    for piece in block.content:
        if isinstance(piece, ShownTerminal):
            if piece.signal:
                return f"killed by {piece.signal}"
            if piece.exit_code:
                return f"exit {piece.exit_code}"
    return f"exit {block.exit_code}" if block.exit_code else block.status
