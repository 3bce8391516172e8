"""The projection: UI-message chunks to ACP v1 session updates.

Owns the whole mapping and the state it needs: which calls were announced, what they show, how the turn ended. Live
streams and replayed messages pass through the same code. It neither sends nor waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from dragoman.schema import v1
from dragoman.text.terminal import plain, sentence
from dragoman.uistream import chunks as c
from dragoman.uistream.content import blocks_of, file_block
from dragoman.uistream.tool_calls import ToolCallUpdates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.uistream.messages import UIMessage

_STOP_REASONS: Final[dict[str, str]] = {
    "stop": "end_turn",
    "tool-calls": "end_turn",
    "other": "end_turn",
    "length": "max_tokens",
    "context-window": "max_tokens",
    "content-filter": "refusal",
}
LIMITS: Final[dict[str, str]] = {"steps": "max_turn_requests", "tokens": "max_tokens", "cost": "max_tokens"}
BROKEN_OFF: Final = "The answer broke off here and begins again."
DISCARDED: Final = "Discarded: the answer broke off and begins again"
_TITLE: Final = "Shorten the conversation"


def stop_reason_of(finish_reason: str) -> str | None:
    """Return the ACP stop reason for a finish reason; None for `error`, since ACP reports that as an error response."""
    if finish_reason == "error":
        return None
    return _STOP_REASONS.get(finish_reason, "end_turn")


class Projector:
    """One client's view of one turn, or of one stored message. Pass it every chunk from the first on.

    Args:
        starts_on_input: a call runs as soon as its arguments are complete. The built-in agent reports separately when a
            call starts (`data-tool-start`), because the user may have to permit it first.
        shows_compactions: the client announced `session.compaction`.
        is_hidden: whether calls of the tool with this name are left out, because they are shown in another way.
    """

    def __init__(
        self,
        *,
        starts_on_input: bool = True,
        shows_compactions: bool = False,
        is_hidden: Callable[[str], bool] = lambda tool_name: False,
    ) -> None:
        self.calls = ToolCallUpdates(starts_on_input=starts_on_input, is_hidden=is_hidden)
        self._compactions = CompactionUpdates(is_announced=shows_compactions)
        self.stop_reason: str | None = None
        self.error: str | None = None
        """The error the stream reported; the prompt is answered with it."""
        self._message_id: str | None = None
        self._passages = 0
        self._text_ids: dict[tuple[str, str], str] = {}
        self._shown_in_step: set[type[v1.SessionUpdate]] = set()
        calls = self.calls
        self._table: dict[type, Callable[[Any], Sequence[v1.SessionUpdate]]] = {
            c.Start: self._start,
            c.StartStep: self._start_step,
            c.ResetStep: self._reset_step,
            c.TextStart: lambda x: self._open("text", x.id),
            c.TextDelta: self._text,
            c.ReasoningStart: lambda x: self._open("reasoning", x.id),
            c.ReasoningDelta: self._reasoning,
            c.ToolInputStart: calls.input_start,
            c.ToolInputAvailable: calls.input_available,
            c.ToolInputError: calls.input_error,
            c.ToolApprovalRequest: calls.permission_asked,
            c.ToolApprovalResponse: calls.permission_answered,
            c.ToolOutputAvailable: calls.output,
            c.ToolOutputError: calls.error,
            c.ToolOutputDenied: calls.denied,
            c.SourceUrl: lambda x: (v1.AgentMessageChunk(v1.ResourceLink(x.title or x.url, x.url), self._own_id()),),
            c.SourceDocument: self._source_document,
            c.File: lambda x: (v1.AgentMessageChunk(file_block(x.url, x.media_type), self._own_id()),),
            c.ReasoningFile: lambda x: (v1.AgentThoughtChunk(file_block(x.url, x.media_type), self._own_id()),),
            c.SteeringMessage: self._steering,
            c.Data: self._data,
            c.ErrorChunk: self._failure,
            c.Abort: self._abort,
            c.Finish: self._finish,
        }
        self._data_table: dict[str, Callable[[Any], Sequence[v1.SessionUpdate]]] = {
            "plan": self._plan,
            "usage": self._usage,
            "title": lambda data: (v1.SessionInfoUpdate(title=sentence(_member(data, "title"))),),
            "mode": lambda data: (v1.CurrentModeUpdate(_member(data, "mode_id", "modeId")),),
            "commands": self._commands,
            "notice": self._notice,
            "limit": self._limit,
            "compaction": self._compactions.project,
            "tool-start": lambda data: calls.start(_member(data, "tool_call_id", "toolCallId")),
            "tool-preview": calls.preview,
            "tool-display": calls.show,
        }

    def project(self, chunk: c.Chunk) -> Sequence[v1.SessionUpdate]:
        """Return the updates this chunk makes, in order. A chunk of an unknown type makes none."""
        started = self.calls.settle(chunk)
        projected = self._table.get(type(chunk))
        updates = () if projected is None else projected(chunk)
        return [*started, *updates] if started else updates

    def settle(self) -> Sequence[v1.SessionUpdate]:
        """Return the updates for what only a pause of the stream shows: calls that run by now.

        To be called when it rests.
        """
        return self.calls.settle()

    @property
    def open_questions(self) -> tuple[c.ToolApprovalRequest, ...]:
        """Permission questions without an answer. A stream that ended with some has to be continued with the answers;
        its turn is not over, and `stop_reason` is None."""
        return self.calls.open_questions

    @staticmethod
    def user_message(message: UIMessage) -> list[v1.SessionUpdate]:
        """Return a message of the user, as a loaded session repeats it."""
        return [v1.UserMessageChunk(block, message.id) for block in blocks_of(message.parts)]

    # Messages

    def _start(self, chunk: c.Start) -> Sequence[v1.SessionUpdate]:
        if chunk.message_id:
            self._message_id, self._passages = chunk.message_id, 0
        return ()

    def _start_step(self, chunk: c.StartStep) -> Sequence[v1.SessionUpdate]:
        self._shown_in_step.clear()
        return ()

    def _open(self, kind: str, id: str) -> Sequence[v1.SessionUpdate]:
        """Begin a passage: each is a message of its own for the client, so that text after a tool call stands below it.

        Passages are numbered in the order they begin, so that a replay gives the same ids.
        """
        self._passages += 1
        if self._message_id is not None:
            self._text_ids[kind, id] = f"{self._message_id}.{self._passages}"
        return ()

    def _own_id(self) -> str | msgspec.UnsetType:
        return UNSET if self._message_id is None else f"{self._message_id}.{self._passages}"

    def _text(self, chunk: c.TextDelta) -> Sequence[v1.SessionUpdate]:
        if not chunk.delta:
            return ()
        self._shown_in_step.add(v1.AgentMessageChunk)
        message_id = self._text_ids.get(("text", chunk.id), UNSET)
        return (v1.AgentMessageChunk(v1.TextContent(chunk.delta), message_id),)

    def _reasoning(self, chunk: c.ReasoningDelta) -> Sequence[v1.SessionUpdate]:
        if not chunk.delta:
            return ()
        self._shown_in_step.add(v1.AgentThoughtChunk)
        message_id = self._text_ids.get(("reasoning", chunk.id), UNSET)
        return (v1.AgentThoughtChunk(v1.TextContent(chunk.delta), message_id),)

    def _source_document(self, chunk: c.SourceDocument) -> Sequence[v1.SessionUpdate]:
        name = f"{chunk.title} ({chunk.filename})" if chunk.filename else chunk.title
        return (v1.AgentMessageChunk(v1.TextContent(f"[{name}]"), self._own_id()),)

    def _steering(self, chunk: c.SteeringMessage) -> Sequence[v1.SessionUpdate]:
        texts = [part.get("text") for part in chunk.parts if isinstance(part, dict) and part.get("type") == "text"]
        return [v1.UserMessageChunk(v1.TextContent(text), chunk.id) for text in texts if isinstance(text, str)]

    def _reset_step(self, chunk: c.ResetStep) -> Sequence[v1.SessionUpdate]:
        """Say that the first answer is void, in a message between the two: version 1 cannot take text back."""
        ends = self.calls.end_all(DISCARDED)
        shown, self._shown_in_step = self._shown_in_step, set()
        id = UNSET if self._message_id is None else f"{self._message_id}.{self._passages}.reset"
        if v1.AgentMessageChunk in shown:
            # Many clients join all text, whatever its message is; so the paragraphs are in the text.
            return [*ends, v1.AgentMessageChunk(v1.TextContent(f"\n\n[{BROKEN_OFF}]\n\n"), id)]
        if v1.AgentThoughtChunk in shown:
            return [*ends, v1.AgentThoughtChunk(v1.TextContent(f"\n\n[{BROKEN_OFF}]\n\n"), id)]
        return ends

    # Data parts

    def _data(self, chunk: c.Data) -> Sequence[v1.SessionUpdate]:
        projected = self._data_table.get(chunk.name)
        if projected is None:
            return ()
        try:
            return projected(chunk.data)
        except (KeyError, TypeError, ValueError, AttributeError):
            return ()  # data of another producer under one of these names

    def _plan(self, data: Any) -> Sequence[v1.SessionUpdate]:
        entries = [
            v1.PlanEntry(sentence(entry["content"]), entry.get("priority", "medium"), entry.get("status", "pending"))
            for entry in data["entries"]
        ]
        return (v1.Plan(entries),)

    def _usage(self, data: Any) -> Sequence[v1.SessionUpdate]:
        """Show the usage, unless the size of the context window is unknown."""
        used, size = data.get("used"), data.get("size")
        if not isinstance(used, int) or not isinstance(size, int):
            return ()
        cost = data.get("cost_usd")
        return (v1.UsageUpdate(used, size, UNSET if cost is None else v1.Cost(float(cost), "USD")),)

    def _commands(self, data: Any) -> Sequence[v1.SessionUpdate]:
        commands = [
            v1.AvailableCommand(
                entry["name"],
                entry["description"],
                v1.UnstructuredCommandInput(entry["hint"]) if entry.get("hint") else UNSET,
            )
            for entry in data["commands"]
        ]
        return (v1.AvailableCommandsUpdate(commands),)

    def _notice(self, data: Any) -> Sequence[v1.SessionUpdate]:
        description = data.get("description", UNSET)
        shown = plain(description) if isinstance(description, str) else description
        return (v1.Notice(data.get("severity", "info"), sentence(data["title"]), shown),)

    # Ends

    def _limit(self, data: Any) -> Sequence[v1.SessionUpdate]:
        self.stop_reason = LIMITS.get(_member(data, "limit"), "end_turn")
        return ()

    def _failure(self, chunk: c.ErrorChunk) -> Sequence[v1.SessionUpdate]:
        self.error = chunk.error_text
        return ()

    def _abort(self, chunk: c.Abort) -> Sequence[v1.SessionUpdate]:
        self.stop_reason, self.error = "cancelled", None
        return [*self._compactions.end_all(), *self.calls.end_all("cancelled")]

    def _finish(self, chunk: c.Finish) -> Sequence[v1.SessionUpdate]:
        if self.open_questions:
            return ()
        if self.stop_reason is None and chunk.finish_reason is not UNSET:
            self.stop_reason = stop_reason_of(chunk.finish_reason)
        elif self.stop_reason is None and self.error is None:
            self.stop_reason = "end_turn"
        return ()


def _member(data: Any, *names: str) -> str:
    for name in names:
        if isinstance(data.get(name), str):
            value: str = data[name]
            return value
    raise KeyError(names[0])


class CompactionUpdates:
    """What a client is shown of the compactions of one turn or of one stored message.

    Clients that announced them (rule 63) get the protocol's own updates, the others a line that can be read and the
    summary as a tool call of kind `think`, which clients show collapsed.

    Args:
        is_announced: the client understands `compaction_update`.
    """

    def __init__(self, *, is_announced: bool) -> None:
        self._is_announced = is_announced
        self._open: str | None = None

    def project(self, data: Any) -> Sequence[v1.SessionUpdate]:
        """Return the updates for one state of a compaction. A stored one has only its end."""
        id, status = data["id"], data.get("status", "completed")
        is_new = self._open != id
        self._open = id if status == "in_progress" else None
        if status == "in_progress":
            return self._begin(id)
        if status == "completed":
            return self._end(id, data, is_new=is_new)
        return self._fail(id, status, str(data.get("error", "")), is_new=is_new)

    def end_all(self) -> Sequence[v1.SessionUpdate]:
        """End a compaction that ran when the turn was cancelled; the conversation is as it was."""
        id, self._open = self._open, None
        return () if id is None else self._fail(id, "cancelled", "", is_new=False)

    def _begin(self, id: str) -> Sequence[v1.SessionUpdate]:
        if self._is_announced:
            return (v1.CompactionUpdate(id, "in_progress"),)
        return (v1.ToolCall(id, _TITLE, kind="think", status="in_progress"),)

    def _end(self, id: str, data: Any, *, is_new: bool) -> Sequence[v1.SessionUpdate]:
        before, after, summary = data.get("tokens_before"), data.get("tokens_after"), data.get("summary")
        meta = {"dragoman": {"tokensBefore": before, "tokensAfter": after, "madeBy": data.get("made_by", "model")}}
        text = v1.TextContent(summary) if isinstance(summary, str) and summary else None
        if self._is_announced:
            if is_new:
                return (v1.CompactionUpdate(id, "completed", UNSET if text is None else [text], meta=meta),)
            chunk = () if text is None else (v1.CompactionSummaryChunk(id, text),)
            return (*chunk, v1.CompactionUpdate(id, "completed", meta=meta))
        line = f"The conversation was shortened: about {before or 0:,} → {after or 0:,} tokens"
        content = UNSET if text is None else [v1.Content(text)]
        call: v1.SessionUpdate
        if is_new:
            call = v1.ToolCall(id, _TITLE, kind="think", status="completed", content=content)
        else:
            call = v1.ToolCallUpdate(id, status="completed", content=content)
        return (call, v1.AgentThoughtChunk(v1.TextContent(line), f"{id}.line"))

    def _fail(self, id: str, status: str, error: str, *, is_new: bool) -> Sequence[v1.SessionUpdate]:
        if self._is_announced:
            return (v1.CompactionUpdate(id, status, error=error or UNSET),)
        content = [v1.Content(v1.TextContent(error or status))]
        if is_new:
            return (v1.ToolCall(id, _TITLE, kind="think", status="failed", content=content),)
        return (v1.ToolCallUpdate(id, status="failed", content=content),)
