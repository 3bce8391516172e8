"""How each update of version 2 changes the session state.

Updates that say the same in version 1 are read as that (`reading.py`) and folded by the same parts. What version 2 adds
has steps of its own: messages as a whole, members of a tool call that are cleared, content added to one, terminals, and
what the session is doing. Loaded with the first such update: the types of version 2 are as large as those of version 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from dragoman.schema import UNSET, Unknown, v1, v2
from dragoman.state.messages import patched
from dragoman.state.terminals import AgentTerminals
from dragoman.state.version2.reading import read_blocks, read_locations, read_tool_content, read_update

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.state.info import Info
    from dragoman.state.messages import Messages
    from dragoman.state.tools import ToolCalls

_WHOLE: Final[dict[type, Any]] = {
    v2.UserMessage: v1.UserMessageChunk,
    v2.AgentMessage: v1.AgentMessageChunk,
    v2.AgentThought: v1.AgentThoughtChunk,
}
# What a cleared member of a tool call becomes.
_EMPTY: Final[dict[str, Any]] = {"title": "", "name": None, "kind": "other", "status": "pending"}
T_co = TypeVar("T_co", covariant=True)


class Version2State:
    """What the updates of version 2 change besides messages, tool calls and settings."""

    __slots__ = ("_info", "_messages", "_tool_calls", "activity", "background", "terminals")

    def __init__(self, messages: Messages, tool_calls: ToolCalls, info: Info) -> None:
        self._messages = messages
        self._tool_calls = tool_calls
        self._info = info
        self.terminals = AgentTerminals()
        self.activity: str = "idle"  # until the agent reports otherwise
        self.background: tuple[v2.BackgroundWork, ...] | None = None

    def steps(self, version1_steps: dict[type, Callable[[Any], object]]) -> dict[type, Callable[[Any], object]]:
        """Return the steps of all updates of version 2, given those of version 1."""

        def same(step: Callable[[Any], object]) -> Callable[[Any], object]:
            def read(update: Any) -> None:
                made = read_update(update)
                (version1_steps[Unknown] if isinstance(made, Unknown) else step)(made)

            return read

        return {
            v2.UserMessageChunk: same(self._messages.fold_named_user_chunk),
            v2.AgentMessageChunk: same(self._messages.fold_chunk),
            v2.AgentThoughtChunk: same(self._messages.fold_chunk),
            v2.UserMessage: self._fold_whole,
            v2.AgentMessage: self._fold_whole,
            v2.AgentThought: self._fold_whole,
            v2.SessionStateUpdate: self._fold_state,
            v2.ToolCallUpdate: self.fold_tool,
            v2.ToolCallPatch: self.fold_tool,
            v2.ToolCallContentChunk: self._fold_tool_content,
            v2.TerminalUpdate: self.terminals.fold,
            v2.TerminalOutputChunk: self.terminals.fold_chunk,
            v2.UsageUpdate: self._fold_usage,
            v2.PlanUpdate: same(version1_steps[v1.PlanUpdate]),
            v2.PlanRemoved: same(version1_steps[v1.PlanRemoved]),
            v2.AvailableCommandsUpdate: same(version1_steps[v1.AvailableCommandsUpdate]),
            v2.ConfigOptionUpdate: same(version1_steps[v1.ConfigOptionUpdate]),
            v2.SessionInfoUpdate: same(version1_steps[v1.SessionInfoUpdate]),
            v2.Notice: same(version1_steps[v1.Notice]),
            v2.CompactionUpdate: same(version1_steps[v1.CompactionUpdate]),
            v2.CompactionSummaryChunk: same(version1_steps[v1.CompactionSummaryChunk]),
            v2.SubagentUpdate: same(version1_steps[v1.SubagentUpdate]),
            v2.SessionMessage: same(version1_steps[v1.SessionMessage]),
            v2.SessionMessageChunk: same(version1_steps[v1.SessionMessageChunk]),
        }

    def _fold_whole(self, update: v2.UserMessage | v2.AgentMessage | v2.AgentThought) -> None:
        content = UNSET if update.content is UNSET else read_blocks(update.content)
        self._messages.fold_whole(_WHOLE[type(update)], update.message_id, content, update.meta)

    def _fold_state(self, update: v2.SessionStateUpdate) -> None:
        self.activity = update.state
        self.background = None if update.background in (UNSET, None) else tuple(update.background or ())

    def _fold_usage(self, update: v2.UsageUpdate) -> None:
        same = read_update(update)
        if isinstance(same, v1.UsageUpdate):
            self._info.fold_usage(same)
        if update.cost is None:
            self._info.cost = None

    def fold_tool(self, call: v2.ToolCallPatch) -> Any:
        """Change the members that are there: null clears one, a value replaces it."""
        changes: dict[str, Any] = {}
        for name, empty in _EMPTY.items():
            value = getattr(call, name)
            if value is not UNSET:
                changes[name] = empty if value is None else value
        if call.content is not UNSET:
            changes["content"] = tuple(made for item in call.content or () for made in read_tool_content(item))
        if call.locations is not UNSET:
            changes["locations"] = tuple(read_locations(call.locations))
        for name in ("raw_input", "raw_output"):
            value = getattr(call, name)
            if value is not UNSET:
                changes[name] = UNSET if value is None else value
        if call.capabilities is not UNSET:
            changes["can_cancel"] = bool(call.capabilities and call.capabilities.cancel)
        if call.meta is not UNSET:
            known = self._tool_calls.by_id.get(call.tool_call_id)
            changes["meta"] = patched(known.meta if known else None, call.meta)
        if "status" in changes:
            changes["is_cancelled"] = changes["status"] == "cancelled"
        return self._tool_calls.change(call.tool_call_id, changes)

    def _fold_tool_content(self, chunk: v2.ToolCallContentChunk) -> None:
        known = self._tool_calls.by_id.get(chunk.tool_call_id)
        content = known.content if known else ()
        if not isinstance(content, GrowingList):
            content = GrowingList(content)
        self._tool_calls.change(chunk.tool_call_id, {"content": content.grown(read_tool_content(chunk.content))})


class GrowingList(Sequence[T_co]):
    """The beginning of a list that others may have continued. It never changes; `grown` returns the next value."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[T_co] = ()) -> None:
        self._items: list[T_co] = list(items)
        self._length = len(self._items)

    def grown(self, more: Iterable[T_co]) -> GrowingList[T_co]:
        """Return this list with more items, which are copied only if another value was grown from this one before."""
        made: GrowingList[T_co] = GrowingList.__new__(GrowingList)
        made._items = self._items if self._length == len(self._items) else self._items[: self._length]
        made._items.extend(more)
        made._length = len(made._items)
        return made

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        if isinstance(index, slice):
            return tuple(self._items[place] for place in range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError("list index out of range")
        return self._items[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[T_co]:
        for index in range(self._length):
            yield self._items[index]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (GrowingList, tuple, list)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # its items are not hashable in general

    def __repr__(self) -> str:
        return f"GrowingList({self[:]!r})"
