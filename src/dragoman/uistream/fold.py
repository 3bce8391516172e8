"""UI-message chunks folded into a message; the inverse is `unfold.py`.

Owns the fold (message, chunk) -> message, and ending what a broken stream left open. Does not know where chunks come
from or where messages are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.uistream import chunks as c
from dragoman.uistream.chunks import ChunkError
from dragoman.uistream.display import with_shown, without_diffs
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
from dragoman.uistream.partial_json import parse_partial

if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = "interrupted before it ended"
# Members of a message's metadata: what was shown that is not a part of the message.
ERROR = "error"
"""Text of the error that ended the turn."""
USAGE = "usage"
"""How full the context window was at the end, and what the session had cost."""


class _Growing:
    """A part whose text still grows, with the pieces that are not in it yet.

    A string that grows by each piece would be copied as often: the square of its length.
    """

    __slots__ = ("part", "pieces")

    def __init__(self, part: TextPart | ReasoningPart | ToolPart) -> None:
        self.part = part
        self.pieces: list[str] = []

    def join(self) -> None:
        """Move the pieces into the part."""
        if self.pieces:
            new = "".join(self.pieces)
            self.pieces.clear()
            if isinstance(self.part, ToolPart):
                self.part.input_text += new
            else:
                self.part.text += new


class Reducer:
    """One assistant message, into which chunks are folded.

    Text that still grows is complete in `message` when that is read here, and after a step or the stream has ended.

    Args:
        message: may have parts already, because a turn can continue in a second stream.
        is_tolerant: accept a delta or an output whose beginning is missing, as in a log that was cut off. Otherwise
            that is a ChunkError.
    """

    def __init__(self, message: UIMessage, *, is_tolerant: bool = False) -> None:
        self._message = message
        self._is_tolerant = is_tolerant
        self._texts: dict[str, _Growing] = {}
        self._thoughts: dict[str, _Growing] = {}
        self._inputs: dict[str, _Growing] = {}
        self._tools = {part.tool_call_id: part for part in message.parts if isinstance(part, ToolPart)}

    @property
    def message(self) -> UIMessage:
        """The message so far."""
        self._join()
        return self._message

    def feed(self, chunk: c.Chunk) -> None:
        """Fold one chunk. Raises: ChunkError for a chunk that cannot follow the ones before."""
        make = _NEW_PARTS.get(type(chunk))
        if make is not None:
            self._message.parts.append(make(chunk))
            return
        fold = _FOLDS.get(type(chunk))
        if fold is not None:
            fold(self, chunk)

    @property
    def open_tools(self) -> tuple[ToolPart, ...]:
        """Tool calls that have no outcome yet."""
        return tuple(part for part in self._tools.values() if not part.is_over)

    def close(self, why: str = INTERRUPTED) -> list[c.Chunk]:
        """End everything an `abort` or a crash left open. Returns the chunks that do so; they are folded already."""
        ends: list[c.Chunk] = [c.TextEnd(id) for id in self._texts]
        ends += [c.ReasoningEnd(id) for id in self._thoughts]
        ends += [c.ToolOutputError(part.tool_call_id, why) for part in self.open_tools]
        for chunk in ends:
            self.feed(chunk)
        self._join()
        return ends

    def _join(self) -> None:
        for growing in (self._texts, self._thoughts, self._inputs):
            for part in growing.values():
                part.join()

    # Messages and steps

    def _start(self, chunk: c.Start) -> None:
        if chunk.message_id:
            self._message.id = chunk.message_id
        self._metadata(chunk)

    def _finish(self, chunk: c.Finish) -> None:
        self._join()
        self._metadata(chunk)

    def _error(self, chunk: c.ErrorChunk) -> None:
        self._message.metadata = {**self._message.metadata, ERROR: chunk.error_text}

    def _metadata(self, chunk: c.Start | c.Finish | c.MessageMetadata) -> None:
        if isinstance(chunk.message_metadata, dict):
            self._message.metadata = {**self._message.metadata, **chunk.message_metadata}

    def _finish_step(self, chunk: c.FinishStep | c.ResetStep) -> None:
        self._join()
        # Ids of text may be used again in the next step.
        self._texts.clear()
        self._thoughts.clear()

    def _reset_step(self, chunk: c.ResetStep) -> None:
        parts = self._message.parts
        kept: list[Part] = []
        while parts and not isinstance(parts[-1], StepStartPart):
            part = parts.pop()
            if isinstance(part, ToolPart):
                self._tools.pop(part.tool_call_id, None)
                self._inputs.pop(part.tool_call_id, None)
            elif isinstance(part, DataPart):
                kept.append(part)  # a stored fact, such as a compaction: not a piece of the model's answer
        parts += reversed(kept)
        self._finish_step(chunk)

    def _data(self, chunk: c.Data) -> None:
        if isinstance(chunk.data, dict):
            self._keep_shown(chunk.name, chunk.data)
        if chunk.transient is True:
            return
        for part in self._message.parts:
            if chunk.id is not UNSET and isinstance(part, DataPart) and (part.name, part.id) == (chunk.name, chunk.id):
                part.data = chunk.data
                return
        self._message.parts.append(DataPart(chunk.name, chunk.data, chunk.id))

    def _keep_shown(self, name: str, data: dict[str, Any]) -> None:
        """Keep what a loaded session shows again of data that is not a part of the message."""
        if name == "usage":
            fill = {key: data[key] for key in ("used", "size", "cost_usd") if data.get(key) is not None}
            self._message.metadata = {**self._message.metadata, USAGE: fill}
        elif name == "tool-display":
            part = self._tools.get(str(data.get("tool_call_id")))
            if part is not None:
                part.title = data.get("title") or part.title
                part.provider_metadata = with_shown(part.provider_metadata, data.get("display"))

    # Text and reasoning

    def _open(self, chunk: c.TextStart | c.TextDelta | c.ReasoningStart | c.ReasoningDelta) -> _Growing:
        is_text = isinstance(chunk, (c.TextStart, c.TextDelta))
        part = (TextPart if is_text else ReasoningPart)("", "streaming", chunk.id)
        growing = (self._texts if is_text else self._thoughts)[chunk.id] = _Growing(part)
        self._message.parts.append(part)
        return growing

    def _passage_start(self, chunk: c.TextStart | c.ReasoningStart) -> None:
        self._open(chunk).part.provider_metadata = chunk.provider_metadata

    def _text_delta(self, chunk: c.TextDelta) -> None:
        growing = self._texts.get(chunk.id)
        if growing is None:
            self._require(chunk, chunk.id)
            growing = self._open(chunk)
        growing.pieces.append(chunk.delta)

    def _reasoning_delta(self, chunk: c.ReasoningDelta) -> None:
        growing = self._thoughts.get(chunk.id)
        if growing is None:
            self._require(chunk, chunk.id)
            growing = self._open(chunk)
        growing.pieces.append(chunk.delta)

    def _passage_end(self, chunk: c.TextEnd | c.ReasoningEnd) -> None:
        growing = (self._texts if isinstance(chunk, c.TextEnd) else self._thoughts).pop(chunk.id, None)
        if growing is None:
            self._require(chunk, chunk.id)
            return
        growing.join()
        part = growing.part
        assert not isinstance(part, ToolPart)
        part.state = "done"
        if chunk.provider_metadata is not UNSET:
            part.provider_metadata = chunk.provider_metadata

    # Tool calls

    def _tool_input_start(self, chunk: c.ToolInputStart) -> None:
        self._begin_tool(chunk, "input-streaming")

    def _tool_input_delta(self, chunk: c.ToolInputDelta) -> None:
        part = self._tools.get(chunk.tool_call_id)
        if part is None:
            self._require(chunk, chunk.tool_call_id)
            return
        growing = self._inputs.get(chunk.tool_call_id)
        if growing is None:
            growing = self._inputs[chunk.tool_call_id] = _Growing(part)
        growing.pieces.append(chunk.input_text_delta)

    def _tool_input_available(self, chunk: c.ToolInputAvailable) -> None:
        part = self._begin_tool(chunk, "input-available")
        self._inputs.pop(chunk.tool_call_id, None)
        part.input, part.input_text = chunk.input, ""

    def _tool_input_error(self, chunk: c.ToolInputError) -> None:
        part = self._begin_tool(chunk, "output-error")
        self._inputs.pop(chunk.tool_call_id, None)
        part.input, part.input_text, part.error_text = chunk.input, "", chunk.error_text

    def _begin_tool(self, chunk: c.ToolInputStart | c.ToolInputAvailable | c.ToolInputError, state: Any) -> ToolPart:
        part = self._tools.get(chunk.tool_call_id)
        if part is None:
            part = ToolPart(chunk.tool_call_id, chunk.tool_name, state)
            self._tools[chunk.tool_call_id] = part
            self._message.parts.append(part)
        part.state = state
        part.is_dynamic = part.is_dynamic or chunk.dynamic is True
        part.is_provider_executed = part.is_provider_executed or chunk.provider_executed is True
        if chunk.title is not UNSET:
            part.title = chunk.title
        if chunk.provider_metadata is not UNSET:
            part.provider_metadata = chunk.provider_metadata
        return part

    def _permission_asked(self, chunk: c.ToolApprovalRequest) -> None:
        part = self._tool_of(chunk, chunk.tool_call_id)
        part.state, part.permission = "approval-requested", {"id": chunk.approval_id}

    def _permission_answered(self, chunk: c.ToolApprovalResponse) -> None:
        for part in self._tools.values():
            if isinstance(part.permission, dict) and part.permission.get("id") == chunk.approval_id:
                part.state = "approval-responded"
                part.permission = {"id": chunk.approval_id, "approved": chunk.approved}
                if chunk.reason is not UNSET:
                    part.permission["reason"] = chunk.reason
                return
        self._require(chunk, chunk.approval_id)

    def _tool_output(self, chunk: c.ToolOutputAvailable) -> None:
        part = self._tool_of(chunk, chunk.tool_call_id)
        part.state, part.output = "output-available", chunk.output
        part.is_preliminary = chunk.preliminary is True
        if isinstance(chunk.output, dict) and chunk.output.get("diffs"):
            part.provider_metadata = without_diffs(part.provider_metadata)

    def _tool_error(self, chunk: c.ToolOutputError) -> None:
        part = self._tool_of(chunk, chunk.tool_call_id)
        growing = self._inputs.pop(chunk.tool_call_id, None)
        if growing is not None:
            growing.join()
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
            self._message.parts.append(part)
        return part

    def _require(self, chunk: c.Chunk, id: str) -> None:
        if not self._is_tolerant:
            raise ChunkError(f"{type(chunk).__name__} for {id!r}, which never began")


_NEW_PARTS: dict[type, Callable[[Any], Part]] = {
    c.StartStep: lambda chunk: StepStartPart(),
    c.SourceUrl: lambda chunk: SourceUrlPart(chunk.source_id, chunk.url, chunk.title),
    c.SourceDocument: lambda chunk: SourceDocumentPart(chunk.source_id, chunk.media_type, chunk.title, chunk.filename),
    c.File: lambda chunk: FilePart(chunk.url, chunk.media_type),
    c.ReasoningFile: lambda chunk: FilePart(chunk.url, chunk.media_type, is_reasoning=True),
    c.OtherChunk: lambda chunk: OtherPart(chunk.raw),
    c.SteeringMessage: lambda chunk: OtherPart({"type": "steering-message", "id": chunk.id, "parts": chunk.parts}),
}
_FOLDS: dict[type, Callable[[Reducer, Any], None]] = {
    c.Start: Reducer._start,
    c.MessageMetadata: Reducer._metadata,
    c.Finish: Reducer._finish,
    c.FinishStep: Reducer._finish_step,
    c.ResetStep: Reducer._reset_step,
    c.ErrorChunk: Reducer._error,
    c.Data: Reducer._data,
    c.TextStart: Reducer._passage_start,
    c.TextDelta: Reducer._text_delta,
    c.TextEnd: Reducer._passage_end,
    c.ReasoningStart: Reducer._passage_start,
    c.ReasoningDelta: Reducer._reasoning_delta,
    c.ReasoningEnd: Reducer._passage_end,
    c.ToolInputStart: Reducer._tool_input_start,
    c.ToolInputDelta: Reducer._tool_input_delta,
    c.ToolInputAvailable: Reducer._tool_input_available,
    c.ToolInputError: Reducer._tool_input_error,
    c.ToolApprovalRequest: Reducer._permission_asked,
    c.ToolApprovalResponse: Reducer._permission_answered,
    c.ToolOutputAvailable: Reducer._tool_output,
    c.ToolOutputError: Reducer._tool_error,
    c.ToolOutputDenied: Reducer._tool_denied,
}
