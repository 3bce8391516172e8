"""Tool calls as ACP updates: each is announced once, updated when something changes, and ended once.

Owns what the client has been shown of each call, and which update a chunk about it makes. Everything shown comes with
the chunks (`display.py`); the tools themselves are not needed. A call of a hidden tool makes no updates unless it
fails. `updates.py` passes the chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.schema import v1
from dragoman.text.terminal import one_line
from dragoman.uistream import chunks as c
from dragoman.uistream.display import ToolDisplay, ToolOutput, display_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Chunks that can stand between the arguments of a call and the question about it.
_BEFORE_QUESTIONS: Final = (
    c.ToolInputStart,
    c.ToolInputDelta,
    c.ToolInputAvailable,
    c.ToolApprovalRequest,
    c.MessageMetadata,
)
# Members of a ToolOutput whose JSON name in `rawOutput` differs from the one in the stream.
_RAW_OUTPUT_NAMES: Final = {
    "exit_code": "exitCode",
    "is_error": "isError",
    "is_truncated": "isTruncated",
    "output_path": "outputPath",
    "media_type": "mimeType",
}


class ShownCall:
    """One tool call as far as the client has been shown it."""

    __slots__ = ("content", "is_hidden", "kind", "locations", "mcp", "name", "parent", "raw_input", "status", "title")

    def __init__(self, title: str, kind: str, *, is_hidden: bool = False, parent: str | None = None) -> None:
        self.title = one_line(title)
        self.name: str | None = None
        self.parent = parent
        self.mcp: tuple[str, str] | None = None
        self.kind = kind
        self.is_hidden = is_hidden
        self.status = "pending"
        self.raw_input: Any = UNSET
        self.content: list[v1.ToolCallContent] = []
        self.locations: list[v1.ToolCallLocation] = []

    @property
    def is_over(self) -> bool:
        return self.status in ("completed", "failed")

    def show(self, title: str, display: ToolDisplay) -> dict[str, Any]:
        """Take over what a display says, and return the members of an update that changed."""
        changes: dict[str, Any] = {}
        title = one_line(title)
        locations = [v1.ToolCallLocation(location.path, location.line) for location in display.locations]
        content: list[v1.ToolCallContent] = [v1.Diff(diff.path, diff.new, diff.old) for diff in display.diffs]
        if title and title != self.title:
            self.title = changes["title"] = title
        if locations and locations != self.locations:
            self.locations = changes["locations"] = locations
        if content and content != self.content:
            self.content = changes["content"] = content
        return changes


class ToolCallUpdates:
    """The calls of one turn by id. Each method returns the updates that one kind of chunk makes."""

    def __init__(self, *, starts_on_input: bool, is_hidden: Callable[[str], bool] = lambda name: False) -> None:
        self._starts_on_input = starts_on_input
        self._is_hidden = is_hidden
        self._calls: dict[str, ShownCall] = {}
        self._asked: dict[str, c.ToolApprovalRequest] = {}
        """Permission questions without an answer, by their id."""
        self._ready: list[str] = []
        """Calls with complete arguments that run unless a question about them comes next."""

    def __contains__(self, tool_call_id: object) -> bool:
        return tool_call_id in self._calls

    @property
    def open_questions(self) -> tuple[c.ToolApprovalRequest, ...]:
        """Permission questions that wait for an answer of the user."""
        return tuple(
            asked
            for asked in self._asked.values()
            if asked.is_automatic is not True
            and (asked.tool_call_id not in self._calls or not self._calls[asked.tool_call_id].is_over)
        )

    def patch(self, tool_call_id: str) -> v1.ToolCallPatch:
        """Return everything the client was shown of a call: a permission request repeats it."""
        call = self._calls[tool_call_id]
        return v1.ToolCallPatch(
            tool_call_id,
            title=call.title,
            name=_name(call),
            kind=call.kind,
            status=call.status,
            content=call.content or UNSET,
            locations=call.locations or UNSET,
            raw_input=call.raw_input,
            meta=_meta(call),
        )

    def start(self, tool_call_id: str) -> Sequence[v1.SessionUpdate]:
        """Mark the call as running from now on."""
        call = self._calls.get(tool_call_id)
        if call is None or call.status != "pending":
            return ()
        call.status = "in_progress"
        return _changed(tool_call_id, call, status="in_progress")

    def settle(self, chunk: c.Chunk | None = None) -> Sequence[v1.SessionUpdate]:
        """Start the calls that are ready: what follows them, or that nothing does, shows that they run.

        Arguments of other calls and questions do not show it: several calls are often announced before the first
        question. So no call is shown as running and then as waiting for permission.
        """
        if not self._ready or isinstance(chunk, _BEFORE_QUESTIONS):
            return ()
        if isinstance(chunk, c.Data) and chunk.name == "tool-display":
            return ()  # a source shows more of a call right before it asks about it
        ready, self._ready = self._ready, []
        if isinstance(chunk, c.ToolOutputDenied) and chunk.tool_call_id in ready:
            ready.remove(chunk.tool_call_id)
        return [update for call_id in ready for update in self.start(call_id)]

    def end_all(self, why: str) -> list[v1.SessionUpdate]:
        """Fail every call that has no outcome."""
        return [
            update
            for tool_call_id, call in self._calls.items()
            if not call.is_over and not call.is_hidden
            for update in self._fail(tool_call_id, call, why)
        ]

    def input_start(self, chunk: c.ToolInputStart) -> Sequence[v1.SessionUpdate]:
        return self._announce(chunk)[1]

    def preview(self, data: dict[str, Any]) -> Sequence[v1.SessionUpdate]:
        """Show `data-tool-preview`: what arguments that still stream in show so far."""
        tool_call_id: str = data["tool_call_id"]
        call = self._calls.get(tool_call_id)
        changes = {} if call is None else call.show(data["title"], msgspec.convert(data["display"], ToolDisplay))
        return _changed(tool_call_id, call, **changes) if call is not None and changes else ()

    def show(self, data: dict[str, Any]) -> Sequence[v1.SessionUpdate]:
        """Show `data-tool-display`: what a call with complete arguments will change, perhaps with other arguments."""
        tool_call_id: str = data["tool_call_id"]
        call = self._calls.get(tool_call_id)
        display = msgspec.convert(data["display"], ToolDisplay)
        changes = {} if call is None else call.show(data["title"], display)
        if call is not None and display.input is not UNSET and display.input != call.raw_input:
            call.raw_input = changes["raw_input"] = display.input
        return _changed(tool_call_id, call, **changes) if call is not None and changes else ()

    def input_available(self, chunk: c.ToolInputAvailable) -> Sequence[v1.SessionUpdate]:
        call, announced = self._announce(chunk)
        display = display_of(chunk.tool_name, chunk.provider_metadata)
        call.raw_input = chunk.input
        changes = call.show(chunk.title or "", display)
        if display.input is not UNSET:  # the arguments have named the tool that is really called
            call.raw_input, call.kind, call.mcp = display.input, display.kind, display.mcp
            changes["meta"] = _meta(call)
        if self._starts_on_input or chunk.provider_executed is True:
            self._ready.append(chunk.tool_call_id)
        return (*announced, *_changed(chunk.tool_call_id, call, raw_input=call.raw_input, kind=call.kind, **changes))

    def input_error(self, chunk: c.ToolInputError) -> Sequence[v1.SessionUpdate]:
        call, announced = self._announce(chunk)
        call.raw_input = chunk.input
        return (*announced, *self._fail(chunk.tool_call_id, call, chunk.error_text, raw_input=chunk.input))

    def permission_asked(self, chunk: c.ToolApprovalRequest) -> Sequence[v1.SessionUpdate]:
        """Leave a call that waits for permission as it is shown; the question itself is a request of its own."""
        self._asked[chunk.approval_id] = chunk
        if chunk.tool_call_id in self._ready:
            self._ready.remove(chunk.tool_call_id)
        return ()

    def permission_answered(self, chunk: c.ToolApprovalResponse) -> Sequence[v1.SessionUpdate]:
        asked = self._asked.pop(chunk.approval_id, None)
        return () if asked is None or not chunk.approved else self.start(asked.tool_call_id)

    def output(self, chunk: c.ToolOutputAvailable) -> Sequence[v1.SessionUpdate]:
        call, announced = self._find(chunk.tool_call_id)
        output, raw_output = _read(chunk.output)
        content = _content(output)
        changes: dict[str, Any] = {}
        # The last value of a generator arrives twice, first as preliminary; then the client has it already.
        if content and content != call.content:
            call.content = changes["content"] = content
        if output.locations:
            call.locations = [v1.ToolCallLocation(location.path, location.line) for location in output.locations]
            changes["locations"] = call.locations
        if chunk.preliminary is not True:
            call.status = changes["status"] = "failed" if output.is_error else "completed"
            changes["raw_output"] = raw_output
        elif call.status != "in_progress":
            call.status = changes["status"] = "in_progress"
        return (*announced, *_changed(chunk.tool_call_id, call, **changes)) if changes else announced

    def error(self, chunk: c.ToolOutputError) -> Sequence[v1.SessionUpdate]:
        call, announced = self._find(chunk.tool_call_id)
        return (*announced, *self._fail(chunk.tool_call_id, call, chunk.error_text))

    def denied(self, chunk: c.ToolOutputDenied) -> Sequence[v1.SessionUpdate]:
        call, announced = self._find(chunk.tool_call_id)
        return (*announced, *self._fail(chunk.tool_call_id, call, "Not permitted"))

    def _announce(
        self, chunk: c.ToolInputStart | c.ToolInputAvailable | c.ToolInputError
    ) -> tuple[ShownCall, Sequence[v1.SessionUpdate]]:
        call = self._calls.get(chunk.tool_call_id)
        if call is not None:
            return call, ()
        display = display_of(chunk.tool_name, chunk.provider_metadata)
        is_hidden = self._is_hidden(chunk.tool_name)
        call = ShownCall(chunk.title or chunk.tool_name, display.kind, is_hidden=is_hidden, parent=display.parent)
        call.mcp, call.name = display.mcp, chunk.tool_name
        self._calls[chunk.tool_call_id] = call
        return call, () if call.is_hidden else (_announced(chunk.tool_call_id, call),)

    def _find(self, tool_call_id: str) -> tuple[ShownCall, Sequence[v1.SessionUpdate]]:
        """Return the call, announced now if it began in an earlier stream that this client never saw."""
        call = self._calls.get(tool_call_id)
        if call is not None:
            return call, ()
        call = self._calls[tool_call_id] = ShownCall("Tool call", "other")
        return call, (_announced(tool_call_id, call),)

    def _fail(self, tool_call_id: str, call: ShownCall, why: str, **members: Any) -> Sequence[v1.SessionUpdate]:
        if call.is_over:
            return ()  # invalid input arrives twice, as an error of the input and as one of the output
        announced: tuple[v1.SessionUpdate, ...] = ()
        if call.is_hidden:
            announced, call.is_hidden = (_announced(tool_call_id, call),), False
        call.status = "failed"
        diffs = [item for item in call.content if isinstance(item, v1.Diff)]
        call.content = [*diffs, v1.Content(v1.TextContent(why))]
        return (*announced, v1.ToolCallUpdate(tool_call_id, status="failed", content=call.content, **members))


def _announced(tool_call_id: str, call: ShownCall) -> v1.ToolCall:
    return v1.ToolCall(tool_call_id, call.title, name=_name(call), kind=call.kind, status="pending", meta=_meta(call))


def _name(call: ShownCall) -> str | UnsetType:
    """Return the name of a tool of which nothing else says what it does, so that rules can name it (rule 250)."""
    return call.name if call.name and call.kind == "other" and call.mcp is None else UNSET


def _meta(call: ShownCall) -> dict[str, Any] | UnsetType:
    own: dict[str, Any] = {} if call.parent is None else {"parentToolCallId": call.parent}
    if call.mcp is not None:
        own["mcp"] = {"server": call.mcp[0], "tool": call.mcp[1]}
    return {"dragoman": own} if own else UNSET


def _changed(tool_call_id: str, call: ShownCall, **members: Any) -> Sequence[v1.SessionUpdate]:
    """Return the update with these members, none for a call that is hidden."""
    return () if call.is_hidden else (v1.ToolCallUpdate(tool_call_id, **members),)


def _read(output: Any) -> tuple[ToolOutput, Any]:
    """Return a tool's output, and its form for `rawOutput`. An output of another shape is shown as its JSON text."""
    if isinstance(output, dict) and isinstance(output.get("text"), str):
        try:
            return msgspec.convert(output, ToolOutput), _renamed(output)
        except msgspec.ValidationError:
            pass
    if output is None or isinstance(output, str):
        return ToolOutput(output or ""), output
    return ToolOutput(msgspec.json.format(msgspec.json.encode(output), indent=2).decode()), output


def _renamed(value: Any) -> Any:
    """Return the value with the JSON names of `rawOutput`, at every depth.

    Diffs are content already, and can be large.
    """
    if isinstance(value, dict):
        return {_RAW_OUTPUT_NAMES.get(key, key): _renamed(item) for key, item in value.items() if key != "diffs"}
    return [_renamed(item) for item in value] if isinstance(value, (list, tuple)) else value


def _content(output: ToolOutput) -> list[v1.ToolCallContent]:
    """Return what the user sees: diffs and a live terminal in place of the text about them that the model reads."""
    content: list[v1.ToolCallContent] = [v1.Diff(diff.path, diff.new, diff.old) for diff in output.diffs]
    if output.terminal is not None:
        content.append(v1.Terminal(output.terminal))
    elif output.text and not output.diffs:
        if output.details:
            content.append(v1.Content(v1.TextContent(output.details)))
        content.append(v1.Content(v1.TextContent(output.text)))
    content += [v1.Content(v1.ImageContent(image["data"], image["media_type"])) for image in output.images]
    content += [v1.Content(_resource(resource)) for resource in output.resources]
    return content


def _resource(resource: dict[str, Any]) -> v1.ContentBlock:
    uri, media_type = resource["uri"], resource.get("media_type", UNSET)
    if "text" in resource:
        return v1.EmbeddedResource(v1.TextResourceContents(resource["text"], uri, media_type))
    if "blob" in resource:
        return v1.EmbeddedResource(v1.BlobResourceContents(resource["blob"], uri, media_type))
    return v1.ResourceLink(resource.get("name", uri), uri, mime_type=media_type)
