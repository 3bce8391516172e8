"""What every dialect is read into and answered from.

Owns the common form of a request to a model, and of its reply. Knows no dialect and decides nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Tool(NamedTuple):
    """A tool the agent offers to its model."""

    name: str
    schema: dict[str, Any]
    is_free_text: bool = False
    """It takes a text instead of an object."""
    namespace: str = ""


class Question(NamedTuple):
    """One request to the model."""

    prompt: str
    """What the user said last, with whatever the agent wrapped around it."""
    tools: tuple[Tool, ...] = ()
    results: tuple[str, ...] = ()
    """What the tools gave since then, the oldest first."""
    schema: dict[str, Any] | None = None
    """The JSON the answer has to be, if it has to be JSON."""
    model: str = ""
    is_streamed: bool = False


class Thought(NamedTuple):
    text: str


class Speech(NamedTuple):
    pieces: tuple[str, ...]
    pause_seconds: float = 0.0
    """Waited for after each piece."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class ToolUse(NamedTuple):
    tool: Tool
    arguments: dict[str, Any] | str


Part = Thought | Speech | ToolUse


class Reply(NamedTuple):
    """What the model says: parts in their order, or an HTTP error instead."""

    parts: tuple[Part, ...] = ()
    status: int = 200

    @property
    def uses_tools(self) -> bool:
        return any(isinstance(part, ToolUse) for part in self.parts)


class Event(NamedTuple):
    """One event of a streamed answer."""

    data: Any
    name: str = ""
    pause_seconds: float = 0.0


def text_of(content: object) -> str:
    """The text of a message's content, in any of the shapes the dialects have: a string, or a list of blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
