"""Chunks of the AI SDK's UI-message stream, version 6: the stream inside the built-in agent and the adapters.

Owns the chunk types and their JSON form. Additions of version 7 are read as well; a chunk of an unknown type becomes
`OtherChunk` and is kept. `fold.py` makes messages of chunks, `updates.py` makes ACP updates of them.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dragoman.errors import DragomanError

_Text: TypeAlias = str | UnsetType
_Flag: TypeAlias = bool | UnsetType


class ChunkError(DragomanError):
    """The data is not a chunk of a UI-message stream."""


class _Chunk(Struct, frozen=True, tag_field="type", rename="camel", omit_defaults=True):
    pass


class Start(_Chunk, frozen=True, tag="start"):
    message_id: _Text = UNSET
    message_metadata: Any = UNSET


class StartStep(_Chunk, frozen=True, tag="start-step"):
    pass


class FinishStep(_Chunk, frozen=True, tag="finish-step"):
    pass


class ResetStep(_Chunk, frozen=True, tag="reset-step"):
    """Version 7: the content of the current step is void."""


class TextStart(_Chunk, frozen=True, tag="text-start"):
    id: str
    provider_metadata: Any = UNSET


class TextDelta(_Chunk, frozen=True, tag="text-delta"):
    id: str
    delta: str
    provider_metadata: Any = UNSET


class TextEnd(_Chunk, frozen=True, tag="text-end"):
    id: str
    provider_metadata: Any = UNSET
    citations: Any = UNSET


class ReasoningStart(_Chunk, frozen=True, tag="reasoning-start"):
    id: str
    provider_metadata: Any = UNSET


class ReasoningDelta(_Chunk, frozen=True, tag="reasoning-delta"):
    id: str
    delta: str
    provider_metadata: Any = UNSET


class ReasoningEnd(_Chunk, frozen=True, tag="reasoning-end"):
    id: str
    provider_metadata: Any = UNSET


class ToolInputStart(_Chunk, frozen=True, tag="tool-input-start"):
    tool_call_id: str
    tool_name: str
    title: _Text = UNSET
    dynamic: _Flag = UNSET
    provider_executed: _Flag = UNSET
    input_encoding: _Text = UNSET
    provider_metadata: Any = UNSET
    tool_metadata: Any = UNSET


class ToolInputDelta(_Chunk, frozen=True, tag="tool-input-delta"):
    tool_call_id: str
    input_text_delta: str


class ToolInputAvailable(_Chunk, frozen=True, tag="tool-input-available"):
    tool_call_id: str
    tool_name: str
    input: Any
    title: _Text = UNSET
    dynamic: _Flag = UNSET
    provider_executed: _Flag = UNSET
    provider_metadata: Any = UNSET
    tool_metadata: Any = UNSET


class ToolInputError(_Chunk, frozen=True, tag="tool-input-error"):
    tool_call_id: str
    tool_name: str
    input: Any
    error_text: str
    title: _Text = UNSET
    dynamic: _Flag = UNSET
    provider_executed: _Flag = UNSET
    provider_metadata: Any = UNSET
    tool_metadata: Any = UNSET


class ToolApprovalRequest(_Chunk, frozen=True, tag="tool-approval-request"):
    approval_id: str
    tool_call_id: str
    approval_descriptor: Any = UNSET
    input_schema_input: Any = UNSET
    signature: _Text = UNSET
    reason: _Text = UNSET
    is_automatic: _Flag = UNSET


class ToolApprovalResponse(_Chunk, frozen=True, tag="tool-approval-response"):
    """Version 7. The built-in agent emits it too, so that the answer is stored before the tool runs."""

    approval_id: str
    approved: bool
    reason: _Text = UNSET
    provider_executed: _Flag = UNSET
    provider_metadata: Any = UNSET


class ToolOutputAvailable(_Chunk, frozen=True, tag="tool-output-available"):
    tool_call_id: str
    output: Any
    preliminary: _Flag = UNSET
    dynamic: _Flag = UNSET
    provider_executed: _Flag = UNSET
    provider_metadata: Any = UNSET
    tool_metadata: Any = UNSET


class ToolOutputError(_Chunk, frozen=True, tag="tool-output-error"):
    tool_call_id: str
    error_text: str
    dynamic: _Flag = UNSET
    provider_executed: _Flag = UNSET
    provider_metadata: Any = UNSET
    tool_metadata: Any = UNSET


class ToolOutputDenied(_Chunk, frozen=True, tag="tool-output-denied"):
    tool_call_id: str


class SourceUrl(_Chunk, frozen=True, tag="source-url"):
    source_id: str
    url: str
    title: _Text = UNSET
    provider_metadata: Any = UNSET


class SourceDocument(_Chunk, frozen=True, tag="source-document"):
    source_id: str
    media_type: str
    title: str
    filename: _Text = UNSET
    provider_metadata: Any = UNSET


class File(_Chunk, frozen=True, tag="file"):
    url: str
    media_type: str
    provider_metadata: Any = UNSET


class ReasoningFile(_Chunk, frozen=True, tag="reasoning-file"):
    url: str
    media_type: str
    provider_metadata: Any = UNSET


class Custom(_Chunk, frozen=True, tag="custom"):
    kind: str
    provider_metadata: Any = UNSET


class SteeringMessage(_Chunk, frozen=True, tag="steering-message"):
    """Version 7: text of the user that reached the running turn."""

    id: str
    parts: list[Any]


class MessageMetadata(_Chunk, frozen=True, tag="message-metadata"):
    message_metadata: Any


class ErrorChunk(_Chunk, frozen=True, tag="error"):
    error_text: str


class Abort(_Chunk, frozen=True, tag="abort"):
    reason: _Text = UNSET


class Finish(_Chunk, frozen=True, tag="finish"):
    finish_reason: _Text = UNSET
    message_metadata: Any = UNSET


class Data(Struct, frozen=True):
    """`data-NAME`: data of the application next to the text. A second chunk with the same id replaces the first."""

    name: str
    data: Any
    id: _Text = UNSET
    transient: _Flag = UNSET


class OtherChunk(Struct, frozen=True):
    """A chunk of an unknown type, kept unchanged."""

    raw: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.raw["type"])


_Known: TypeAlias = (
    Start
    | StartStep
    | FinishStep
    | ResetStep
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolInputStart
    | ToolInputDelta
    | ToolInputAvailable
    | ToolInputError
    | ToolApprovalRequest
    | ToolApprovalResponse
    | ToolOutputAvailable
    | ToolOutputError
    | ToolOutputDenied
    | SourceUrl
    | SourceDocument
    | File
    | ReasoningFile
    | Custom
    | SteeringMessage
    | MessageMetadata
    | ErrorChunk
    | Abort
    | Finish
)
Chunk: TypeAlias = _Known | Data | OtherChunk

KNOWN_TYPES: Final[frozenset[str]] = frozenset(str(kind.__struct_config__.tag) for kind in _Chunk.__subclasses__())
_PREFIX: Final = "data-"

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Known)


class _Type(Struct):
    type: str


_type_decoder = msgspec.json.Decoder(_Type)


def encode_chunk(chunk: Chunk) -> bytes:
    """Encode the chunk as one line of JSON, as a UI-message stream carries it."""
    if isinstance(chunk, Data):
        members: dict[str, Any] = {"type": _PREFIX + chunk.name, "data": chunk.data}
        if chunk.id is not UNSET:
            members["id"] = chunk.id
        if chunk.transient is not UNSET:
            members["transient"] = chunk.transient
        return _encoder.encode(members)
    return _encoder.encode(chunk.raw if isinstance(chunk, OtherChunk) else chunk)


def decode_chunk(data: bytes | str) -> Chunk:
    """Decode one chunk; unknown members are ignored.

    Raises: ChunkError for anything but a JSON object with a `type`, and for a known type with a wrong member.
    """
    try:
        kind = _type_decoder.decode(data).type
        if kind in KNOWN_TYPES:
            chunk: Chunk = _decoder.decode(data)
            return chunk
        raw = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ChunkError(f"not a chunk of a UI-message stream: {error}") from None
    if kind.startswith(_PREFIX):
        return Data(kind[len(_PREFIX) :], raw.get("data"), raw.get("id", UNSET), raw.get("transient", UNSET))
    return OtherChunk(raw)
