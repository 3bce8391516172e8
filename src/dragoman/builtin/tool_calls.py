"""Tool calls as a client sees them: announced once, updated sparingly, ended once.

Owns what is known of each call and which update a chunk about it makes. Arguments that stream in become a title,
locations and a diff preview, at most ten times a second. The projector feeds it; it knows nothing of text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from dragoman.builtin.seam import kind_of, to_wire
from dragoman.builtin.tools.tool import Preview, ToolOutput
from dragoman.schema import v1
from dragoman.uistream.partial_json import parse_partial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dragoman.builtin.tools.tool import FileDiff, Kind, Location, Tool
    from dragoman.uistream import chunks as c

# A model writes up to a hundred pieces a second; more than ten redraws a second nobody sees.
PREVIEW_SECONDS: Final = 0.1
# Each preview parses all that has come so far, so beyond this only the finished arguments are shown.
PREVIEW_BYTES: Final = 64 * 1024


class Call:
    """One tool call, as far as the client has been told."""

    __slots__ = ("arguments", "content", "kind", "locations", "name", "previewed_at", "raw_input", "status", "title")

    def __init__(self, name: str, title: str, kind: Kind) -> None:
        self.name = name
        self.title = title
        self.kind = kind
        self.status = "pending"
        self.arguments = ""
        self.raw_input: Any = UNSET
        self.content: list[v1.ToolCallContent] = []
        self.locations: list[v1.ToolCallLocation] = []
        self.previewed_at: float | None = None

    @property
    def is_over(self) -> bool:
        return self.status in ("completed", "failed")


class ToolCalls:
    """The calls of one turn by id."""

    def __init__(
        self, tools: Mapping[str, Tool], cwd: str, *, starts_on_input: bool, clock: Callable[[], float]
    ) -> None:
        self._tools = tools
        self._cwd = cwd
        self._starts_on_input = starts_on_input
        self._clock = clock
        self._calls: dict[str, Call] = {}
        self._approvals: dict[str, str] = {}

    def patch(self, tool_call_id: str) -> v1.ToolCallPatch:
        """Everything the client knows of a call: what a permission request repeats."""
        call = self._calls[tool_call_id]
        return v1.ToolCallPatch(
            tool_call_id,
            title=call.title,
            kind=call.kind,
            status=call.status,
            content=call.content or UNSET,
            locations=call.locations or UNSET,
            raw_input=call.raw_input,
        )

    def start(self, tool_call_id: str) -> Sequence[v1.SessionUpdate]:
        """The call runs from now on."""
        call = self._calls.get(tool_call_id)
        return self._move(tool_call_id, call, "in_progress") if call is not None and call.status == "pending" else ()

    def end_all(self, why: str) -> list[v1.SessionUpdate]:
        """Every call without an outcome fails."""
        return [
            update
            for tool_call_id, call in self._calls.items()
            if not call.is_over
            for update in self._fail(tool_call_id, call, why)
        ]

    # One method for each kind of chunk

    def input_start(self, chunk: c.ToolInputStart) -> Sequence[v1.SessionUpdate]:
        return self._announce(chunk)[1]

    def input_delta(self, chunk: c.ToolInputDelta) -> Sequence[v1.SessionUpdate]:
        call = self._calls.get(chunk.tool_call_id)
        if call is None or len(call.arguments) > PREVIEW_BYTES:
            return ()
        call.arguments += chunk.input_text_delta
        now = self._clock()
        if call.previewed_at is not None and now - call.previewed_at < PREVIEW_SECONDS:
            return ()
        arguments = parse_partial(call.arguments)
        if not arguments:
            return ()
        call.previewed_at = now
        changes = self._preview(call, arguments)
        if not changes:
            return ()
        return (v1.ToolCallUpdate(chunk.tool_call_id, raw_input=arguments, **changes),)

    def input_available(self, chunk: c.ToolInputAvailable) -> Sequence[v1.SessionUpdate]:
        call, announced = self._announce(chunk)
        call.raw_input, call.arguments = chunk.input, ""
        changes = self._preview(call, chunk.input if isinstance(chunk.input, dict) else {})
        if self._starts_on_input or chunk.provider_executed is True:
            call.status = changes["status"] = "in_progress"
        return (*announced, v1.ToolCallUpdate(chunk.tool_call_id, raw_input=chunk.input, kind=call.kind, **changes))

    def input_error(self, chunk: c.ToolInputError) -> Sequence[v1.SessionUpdate]:
        call, announced = self._announce(chunk)
        call.raw_input = chunk.input
        return (*announced, *self._fail(chunk.tool_call_id, call, chunk.error_text, raw_input=chunk.input))

    def approval_request(self, chunk: c.ToolApprovalRequest) -> Sequence[v1.SessionUpdate]:
        """The question itself is a request of its own; a call that waits for leave is pending."""
        self._approvals[chunk.approval_id] = chunk.tool_call_id
        call = self._calls.get(chunk.tool_call_id)
        if call is None or call.status != "in_progress":
            return ()
        return self._move(chunk.tool_call_id, call, "pending")

    def approval_response(self, chunk: c.ToolApprovalResponse) -> Sequence[v1.SessionUpdate]:
        tool_call_id = self._approvals.get(chunk.approval_id)
        return () if tool_call_id is None or not chunk.approved else self.start(tool_call_id)

    def output(self, chunk: c.ToolOutputAvailable) -> Sequence[v1.SessionUpdate]:
        call, announced = self._find(chunk.tool_call_id)
        output = _read(chunk.output)
        content = _shown(output)
        changes: dict[str, Any] = {}
        # A generator's last value comes twice, first as preliminary; the client has it then.
        if content and content != call.content:
            call.content = changes["content"] = content
        if output.locations:
            call.locations = changes["locations"] = _locations(output.locations)
        if chunk.preliminary is True:
            if call.status != "in_progress":
                call.status = changes["status"] = "in_progress"
        else:
            call.status = changes["status"] = "failed" if output.is_error else "completed"
            changes["raw_output"] = to_wire(chunk.output)
        if not changes:
            return announced
        return (*announced, v1.ToolCallUpdate(chunk.tool_call_id, **changes))

    def error(self, chunk: c.ToolOutputError) -> Sequence[v1.SessionUpdate]:
        call, announced = self._find(chunk.tool_call_id)
        return (*announced, *self._fail(chunk.tool_call_id, call, chunk.error_text))

    def denied(self, chunk: c.ToolOutputDenied) -> Sequence[v1.SessionUpdate]:
        call, announced = self._find(chunk.tool_call_id)
        return (*announced, *self._fail(chunk.tool_call_id, call, "Not permitted"))

    # What they share

    def _announce(
        self, chunk: c.ToolInputStart | c.ToolInputAvailable | c.ToolInputError
    ) -> tuple[Call, Sequence[v1.SessionUpdate]]:
        call = self._calls.get(chunk.tool_call_id)
        if call is not None:
            return call, ()
        tool = self._tools.get(chunk.tool_name)
        title = chunk.title or (tool.preview({}, self._cwd).title if tool is not None else chunk.tool_name)
        call = Call(chunk.tool_name, title, kind_of(chunk.tool_name) if tool is None else tool.kind)
        self._calls[chunk.tool_call_id] = call
        return call, (v1.ToolCall(chunk.tool_call_id, title, kind=call.kind, status="pending"),)

    def _find(self, tool_call_id: str) -> tuple[Call, Sequence[v1.SessionUpdate]]:
        """The call, announced now if its beginning was in an earlier stream that this client never saw."""
        call = self._calls.get(tool_call_id)
        if call is not None:
            return call, ()
        call = self._calls[tool_call_id] = Call("", "Tool call", "other")
        return call, (v1.ToolCall(tool_call_id, call.title, kind="other", status="pending"),)

    def _preview(self, call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the arguments show that the client does not know yet."""
        tool = self._tools.get(call.name)
        preview = Preview(call.title) if tool is None else tool.preview(arguments, self._cwd)
        changes: dict[str, Any] = {}
        if preview.title != call.title:
            call.title = changes["title"] = preview.title
        locations = _locations(preview.locations)
        if locations and locations != call.locations:
            call.locations = changes["locations"] = locations
        content: list[v1.ToolCallContent] = _diffs(preview.diffs)
        if content and content != call.content:
            call.content = changes["content"] = content
        return changes

    def _move(self, tool_call_id: str, call: Call, status: str) -> Sequence[v1.SessionUpdate]:
        call.status = status
        return (v1.ToolCallUpdate(tool_call_id, status=status),)

    def _fail(self, tool_call_id: str, call: Call, why: str, **members: Any) -> Sequence[v1.SessionUpdate]:
        if call.is_over:
            return ()  # invalid input is told twice, as an error of the input and as one of the output
        call.status = "failed"
        diffs = [item for item in call.content if isinstance(item, v1.Diff)]
        call.content = [*diffs, v1.Content(v1.TextContent(why))]
        return (v1.ToolCallUpdate(tool_call_id, status="failed", content=call.content, **members),)


def _read(output: Any) -> ToolOutput:
    """A tool's output. Ours have a shape; whatever else a tool of another program gives is shown as it is."""
    if isinstance(output, dict) and isinstance(output.get("text"), str):
        try:
            return msgspec.convert(output, ToolOutput)
        except msgspec.ValidationError:
            pass
    text = output if isinstance(output, str) else msgspec.json.format(msgspec.json.encode(output), indent=2).decode()
    return ToolOutput("" if output is None else text)


def _shown(output: ToolOutput) -> list[v1.ToolCallContent]:
    """What a person sees: diffs and a live terminal instead of the text the model reads of them."""
    shown = _diffs(output.diffs)
    if output.terminal is not None:
        shown.append(v1.Terminal(output.terminal))
    elif output.text and not output.diffs:
        shown.append(v1.Content(v1.TextContent(output.text)))
    for image in output.images:
        shown.append(v1.Content(v1.ImageContent(image["data"], image["media_type"])))
    for each in output.resources:
        shown.append(v1.Content(_resource(each)))
    return shown


def _resource(resource: dict[str, Any]) -> v1.ContentBlock:
    uri, media_type = resource["uri"], resource.get("media_type", UNSET)
    if "text" in resource:
        return v1.EmbeddedResource(v1.TextResourceContents(resource["text"], uri, media_type))
    if "blob" in resource:
        return v1.EmbeddedResource(v1.BlobResourceContents(resource["blob"], uri, media_type))
    return v1.ResourceLink(resource.get("name", uri), uri, mime_type=media_type)


def _diffs(diffs: Sequence[FileDiff]) -> list[v1.ToolCallContent]:
    return [v1.Diff(diff.path, diff.new, diff.old) for diff in diffs]


def _locations(locations: Sequence[Location]) -> list[v1.ToolCallLocation]:
    return [v1.ToolCallLocation(place.path, place.line) for place in locations]
