"""The tool calls of a session, upserted in whatever order an agent reports them (rules 242, 244).

Real agents update ids they never announced, announce an id twice, or mention a tool call only when they request
permission. Each value is frozen: a change puts a new one in the mapping and at the old one's place in the timeline.
Does not decide on permissions and does not know what a tool does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from dragoman.schema import UNSET
from dragoman.schema.v1 import ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

    from dragoman.schema.v1 import ToolCallContent, ToolCallLocation, ToolCallPatch, ToolCallStatus, ToolKind
    from dragoman.state.messages import Messages
    from dragoman.state.timeline import Timeline
    from dragoman.state.turns import Turns

FINISHED: Final = frozenset({"completed", "failed", "cancelled"})  # version 1 has no status for the last one


class ToolCallState(Struct, frozen=True):
    """One tool call as far as it is known; compare by identity to see whether it changed."""

    id: str
    position: int  # in the timeline
    turn: int | None = None  # index of the turn in which it was first reported
    title: str = ""
    name: str | None = None
    kind: ToolKind = "other"
    status: ToolCallStatus = "pending"
    content: Sequence[ToolCallContent] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    meta: dict[str, Any] | None = None
    is_cancelled: bool = False
    can_cancel: bool = False  # by itself, see `Session.cancel_tool`; agents of version 2 report it
    revision: int = 1

    @property
    def is_finished(self) -> bool:
        """The agent reported how it ended."""
        return self.status in FINISHED

    @property
    def is_running(self) -> bool:
        """Neither finished nor ended by a cancelled turn."""
        return not self.is_cancelled and self.status not in FINISHED


class ToolCalls:
    """All tool calls of a session, by id."""

    __slots__ = ("_messages", "_timeline", "_turns", "by_id")

    def __init__(self, timeline: Timeline, messages: Messages, turns: Turns) -> None:
        self._timeline = timeline
        self._messages = messages
        self._turns = turns
        self.by_id: dict[str, ToolCallState] = {}

    def fold(self, call: ToolCall | ToolCallPatch) -> ToolCallState:
        """Add the tool call, or change the one that has this id."""
        return self.change(call.tool_call_id, _changes(call), is_announced=type(call) is ToolCall)

    def change(self, call_id: str, changes: dict[str, Any], *, is_announced: bool = False) -> ToolCallState:
        """Change members of the tool call that has this id; a new one begins with them.

        Args:
            changes: The new values by the names of `ToolCallState`.
            is_announced: It is a new tool call, even if one that is over has the same id.
        """
        known = self.by_id.get(call_id)
        if known is None or (is_announced and self._is_over(known)):
            self._messages.close()
            known = ToolCallState(call_id, len(self._timeline), self._turns.current_index)
            self._timeline.append(known)
            if self._turns.late is not None and changes.get("status") not in FINISHED:
                changes["is_cancelled"] = True  # begun by a turn that is over
        else:
            changes["revision"] = known.revision + 1
            # "completed" proves that a cancel came too late; after "failed" it is the likely reason.
            if changes.get("status") == "completed":
                changes["is_cancelled"] = False
        return self._put(replace(known, **changes))

    def cancel_unfinished(self, start: int) -> None:
        """Mark what is unfinished from this position of the timeline on (rule 193); its status stays (241)."""
        for call in list(self.by_id.values()):
            if call.position >= start and call.is_running:
                self._put(replace(call, is_cancelled=True, revision=call.revision + 1))

    def fail_unfinished(self) -> None:
        """Mark all unfinished calls, those in the background too, as failed: the agent is lost."""
        for call in list(self.by_id.values()):
            if call.is_running:
                self._put(replace(call, status="failed", revision=call.revision + 1))

    def _put(self, call: ToolCallState) -> ToolCallState:
        self.by_id[call.id] = call
        self._timeline.put(call.position, call)
        return call

    def _is_over(self, call: ToolCallState) -> bool:
        """Whether an announcement is a new call with an old id: some agents start to count again in each turn."""
        turns = self._turns
        return turns.running is not None and call.turn != turns.current_index and not call.is_running


def _changes(call: ToolCall | ToolCallPatch) -> dict[str, Any]:
    # Of all updates of v1 only session_info_update can clear a member: here null means "not changed". Most updates
    # carry one or two members, so the members are tested one by one and nothing is built for the others.
    changes: dict[str, Any] = {}
    if call.title:
        changes["title"] = call.title
    if call.name:
        changes["name"] = call.name
    if call.kind:
        changes["kind"] = call.kind
    if call.status:
        changes["status"] = call.status
    if call.content is not UNSET and call.content is not None:
        changes["content"] = tuple(call.content)
    if call.locations is not UNSET and call.locations is not None:
        changes["locations"] = tuple(call.locations)
    # Any JSON value, null among them (rule 249).
    if call.raw_input is not UNSET:
        changes["raw_input"] = call.raw_input
    if call.raw_output is not UNSET:
        changes["raw_output"] = call.raw_output
    if call.meta:
        changes["meta"] = call.meta
    return changes
