"""Session state as blocks, and blocks as Markdown, HTML or lines of a terminal: what every user interface shows.

Knows the folded state; does not depend on connections, files, clocks or a screen. All text in it is a peer's: each
writer makes it safe for the place it writes to. Read first: blocks.py; then build.py, which makes blocks of a state.
"""

from typing import TYPE_CHECKING

from dragoman.view.blocks import Block, MessageBlock, NoteBlock, PlanBlock, ShownTerminal, ToolBlock, TurnBlock

if TYPE_CHECKING:
    from dragoman.view.build import blocks_of

__all__ = [
    "Block",
    "MessageBlock",
    "NoteBlock",
    "PlanBlock",
    "ShownTerminal",
    "ToolBlock",
    "TurnBlock",
    "blocks_of",
]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(globals(), {".build": ("blocks_of",)})  # `exec` needs the values alone
