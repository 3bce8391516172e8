"""Messages and their parts: the AI SDK's UI messages.

Owns the types that the store keeps and that model requests consist of. `fold.py` makes parts from chunks.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

ToolState: TypeAlias = Literal[
    "input-streaming",
    "input-available",
    "approval-requested",
    "approval-responded",
    "output-available",
    "output-error",
    "output-denied",
]
Role: TypeAlias = Literal["user", "assistant", "system"]


class TextPart(Struct):
    text: str
    state: Literal["streaming", "done"] = "done"
    id: str = ""
    provider_metadata: Any = UNSET


class ReasoningPart(Struct):
    text: str
    state: Literal["streaming", "done"] = "done"
    id: str = ""
    provider_metadata: Any = UNSET


class ToolPart(Struct):
    """One tool call with its input and its outcome. It is stored as one row, however many chunks it took."""

    tool_call_id: str
    name: str
    state: ToolState
    input: Any = UNSET
    output: Any = UNSET
    error_text: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    permission: Any = UNSET
    """The question and its answer; in JSON it is `"approval"`: `{"id", "approved"?, "reason"?}`."""
    is_preliminary: bool = False
    is_dynamic: bool = False
    is_provider_executed: bool = False
    input_text: str = ""
    provider_metadata: Any = UNSET

    @property
    def is_over(self) -> bool:
        return self.state in ("output-available", "output-error", "output-denied") and not self.is_preliminary


class FilePart(Struct):
    url: str
    media_type: str
    filename: str | UnsetType = UNSET
    is_reasoning: bool = False


class SourceUrlPart(Struct):
    source_id: str
    url: str
    title: str | UnsetType = UNSET


class SourceDocumentPart(Struct):
    source_id: str
    media_type: str
    title: str
    filename: str | UnsetType = UNSET


class DataPart(Struct):
    name: str
    data: Any
    id: str | UnsetType = UNSET


class StepStartPart(Struct):
    pass


class OtherPart(Struct):
    """A part of an unknown type, kept unchanged."""

    raw: dict[str, Any]


Part: TypeAlias = (
    TextPart
    | ReasoningPart
    | ToolPart
    | FilePart
    | SourceUrlPart
    | SourceDocumentPart
    | DataPart
    | StepStartPart
    | OtherPart
)


class Usage(Struct, frozen=True):
    """Tokens of one model call, in five counts that do not overlap: `input` excludes tokens read from the cache."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def context(self) -> int:
        """Tokens the call occupies in the context window."""
        return self.input + self.output + self.reasoning + self.cache_read + self.cache_write

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


class UIMessage(Struct):
    """One message of a conversation; a turn is the user's message and the assistant's that follows it."""

    id: str
    role: Role
    parts: list[Part]
    metadata: dict[str, Any] = {}
