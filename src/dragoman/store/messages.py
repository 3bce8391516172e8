"""Conversion between typed message parts and their stored form: the JSON of the AI SDK's UI message parts.

Owns both directions. One part is one row. All other modules use the typed parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.errors import StoreError
from dragoman.store.sessions import MessageRow, PartRow
from dragoman.uistream.messages import (
    DataPart,
    FilePart,
    OtherPart,
    Part,
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

_encoder = msgspec.json.Encoder()


def encode_part(part: Part) -> bytes:
    """Return the JSON of a part as it is stored in one row."""
    return _encoder.encode(part_to_json(part))


def decode_part(data: bytes | str) -> Part:
    """Undo `encode_part`. Raises: StoreError if the data is not a message part."""
    try:
        return part_from_json(msgspec.json.decode(data, type=dict[str, Any]))
    except (msgspec.DecodeError, UnicodeError, KeyError) as error:
        raise StoreError(f"a stored message part cannot be read: {error}") from None


def part_to_json(part: Part) -> dict[str, Any]:
    """Return the JSON object of a part of a UI message."""
    match part:
        case TextPart() | ReasoningPart():
            kind = "text" if isinstance(part, TextPart) else "reasoning"
            return _given(
                ("type", kind), ("text", part.text), ("state", part.state), ("providerMetadata", part.provider_metadata)
            )
        case ToolPart():
            return _tool_to_json(part)
        case FilePart():
            kind = "reasoning-file" if part.is_reasoning else "file"
            return _given(
                ("type", kind), ("url", part.url), ("mediaType", part.media_type), ("filename", part.filename)
            )
        case SourceUrlPart():
            return _given(
                ("type", "source-url"), ("sourceId", part.source_id), ("url", part.url), ("title", part.title)
            )
        case SourceDocumentPart():
            return _given(
                ("type", "source-document"),
                ("sourceId", part.source_id),
                ("mediaType", part.media_type),
                ("title", part.title),
                ("filename", part.filename),
            )
        case DataPart():
            return _given(("type", f"data-{part.name}"), ("id", part.id), ("data", part.data))
        case StepStartPart():
            return {"type": "step-start"}
        case OtherPart():
            return part.raw


def part_from_json(raw: dict[str, Any]) -> Part:
    """Undo `part_to_json`. A part of an unknown kind becomes an `OtherPart` that keeps its JSON."""
    kind = raw["type"]
    read = _READERS.get(kind)
    if read is not None:
        return read(raw)
    if kind.startswith("tool-"):
        return _tool_from_json(raw, kind.removeprefix("tool-"))
    if kind.startswith("data-"):
        return DataPart(kind.removeprefix("data-"), raw.get("data"), raw.get("id", UNSET))
    return OtherPart(raw)


def message_to_row(message: UIMessage) -> MessageRow:
    """Return the rows that the store keeps for a message."""
    return MessageRow(message.id, message.role, tuple(map(_part_row, message.parts)), message.metadata)


def message_from_row(row: MessageRow) -> UIMessage:
    """Undo `message_to_row`. Raises: StoreError if a part cannot be read."""
    role: Any = row.role
    return UIMessage(row.id, role, [decode_part(part.data) for part in row.parts], row.metadata)


def _part_row(part: Part) -> PartRow:
    json = part_to_json(part)
    if isinstance(part, ToolPart):
        return PartRow(json["type"], _encoder.encode(json), part.tool_call_id, part.state)
    return PartRow(json["type"], _encoder.encode(json))


def _tool_to_json(part: ToolPart) -> dict[str, Any]:
    return _given(
        ("type", "dynamic-tool" if part.is_dynamic else f"tool-{part.name}"),
        ("toolName", part.name if part.is_dynamic else UNSET),
        ("toolCallId", part.tool_call_id),
        ("state", part.state),
        ("title", part.title),
        ("input", part.input),
        ("output", part.output),
        ("errorText", part.error_text),
        ("approval", part.permission),
        ("preliminary", part.is_preliminary or UNSET),
        ("providerExecuted", part.is_provider_executed or UNSET),
        ("callProviderMetadata", part.provider_metadata),
    )


def _tool_from_json(raw: dict[str, Any], name: str) -> ToolPart:
    return ToolPart(
        raw["toolCallId"],
        name,
        raw["state"],
        raw.get("input", UNSET),
        raw.get("output", UNSET),
        raw.get("errorText", UNSET),
        raw.get("title", UNSET),
        raw.get("approval", UNSET),
        is_preliminary=raw.get("preliminary", False),
        is_dynamic=raw["type"] == "dynamic-tool",
        is_provider_executed=raw.get("providerExecuted", False),
        provider_metadata=raw.get("callProviderMetadata", UNSET),
    )


_READERS: dict[str, Callable[[dict[str, Any]], Part]] = {
    "text": lambda raw: TextPart(raw["text"], raw.get("state", "done"), "", raw.get("providerMetadata", UNSET)),
    "reasoning": lambda raw: ReasoningPart(
        raw["text"], raw.get("state", "done"), "", raw.get("providerMetadata", UNSET)
    ),
    "file": lambda raw: FilePart(raw["url"], raw["mediaType"], raw.get("filename", UNSET)),
    "reasoning-file": lambda raw: FilePart(raw["url"], raw["mediaType"], raw.get("filename", UNSET), True),
    "source-url": lambda raw: SourceUrlPart(raw["sourceId"], raw["url"], raw.get("title", UNSET)),
    "source-document": lambda raw: SourceDocumentPart(
        raw["sourceId"], raw["mediaType"], raw.get("title", ""), raw.get("filename", UNSET)
    ),
    "step-start": lambda raw: StepStartPart(),
    "dynamic-tool": lambda raw: _tool_from_json(raw, raw["toolName"]),
}


def _given(*members: tuple[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members if value is not UNSET}
