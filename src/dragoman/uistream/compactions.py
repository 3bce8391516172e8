"""What a client is shown of a compaction: the conversation was shortened and a part of it replaced by a summary.

Owns both forms: the protocol's own updates for clients that announced them (rule 63), and for the others a line that
can be read and the summary as a tool call of kind `think`, which clients show collapsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Sequence

_TITLE: Final = "Shorten the conversation"


class CompactionUpdates:
    """The compactions of one turn or of one stored message.

    Args:
        is_announced: the client understands `compaction_update`.
    """

    def __init__(self, *, is_announced: bool) -> None:
        self._is_announced = is_announced
        self._open: str | None = None

    def project(self, data: Any) -> Sequence[v1.SessionUpdate]:
        """The updates for one state of a compaction. A stored one has only its end."""
        id, status = data["id"], data.get("status", "completed")
        is_new = self._open != id
        self._open = id if status == "in_progress" else None
        if status == "in_progress":
            return self._begin(id)
        if status == "completed":
            return self._end(id, data, is_new=is_new)
        return self._fail(id, status, str(data.get("error", "")), is_new=is_new)

    def end_all(self) -> Sequence[v1.SessionUpdate]:
        """The turn was cancelled while a compaction ran; the conversation is as it was."""
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
