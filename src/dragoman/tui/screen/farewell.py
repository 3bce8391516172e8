"""What stays in the terminal when the screen is left: the last question and its answer. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import clip
from dragoman.view.blocks import MessageBlock
from dragoman.view.build import blocks_of
from dragoman.view.rails import rail_lines

if TYPE_CHECKING:
    from dragoman.state import SessionState
    from dragoman.view.rails import RailView

_QUESTION_LINES: Final = 12
_ANSWER_LINES: Final = 150
"""As much as one reads in the scrollback, and no more than was on a few screens."""


def last_exchange(state: SessionState, view: RailView) -> list[str]:
    """Return the last question and its answer as lines, with the middle of a very long one left out."""
    blocks = blocks_of(state)
    starts = [place for place, block in enumerate(blocks) if isinstance(block, MessageBlock) and block.role == "user"]
    found: list[list[str]] = []
    for block in blocks[starts[-1] if starts else 0 :]:
        found.append([clip("".join(text for text, _ in line).rstrip(), view.width) for line in rail_lines(block, view)])
    if not found:
        return []
    question = found[0] if starts else []
    answer = [line for lines in (found[1:] if starts else found) for line in lines]
    if len(question) > _QUESTION_LINES:
        question = [*question[:_QUESTION_LINES], f"  ({len(question) - _QUESTION_LINES} more lines)"]
    if len(answer) > _ANSWER_LINES:
        answer = [f"  ({len(answer) - _ANSWER_LINES} lines before)", *answer[-_ANSWER_LINES:]]
    return [*question, *answer]
