"""Tool calls, upserted in whatever order an agent tells of them (rules 242, 244).

Real agents update ids they never announced, announce an id twice, or name a tool call only when they ask for
permission. Each value is frozen: a change puts a new one in the mapping and at the old one's place in the timeline.
Does not judge permissions and does not know what a tool does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from dragoman.schema import UNSET
from dragoman.schema.v1 import ToolCall
from dragoman.state.messages import close_open

if TYPE_CHECKING:
    from typing import Any, Final

    from dragoman.schema.v1 import ToolCallContent, ToolCallLocation, ToolCallPatch, ToolCallStatus, ToolKind
    from dragoman.state.session import SessionState

FINISHED: Final = frozenset({"completed", "failed"})


class ToolCallState(Struct, frozen=True):
    """One tool call as far as it is known; compare by identity to see whether it changed."""

    id: str
    position: int  # in the timeline
    turn: int | None = None  # index of the turn in which it was first heard of
    title: str = ""
    name: str | None = None
    kind: ToolKind = "other"
    status: ToolCallStatus = "pending"
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    meta: dict[str, Any] | None = None
    is_cancelled: bool = False
    revision: int = 1

    @property
    def is_finished(self) -> bool:
        """The agent said how it ended."""
        return self.status in FINISHED

    @property
    def is_running(self) -> bool:
        """More is to come: neither finished nor cut off by a cancelled turn."""
        return not self.is_cancelled and self.status not in FINISHED


def fold_tool_call(state: SessionState, call: ToolCall | ToolCallPatch) -> None:
    upsert(state, call)


def upsert(state: SessionState, call: ToolCall | ToolCallPatch) -> ToolCallState:
    known = state._tools.get(call.tool_call_id)
    if known is None or (type(call) is ToolCall and _is_over(state, known)):
        close_open(state)
        known = ToolCallState(call.tool_call_id, len(state._timeline), state._turn_index)
        state._timeline.append(known)
        changes = _changes(call)
        if state._late is not None and changes.get("status") not in FINISHED:
            changes["is_cancelled"] = True  # begun by a turn that is over
    else:
        changes = _changes(call)
        changes["revision"] = known.revision + 1
        # "completed" proves that a cancel came too late; after "failed" it is the likely reason.
        if changes.get("status") == "completed":
            changes["is_cancelled"] = False
    return _put(state, replace(known, **changes))


def cancel_unfinished(state: SessionState, start: int) -> None:
    """Mark what is unfinished from this place of the timeline on (rule 193); no wire status is made up (241)."""
    for item in state._timeline[start:]:
        if type(item) is ToolCallState and item.is_running:
            _put(state, replace(item, is_cancelled=True, revision=item.revision + 1))


def fail_unfinished(state: SessionState) -> None:
    """The agent is lost, and with it everything it worked on, in the background too."""
    for call in list(state._tools.values()):
        if call.is_running:
            _put(state, replace(call, status="failed", revision=call.revision + 1))


def _put(state: SessionState, call: ToolCallState) -> ToolCallState:
    state._tools[call.id] = call
    state._timeline[call.position] = call
    return call


def _is_over(state: SessionState, known: ToolCallState) -> bool:
    """Whether an announcement is a new call under an old id: some agents number their calls anew in each turn."""
    return state._running is not None and known.turn != state._turn_index and not known.is_running


def _changes(call: ToolCall | ToolCallPatch) -> dict[str, Any]:
    # Of all updates of v1 only session_info_update can take something back: here null is "nothing to say". Most
    # updates carry one or two members, so the members are asked one by one and nothing is built for the others.
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
