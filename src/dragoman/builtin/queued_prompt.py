"""A prompt on its way to its turn: what the client sent, and what the turn works with.

Owns what is known of a prompt before its turn begins. `session.py` keeps the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from dragoman.builtin.checkpoints import TurnCheckpoint
    from dragoman.builtin.context.command import Invocation
    from dragoman.builtin.tools.tool import ToolAccess
    from dragoman.builtin.viewer import Viewer
    from dragoman.uistream.messages import Part


class QueuedPrompt(Struct):
    """A prompt and what its turn works with."""

    parts: list[Part]
    viewer: Viewer
    access: ToolAccess
    trace: Mapping[str, str] = {}
    command: Invocation | None = None
    """The slash command the prompt begins with."""
    metadata: dict[str, Any] = {}
    """Stored with the message."""
    answer: str = ""
    """Answers instead of a model, such as that an MCP server refused its prompt."""
    checkpoint: TurnCheckpoint | None = None
    """Follows what its turn changes."""
    refusal: str = ""
    """Why a hook of the user's refuses the prompt; then no model sees it."""

    @property
    def is_for_model(self) -> bool:
        """Whether a model answers; otherwise a command of the agent itself does, or the prompt was refused."""
        return not self.refusal and not self.answer and (self.command is None or self.command.prompt is not None)
