"""Chunks add up to a message: the one place that knows how.

Owns the fold (message, chunk) -> message and ending what a broken stream left open. The way back is `replay.py`.
Does not know who listens or where messages are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.uistream import chunks as c
from dragoman.uistream.chunks import ChunkError
from dragoman.uistream.messages import (
    DataPart,
    FilePart,
    Message,
    OtherPart,
    ReasoningPart,
    SourceDocumentPart,
    SourceUrlPart,
    StepStartPart,
    TextPart,
    ToolPart,
)
from dragoman.uistream.partial_json import parse_partial

if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = "interrupted before it ended"


class Reducer:
    """Folds chunks into one assistant message, which may have parts already: a turn can go on in a second stream.

    `is_tolerant` takes a delta or an output whose beginning is missing for that beginning, as a log needs that was
    cut off; else it is a ChunkError.
    """

    def __init__(self, message: Message, *, is_tolerant: bool = False) -> None:
        self.message = message
        self._is_tolerant = is_tolerant
        self._texts: dict[str, TextPart] = {}
        self._thoughts: dict[str, ReasoningPart] = {}
        self._tools = {part.tool_call_id: part for part in message.parts if isinstance(part, ToolPart)}
        self._fold: dict[type, Callable[[Any], None]] = {
            c.Start: self._start,
            c.StartStep: lambda _: self.message.parts.append(StepStartPart()),
            c.ResetStep: self._reset_step,
            c.FinishStep: self._finish_step,
            c.TextStart: self._text_start,
            c.TextDelta: self._text_delta,
            c.TextEnd: self._text_end,
            c.ReasoningStart: self._reasoning_start,
            c.ReasoningDelta: self._reasoning_delta,
            c.ReasoningEnd: self._reasoning_end,
            c.ToolInputStart: self._tool_input_start,
            c.ToolInputDelta: self._tool_input_delta,
            c.ToolInputAvailable: self._tool_input_available,
            c.ToolInputError: self._tool_input_error,
            c.ToolApprovalRequest: self._approval_request,
            c.ToolApprovalResponse: self._approval_response,
            c.ToolOutputAvailable: self._tool_output,
            c.ToolOutputError: self._tool_error,
            c.ToolOutputDenied: self._tool_denied,
            c.SourceUrl: lambda x: self.message.parts.append(SourceUrlPart(x.source_id, x.url, x.title)),
            c.SourceDocument: lambda x: self.message.parts.append(
                SourceDocumentPart(x.source_id, x.media_type, x.title, x.filename)
            ),
            c.File: lambda x: self.message.parts.append(FilePart(x.url, x.media_type)),
            c.ReasoningFile: lambda x: self.message.parts.append(FilePart(x.url, x.media_type, is_reasoning=True)),
            c.SteeringMessage: lambda x: self.message.parts.append(
                OtherPart({"type": "steering-message", "id": x.id, "parts": x.parts})
            ),
            c.Data: self._data,
            c.MessageMetadata: lambda x: self._metadata(x.message_metadata),
            c.Finish: lambda x: self._metadata(x.message_metadata),
        }

    def feed(self, chunk: c.Chunk) -> None:
        """Raises: ChunkError for a chunk that cannot come now."""
        fold = self._fold.get(type(chunk))
        if fold is not None:
            fold(chunk)

    @property
    def open_tools(self) -> tuple[ToolPart, ...]:
        """Tool calls that have no outcome yet."""
        return tuple(part for part in self._tools.values() if not part.is_over)

    def close(self, why: str = INTERRUPTED) -> list[c.Chunk]:
        """The chunks that end everything still open, folded in already. An `abort` and a crash both leave such."""
        ends: list[c.Chunk] = [c.TextEnd(each) for each in self._texts]
        ends += [c.ReasoningEnd(each) for each in self._thoughts]
        ends += [c.ToolOutputError(part.tool_call_id, why) for part in self.open_tools]
        for chunk in ends:
            self.feed(chunk)
        return ends

    # One method for each kind of chunk

    def _start(self, chunk: c.Start) -> None:
        if chunk.message_id:
            self.message.id = chunk.message_id
        self._metadata(chunk.message_metadata)

    def _metadata(self, metadata: Any) -> None:
        if isinstance(metadata, dict):
            self.message.metadata = {**self.message.metadata, **metadata}

    def _finish_step(self, chunk: c.FinishStep) -> None:
        # Ids of text may be used again in the next step.
        self._texts.clear()
        self._thoughts.clear()

    def _reset_step(self, chunk: c.ResetStep) -> None:
        parts = self.message.parts
        while parts:
            part = parts.pop()
            if isinstance(part, ToolPart):
                self._tools.pop(part.tool_call_id, None)
            if isinstance(part, StepStartPart):
                parts.append(part)
                break
        self._texts.clear()
        self._thoughts.clear()

    def _text_start(self, chunk: c.TextStart) -> None:
        part = TextPart("", "streaming", chunk.id, chunk.provider_metadata)
        self._texts[chunk.id] = part
        self.message.parts.append(part)

    def _text_delta(self, chunk: c.TextDelta) -> None:
        if chunk.id not in self._texts:
            self._require(chunk, chunk.id)
            self._text_start(c.TextStart(chunk.id))
        self._texts[chunk.id].text += chunk.delta

    def _text_end(self, chunk: c.TextEnd) -> None:
        part = self._texts.pop(chunk.id, None)
        if part is None:
            self._require(chunk, chunk.id)
            return
        part.state = "done"
        if chunk.provider_metadata is not UNSET:
            part.provider_metadata = chunk.provider_metadata

    def _reasoning_start(self, chunk: c.ReasoningStart) -> None:
        part = ReasoningPart("", "streaming", chunk.id, chunk.provider_metadata)
        self._thoughts[chunk.id] = part
        self.message.parts.append(part)

    def _reasoning_delta(self, chunk: c.ReasoningDelta) -> None:
        if chunk.id not in self._thoughts:
            self._require(chunk, chunk.id)
            self._reasoning_start(c.ReasoningStart(chunk.id))
        self._thoughts[chunk.id].text += chunk.delta

    def _reasoning_end(self, chunk: c.ReasoningEnd) -> None:
        part = self._thoughts.pop(chunk.id, None)
        if part is None:
            self._require(chunk, chunk.id)
            return
        part.state = "done"
        if chunk.provider_metadata is not UNSET:
            part.provider_metadata = chunk.provider_metadata

    def _tool_input_start(self, chunk: c.ToolInputStart) -> None:
        self._begin_tool(chunk, "input-streaming")

    def _tool_input_delta(self, chunk: c.ToolInputDelta) -> None:
        part = self._tools.get(chunk.tool_call_id)
        if part is None:
            self._require(chunk, chunk.tool_call_id)
            return
        part.input_text += chunk.input_text_delta

    def _tool_input_available(self, chunk: c.ToolInputAvailable) -> None:
        part = self._begin_tool(chunk, "input-available")
        part.input, part.input_text = chunk.input, ""

    def _tool_input_error(self, chunk: c.ToolInputError) -> None:
        part = self._begin_tool(chunk, "output-error")
        part.input, part.input_text, part.error_text = chunk.input, "", chunk.error_text

    def _begin_tool(self, chunk: c.ToolInputStart | c.ToolInputAvailable | c.ToolInputError, state: Any) -> ToolPart:
        part = self._tools.get(chunk.tool_call_id)
        if part is None:
            part = ToolPart(chunk.tool_call_id, chunk.tool_name, state)
            self._tools[chunk.tool_call_id] = part
            self.message.parts.append(part)
        part.state = state
        part.is_dynamic = part.is_dynamic or chunk.dynamic is True
        part.is_provider_executed = part.is_provider_executed or chunk.provider_executed is True
        if chunk.title is not UNSET:
            part.title = chunk.title
        if chunk.provider_metadata is not UNSET:
            part.provider_metadata = chunk.provider_metadata
        return part

    def _approval_request(self, chunk: c.ToolApprovalRequest) -> None:
        part = self._tool_of(chunk, chunk.tool_call_id)
        part.state, part.approval = "approval-requested", {"id": chunk.approval_id}

    def _approval_response(self, chunk: c.ToolApprovalResponse) -> None:
        for part in self._tools.values():
            if isinstance(part.approval, dict) and part.approval.get("id") == chunk.approval_id:
                part.state = "approval-responded"
                part.approval = {"id": chunk.approval_id, "approved": chunk.approved}
                if chunk.reason is not UNSET:
                    part.approval["reason"] = chunk.reason
                return
        self._require(chunk, chunk.approval_id)

    def _tool_output(self, chunk: c.ToolOutputAvailable) -> None:
        part = self._tool_of(chunk, chunk.tool_call_id)
        part.state, part.output = "output-available", chunk.output
        part.is_preliminary = chunk.preliminary is True

    def _tool_error(self, chunk: c.ToolOutputError) -> None:
        part = self._tool_of(chunk, chunk.tool_call_id)
        if part.input is UNSET and part.input_text:
            part.input = parse_partial(part.input_text) or {}
        part.state, part.error_text, part.is_preliminary, part.input_text = "output-error", chunk.error_text, False, ""

    def _tool_denied(self, chunk: c.ToolOutputDenied) -> None:
        part = self._tool_of(chunk, chunk.tool_call_id)
        part.state, part.is_preliminary = "output-denied", False

    def _tool_of(self, chunk: c.Chunk, tool_call_id: str) -> ToolPart:
        part = self._tools.get(tool_call_id)
        if part is None:
            self._require(chunk, tool_call_id)
            part = ToolPart(tool_call_id, "unknown", "input-available", {}, is_dynamic=True)
            self._tools[tool_call_id] = part
            self.message.parts.append(part)
        return part

    def _data(self, chunk: c.Data) -> None:
        if chunk.transient is True:
            return
        for part in self.message.parts:
            if chunk.id is not UNSET and isinstance(part, DataPart) and (part.name, part.id) == (chunk.name, chunk.id):
                part.data = chunk.data
                return
        self.message.parts.append(DataPart(chunk.name, chunk.data, chunk.id))

    def _require(self, chunk: c.Chunk, id: str) -> None:
        if not self._is_tolerant:
            raise ChunkError(f"{type(chunk).__name__} for {id!r}, which never began")
