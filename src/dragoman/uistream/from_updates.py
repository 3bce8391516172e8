"""The inverse projection: ACP v1 session updates to UI-message chunks, as AI SDK clients read them.

Owns the whole mapping of one turn to one message, and what keeps the stream well-formed for the client's reader: a
text is opened before its deltas and closed once, a call's input comes before its output, a step is opened before its
content, and no chunk has a type that the client's version does not know. It neither sends nor waits.

A turn can be sent in several streams: one that ends with permission questions is paused, and continued in the next with
the same message id. The client answers by itself only if no other call of its last step is open, so `pause` gives such
calls the output they have so far; the final output replaces it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct

from dragoman.schema import Unknown, encode, v1
from dragoman.text.terminal import plain, sentence
from dragoman.uistream import chunks as c
from dragoman.uistream.content import file_block, parts_of
from dragoman.uistream.messages import DataPart, FilePart

if TYPE_CHECKING:
    from collections.abc import Sequence

SdkVersion = Literal[5, 6, 7]
SDK_VERSIONS: Final[tuple[SdkVersion, ...]] = (5, 6, 7)
_FINISH_REASONS: Final[dict[str, str]] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "max_turn_requests": "other",
    "refusal": "content-filter",
}
_Passage = Literal["text", "reasoning"]
CANCELLED: Final = "The turn was cancelled before this call ended."
FAILED: Final = "The call failed."


class _Call(Struct):
    """One tool call: what the agent reported, and which state its part has at the client."""

    id: str
    step: int
    name: str = "tool"
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    content: Sequence[v1.ToolCallContent] = ()
    locations: Sequence[v1.ToolCallLocation] = ()
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    shown: Literal["new", "streaming", "input", "asked", "answered", "preliminary", "provisional", "final"] = "new"
    is_denied: bool = False

    def fold(self, call: v1.ToolCall | v1.ToolCallPatch) -> bool:
        """Take a report in; gives whether something changed that is part of the output."""
        before = (self.status, self.content, self.locations, self.raw_output)
        self.title = sentence(call.title) if call.title else self.title
        self.kind = call.kind or self.kind
        self.name = call.name or (self.name if self.name != "tool" or self.kind == "other" else self.kind)
        self.status = call.status or self.status
        if call.content is not UNSET and call.content is not None:
            self.content = tuple(item for item in call.content if not isinstance(item, Unknown))
        if call.locations is not UNSET and call.locations is not None:
            self.locations = tuple(call.locations)
        if call.raw_input is not UNSET:
            self.raw_input = call.raw_input
        if call.raw_output is not UNSET:
            self.raw_output = call.raw_output
        return before != (self.status, self.content, self.locations, self.raw_output)

    @property
    def text(self) -> str:
        blocks = [item.content for item in self.content if isinstance(item, v1.Content)]
        return "\n".join(block.text for block in blocks if isinstance(block, v1.TextContent))

    @property
    def output(self) -> dict[str, Any]:
        """What the client gets as the output: only what is known."""
        found: dict[str, Any] = {"kind": self.kind, "status": self.status}
        if self.text:
            found["text"] = self.text
        if self.content:
            found["content"] = [msgspec.json.decode(encode(item)) for item in self.content]
        if self.locations:
            found["locations"] = [msgspec.json.decode(encode(location)) for location in self.locations]
        if self.raw_output is not UNSET and self.raw_output is not None:
            found["rawOutput"] = self.raw_output
        return found

    @property
    def error_text(self) -> str:
        if self.text:
            return plain(self.text)
        return plain(self.raw_output) if isinstance(self.raw_output, str) and self.raw_output else FAILED


class UpdateProjector:
    """One turn as one message of an AI SDK client. Pass it every update of the turn, in order.

    Args:
        message_id: the id of the message, the same in each stream of the turn.
        version: the major version of the client's AI SDK. Version 5 has no permission questions, titles and reasons.
    """

    def __init__(self, message_id: str, *, version: SdkVersion = 6) -> None:
        self._message_id = message_id
        self._version = version
        self._passages = 0
        self._open: tuple[_Passage, str, str | None] | None = None
        self._steps = 0
        self._is_in_step = False
        self._calls: dict[str, _Call] = {}
        self._asked: dict[str, str] = {}

    def begin(self) -> list[c.Chunk]:
        """Begin a stream of the turn."""
        return [c.Start(self._message_id)]

    def project(self, update: v1.SessionUpdate) -> list[c.Chunk]:
        """Return the chunks of an update. One that has nothing to show gives none."""
        match update:
            case v1.AgentMessageChunk():
                return self._content("text", update.content, update.message_id or None)
            case v1.AgentThoughtChunk():
                return self._content("reasoning", update.content, update.message_id or None)
            case v1.ToolCall() | v1.ToolCallUpdate():
                return self._call(update)
            case _:
                return self._data(update)

    # Permission

    @property
    def has_questions(self) -> bool:
        """Whether there are permission questions without an answer."""
        return bool(self._asked)

    def ask(
        self, question_id: str, call: v1.ToolCall | v1.ToolCallPatch, options: Sequence[v1.PermissionOption]
    ) -> list[c.Chunk]:
        """Ask for permission about a call. Not for version 5, whose clients cannot answer."""
        found: list[c.Chunk] = [*self._close(), *self._call(call, is_asked=True)]
        known = self._calls[call.tool_call_id]
        known.shown = "asked"
        known.is_denied = False
        self._asked[question_id] = known.id
        offered = [{"optionId": o.option_id, "name": sentence(o.name), "kind": o.kind} for o in options]
        facts = {"questionId": question_id, "toolCallId": known.id, "title": known.title, "options": offered}
        return [*found, c.Data("permission", facts, question_id), c.ToolApprovalRequest(question_id, known.id)]

    def answer(self, question_id: str, *, allows: bool) -> None:
        """Take note that a question was answered, by this client or elsewhere."""
        call = self._calls.get(self._asked.pop(question_id, ""))
        if call is not None:
            call.shown = "answered"
            call.is_denied = not allows

    # Ends

    def pause(self) -> list[c.Chunk]:
        """End a stream whose turn waits for answers."""
        found: list[c.Chunk] = self._close()
        for call in self._calls.values():
            if call.step == self._steps and call.shown in ("streaming", "input", "preliminary"):
                found += self._final(call, "provisional")
        return [*found, *self._end_step(), c.Finish(self._reason("tool-calls"))]

    def finish(self, stop_reason: str) -> list[c.Chunk]:
        """End the turn."""
        is_cancelled = stop_reason == "cancelled"
        found = self._end(CANCELLED if is_cancelled else None)
        if is_cancelled:
            return [*found, c.Abort()]
        return [*found, c.Finish(self._reason(_FINISH_REASONS.get(stop_reason, "other")))]

    def fail(self, error: str) -> list[c.Chunk]:
        """End a turn that failed; the client shows the text and keeps what it has."""
        return [*self._end(error), c.ErrorChunk(error), c.Finish(self._reason("error"))]

    def _reason(self, reason: str) -> str | msgspec.UnsetType:
        return UNSET if self._version == 5 else reason

    def _end(self, error: str | None) -> list[c.Chunk]:
        found = self._close()
        for call in self._calls.values():
            if call.shown == "final":
                continue
            if call.is_denied or error is None:
                found += self._final(call)
            else:
                call.shown = "final"
                found.append(self._failed(call, error))
        self._asked.clear()
        return [*found, *self._end_step()]

    # Messages

    def _content(self, passage: _Passage, block: v1.ContentBlock, message: str | None) -> list[c.Chunk]:
        if isinstance(block, v1.TextContent):
            return self._text(passage, block.text, message) if block.text else []
        found = self._close()
        made = self._block(block, passage)
        return [*found, *self._step(), made] if made is not None else found

    def _text(self, passage: _Passage, text: str, message: str | None) -> list[c.Chunk]:
        found: list[c.Chunk] = []
        # Some agents number their messages and some do not; only two different ids mean two messages.
        is_same = self._open is not None and self._open[0] == passage
        if is_same and self._open is not None and None not in (message, self._open[2]) and message != self._open[2]:
            is_same = False
        if not is_same:
            found += [*self._close(), *self._step(new=True)]
            self._passages += 1
            id = f"{self._message_id}-{self._passages}"
            self._open = (passage, id, message)
            found.append(c.TextStart(id) if passage == "text" else c.ReasoningStart(id))
        assert self._open is not None
        id = self._open[1]
        return [*found, c.TextDelta(id, text) if passage == "text" else c.ReasoningDelta(id, text)]

    def _block(self, block: v1.ContentBlock, passage: _Passage) -> c.Chunk | None:
        if isinstance(block, Unknown):
            return None
        if isinstance(block, v1.ResourceLink):
            self._passages += 1
            return c.SourceUrl(f"{self._message_id}-{self._passages}", block.uri, block.title or block.name)
        if passage == "reasoning":
            return None  # version 6 has no files in thoughts
        part = parts_of([block])[0]
        if isinstance(part, FilePart):
            return c.File(part.url, part.media_type)
        return c.Data(part.name, part.data) if isinstance(part, DataPart) else None

    def _close(self) -> list[c.Chunk]:
        if self._open is None:
            return []
        passage, id, _ = self._open
        self._open = None
        return [c.TextEnd(id) if passage == "text" else c.ReasoningEnd(id)]

    # Steps

    def _step(self, *, new: bool = False) -> list[c.Chunk]:
        """Open a step, or the next one if the calls of this one are over: as a model's answers begin."""
        if new and self._is_in_step and self._has_ended_calls():
            return [*self._end_step(), *self._step()]
        if self._is_in_step:
            return []
        self._is_in_step = True
        self._steps += 1
        return [c.StartStep()]

    def _has_ended_calls(self) -> bool:
        is_open = any(call.shown != "final" for call in self._calls.values())
        return not is_open and any(call.step == self._steps for call in self._calls.values())

    def _end_step(self) -> list[c.Chunk]:
        if not self._is_in_step:
            return []
        self._is_in_step = False
        return [c.FinishStep()]

    # Tool calls

    def _call(self, update: v1.ToolCall | v1.ToolCallPatch, *, is_asked: bool = False) -> list[c.Chunk]:
        found: list[c.Chunk] = self._close()
        call = self._calls.get(update.tool_call_id)
        if call is None:
            found += self._step()
            call = self._calls[update.tool_call_id] = _Call(update.tool_call_id, self._steps)
        shown_input = (call.name, call.title, call.raw_input)
        is_changed = call.fold(update)
        is_ready = is_asked or call.raw_input is not UNSET or call.status != "pending"
        is_renewed = call.shown == "input" and shown_input != (call.name, call.title, call.raw_input)
        # A part of an earlier step is found by output chunks only: an input chunk would make a second part.
        if call.step == self._steps and (call.shown in ("new", "streaming") or is_renewed):
            found += self._input(call, is_ready)
        if is_asked or call.shown == "asked":
            return found
        if call.status in ("completed", "failed"):
            return [*found, *self._final(call)] if is_changed or call.shown != "final" else found
        if is_changed and call.shown in ("input", "answered", "preliminary") and (call.content or _has_output(call)):
            call.shown = "preliminary"
            found.append(c.ToolOutputAvailable(call.id, call.output, True, True, True))
        return found

    def _input(self, call: _Call, is_ready: bool) -> list[c.Chunk]:
        title = call.title if call.title and self._version > 5 else UNSET
        if not is_ready:
            if call.shown == "streaming":
                return []
            call.shown = "streaming"
            return [c.ToolInputStart(call.id, call.name, title, True, True)]
        call.shown = "input"
        given = {} if call.raw_input is UNSET or call.raw_input is None else call.raw_input
        return [c.ToolInputAvailable(call.id, call.name, given, title, True, True)]

    def _final(self, call: _Call, shown: Literal["final", "provisional"] = "final") -> list[c.Chunk]:
        call.shown = shown
        if call.is_denied and call.status != "completed":
            return [c.ToolOutputDenied(call.id)] if self._version > 5 else [self._failed(call, "not permitted")]
        if call.status == "failed":
            return [self._failed(call, call.error_text)]
        return [c.ToolOutputAvailable(call.id, call.output, UNSET, True, True)]

    def _failed(self, call: _Call, error: str) -> c.Chunk:
        return c.ToolOutputError(call.id, error, True, True)

    # Everything else

    def _data(self, update: v1.SessionUpdate) -> list[c.Chunk]:
        """Return what is not part of a message: data parts, under the names that `updates.py` reads."""
        match update:
            case v1.Plan():
                entries = [
                    {"content": sentence(entry.content), "priority": entry.priority, "status": entry.status}
                    for entry in update.entries
                    if not isinstance(entry, Unknown)
                ]
                return [c.Data("plan", {"entries": entries}, "plan")]
            case v1.UsageUpdate():
                usage: dict[str, Any] = {"used": update.used, "size": update.size}
                if update.cost and update.cost.currency == "USD":
                    usage["cost_usd"] = update.cost.amount
                return [c.Data("usage", usage, "usage")]
            case v1.SessionInfoUpdate(title=str() as title):
                return [c.Data("title", {"title": sentence(title)}, transient=True)]
            case v1.CurrentModeUpdate():
                return [c.Data("mode", {"mode_id": update.current_mode_id}, transient=True)]
            case v1.AvailableCommandsUpdate():
                commands = [
                    {"name": command.name, "description": sentence(command.description), **_hint(command)}
                    for command in update.available_commands
                    if not isinstance(command, Unknown)
                ]
                return [c.Data("commands", {"commands": commands}, transient=True)]
            case v1.Notice():
                notice = {"severity": update.severity, "title": sentence(update.title)}
                if update.description:
                    notice["description"] = plain(update.description)
                return [c.Data("notice", notice)]
            case _:
                return []


def prompt_blocks(parts: object) -> list[v1.ContentBlock]:
    """Return the content blocks of a user's message, as an AI SDK client posts it.

    Parts of other kinds are left out.
    """
    found: list[v1.ContentBlock] = []
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        kind, text, url = part.get("type"), part.get("text"), part.get("url")
        if kind == "text" and isinstance(text, str) and text:
            found.append(v1.TextContent(text))
        elif kind == "file" and isinstance(url, str) and url:
            media, name = part.get("mediaType"), part.get("filename")
            media = media if isinstance(media, str) and media else "application/octet-stream"
            found.append(file_block(url, media, name if isinstance(name, str) else ""))
    return found


def _has_output(call: _Call) -> bool:
    return call.raw_output is not UNSET and call.raw_output is not None


def _hint(command: v1.AvailableCommand) -> dict[str, str]:
    return {"hint": command.input.hint} if isinstance(command.input, v1.UnstructuredCommandInput) else {}
