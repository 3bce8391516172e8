"""The chunks of a stored message, so that a loaded session is shown like a live one; the inverse of `fold.py`.

Owns the shortest stream that folds into the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.uistream import chunks as c
from dragoman.uistream.fold import ERROR, INTERRUPTED, USAGE
from dragoman.uistream.messages import (
    DataPart,
    FilePart,
    OtherPart,
    ReasoningPart,
    SourceDocumentPart,
    SourceUrlPart,
    StepStartPart,
    TextPart,
    ToolPart,
    UIMessage,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def replay(message: UIMessage) -> list[c.Chunk]:
    """Return the chunks of a finished message, without the final `finish`."""
    stream: list[c.Chunk] = [c.Start(message.id)]
    for part in message.parts:
        stream += _REPLAYS[type(part)](part)
    if USAGE in message.metadata:
        stream.append(c.Data("usage", message.metadata[USAGE], "usage", transient=True))
    if isinstance(message.metadata.get(ERROR), str):
        stream.append(c.ErrorChunk(message.metadata[ERROR]))
    return stream


def _text(part: TextPart) -> list[c.Chunk]:
    return [c.TextStart(part.id), c.TextDelta(part.id, part.text), c.TextEnd(part.id, part.provider_metadata)]


def _reasoning(part: ReasoningPart) -> list[c.Chunk]:
    end = c.ReasoningEnd(part.id, part.provider_metadata)
    return [c.ReasoningStart(part.id), c.ReasoningDelta(part.id, part.text), end]


def _other(part: OtherPart) -> list[c.Chunk]:
    match part.raw:
        case {"type": "steering-message", "id": str(id), "parts": list(parts)}:
            return [c.SteeringMessage(id, parts)]
    return []


def _tool(part: ToolPart) -> list[c.Chunk]:
    call = part.tool_call_id
    flags: dict[str, Any] = {"title": part.title, "provider_metadata": part.provider_metadata}
    if part.is_dynamic:
        flags["dynamic"] = True
    if part.is_provider_executed:
        flags["provider_executed"] = True
    if part.state == "input-streaming":
        return [c.ToolInputStart(call, part.name, **flags), c.ToolInputDelta(call, part.input_text)]
    stream: list[c.Chunk] = [
        c.ToolInputAvailable(call, part.name, None if part.input is UNSET else part.input, **flags)
    ]
    if isinstance(part.permission, dict):
        stream.append(c.ToolApprovalRequest(part.permission["id"], call))
        if "approved" in part.permission:
            approved, reason = part.permission["approved"], part.permission.get("reason", UNSET)
            stream.append(c.ToolApprovalResponse(part.permission["id"], approved, reason))
    if part.state == "output-available":
        stream.append(c.ToolOutputAvailable(call, part.output, True if part.is_preliminary else UNSET))
    elif part.state == "output-error":
        stream.append(c.ToolOutputError(call, part.error_text or INTERRUPTED))
    elif part.state == "output-denied":
        stream.append(c.ToolOutputDenied(call))
    return stream


_REPLAYS: dict[type, Callable[[Any], list[c.Chunk]]] = {
    TextPart: _text,
    ReasoningPart: _reasoning,
    ToolPart: _tool,
    FilePart: lambda part: [(c.ReasoningFile if part.is_reasoning else c.File)(part.url, part.media_type)],
    SourceUrlPart: lambda part: [c.SourceUrl(part.source_id, part.url, part.title)],
    SourceDocumentPart: lambda part: [c.SourceDocument(part.source_id, part.media_type, part.title, part.filename)],
    DataPart: lambda part: [c.Data(part.name, part.data, part.id)],
    StepStartPart: lambda part: [c.StartStep()],
    OtherPart: _other,
}
