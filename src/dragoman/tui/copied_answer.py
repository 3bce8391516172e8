"""The last answer of an agent, and the sentence about where a copied text went."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dragoman.text.visible import label
from dragoman.tui.clipboard import LARGEST_BYTES
from dragoman.view.blocks import MessageBlock, TextPiece
from dragoman.view.build import blocks_of

if TYPE_CHECKING:
    from dragoman.state import SessionState
    from dragoman.tui.clipboard import Copied
    from dragoman.view.blocks import Role


def last_answer(state: SessionState, role: Role = "agent") -> str:
    """Return the last message of the agent, or its last thought, as it was sent; empty if there is none."""
    for block in reversed(blocks_of(state)):
        if isinstance(block, MessageBlock) and block.role == role:
            text = "".join(piece.text for piece in block.content if isinstance(piece, TextPiece)).strip()
            if text:
                return text
    return ""


def copied_sentence(copied: Copied, text: str) -> str:
    """Return how much was copied, by which ways, and the file that has it."""
    lines = text.count("\n") + 1
    what = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
    where = f"copied {what} ({', '.join(copied.ways)})" if copied.ways else f"{what} are only in a file"
    if len(text.encode("utf-8", "replace")) > LARGEST_BYTES:
        where += f", too long for the terminal (over {LARGEST_BYTES >> 10} KB)"
    home = os.path.expanduser("~")
    file = f"~{copied.file[len(home) :]}" if copied.file.startswith(f"{home}/") else copied.file
    return f"{where}; {copied.problem or label(file, 200)}"
