"""Tool calls: announced, perhaps permitted, run, finished.

Owns the life of one tool call, which always ends in `completed` or `failed`, and the content shown in it: an update
replaces the content on the wire (rule 242), so the handle keeps it and sends it whole.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dragoman.agent.permission import Permission, ask_permission
from dragoman.agent.terminals import TerminalHandle
from dragoman.errors import LocalProtocolError
from dragoman.schema import UNSET, v1

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from msgspec import UnsetType

    from dragoman.agent.session import AgentSession
    from dragoman.agent.turn import Turn
    from dragoman.agent.values import ToolKindValue, ToolStatusValue

_OVER = frozenset({"completed", "failed"})


class ToolCallHandle:
    """A tool call that was announced to the client; its methods send updates of it."""

    __slots__ = ("_sent", "_shown", "_turn")

    def __init__(self, turn: Turn, call: v1.ToolCall) -> None:
        self._turn = turn
        # Everything that was sent about the call so far; a permission request repeats it.
        self._sent = as_patch(call)
        self._shown: list[v1.ToolCallContent | TerminalHandle] = []

    @property
    def id(self) -> str:
        """The tool call's id, unique in its session."""
        return self._sent.tool_call_id

    @property
    def status(self) -> str:
        """`pending`, `in_progress`, `completed` or `failed`."""
        return self._sent.status or "pending"

    async def update(
        self,
        *,
        title: str | UnsetType = UNSET,
        kind: ToolKindValue | UnsetType = UNSET,
        status: ToolStatusValue | UnsetType = UNSET,
        content: Iterable[v1.ToolCallContent | v1.ContentBlock | str] | UnsetType = UNSET,
        locations: Iterable[str | os.PathLike[str] | v1.ToolCallLocation] | UnsetType = UNSET,
        raw_input: Any = UNSET,
        raw_output: Any = UNSET,
    ) -> None:
        """Send what changed; what is not given stays as it is.

        Args:
            content: Everything the call shows from now on, in place of what it showed.
            locations: The files the call works on, in place of the former ones. A relative path starts at `cwd`.
            raw_input: The tool's arguments, as JSON data.
            raw_output: The tool's result, as JSON data.
        """
        changes: dict[str, Any] = {}
        for name, value in (("title", title), ("kind", kind), ("status", status)):
            if value is not UNSET:
                changes[name] = value
        if content is not UNSET:
            self._shown = [_as_content(item) for item in content]
            changes["content"] = self._rendered()
        if locations is not UNSET:
            changes["locations"] = as_locations(self._turn.session, locations)
        if raw_input is not UNSET:
            changes["raw_input"] = raw_input
        if raw_output is not UNSET:
            changes["raw_output"] = raw_output
        await self._send(changes)

    async def text(self, text: str) -> None:
        """Add a piece of text to what the call shows."""
        await self.add(text)

    async def diff(self, path: str | os.PathLike[str], old: str | None, new: str) -> None:
        """Add the change of a file; `old` is None for a new one. A relative path starts at the session's `cwd`."""
        await self.add(v1.Diff(self._turn.session.path(path), new, old))

    async def show(self, terminal: TerminalHandle) -> None:
        """Add a terminal: live where the client runs it, its output as text where this process does.

        Raises: LocalProtocolError for a terminal that was released already (rule 251).
        """
        if terminal.is_released:
            raise LocalProtocolError("show a terminal before it is released, so that the client can keep its output")
        self._shown.append(terminal)
        await self._send({"content": self._rendered()})

    async def add(self, item: v1.ToolCallContent | v1.ContentBlock | str) -> None:
        """Add anything else a tool call can show; what was shown stays."""
        self._shown.append(_as_content(item))
        await self._send({"content": self._rendered()})

    async def start(self) -> None:
        """Mark a pending call as in progress."""
        if self.status == "pending":
            await self._send({"status": "in_progress"})

    async def ask(self, options: Sequence[v1.PermissionOption] | None = None) -> Permission:
        """Ask the user for permission for this call. A yes starts it (rule 188); a no ends it as failed.

        Args:
            options: What the user can choose from; by default to allow or to reject once.
        """
        permission = await ask_permission(self._turn.session, self._sent, options)
        if permission.allowed:
            await self.start()
        else:
            await self.update(status="failed")
        return permission

    def _finish(self, status: str) -> bool:
        """End the call if it has not ended. Synchronous, so that a cancelled task can still do it; True: breathe."""
        if self.status in _OVER:
            return False
        changes: dict[str, Any] = {"status": status}
        if any(isinstance(item, TerminalHandle) and not item.is_live for item in self._shown):
            changes["content"] = self._rendered()
        return self._submit(changes)

    async def _send(self, changes: dict[str, Any]) -> None:
        if self._submit(changes):
            await self._turn._breathe()

    def _submit(self, changes: dict[str, Any]) -> bool:
        must_breathe = self._turn._submit(v1.ToolCallUpdate(self.id, **changes))
        self._sent = replace(self._sent, **changes)
        return must_breathe

    def _rendered(self) -> list[v1.ToolCallContent]:
        return [item._shown() if isinstance(item, TerminalHandle) else item for item in self._shown]


@asynccontextmanager
async def run_tool(turn: Turn, call: v1.ToolCall, *, starts: bool) -> AsyncIterator[ToolCallHandle]:
    """Announce `call`, and complete or fail it at the end of the body."""
    must_breathe = turn._submit(call)
    handle = ToolCallHandle(turn, call)
    try:
        if must_breathe:
            await turn._breathe()
        if starts:
            await handle.start()
        yield handle
    except BaseException:
        # v1 has no status for a cancelled call (rule 241). The turn may be over by now if a task outlived it.
        with suppress(LocalProtocolError, asyncio.CancelledError):
            handle._finish("failed")
        raise
    if handle._finish("completed"):
        await turn._breathe()


async def ask(
    turn: Turn,
    subject: str | ToolCallHandle | v1.ToolCall | v1.ToolCallPatch,
    options: Sequence[v1.PermissionOption] | None,
) -> Permission:
    """Ask for permission for a tool call, and announce the call first if the client does not know it (rule 243)."""
    if isinstance(subject, ToolCallHandle):
        return await subject.ask(options)
    if isinstance(subject, str):
        async with turn.tool(subject, start=False) as handle:
            return await handle.ask(options)
    if isinstance(subject, v1.ToolCall):
        await turn.update(subject)
    return await ask_permission(turn.session, as_patch(subject), options)


def new_tool_call(session: AgentSession, title: str, **members: Any) -> v1.ToolCall:
    """Make a pending call with a random id: a loaded session keeps the ids of its history, so a counter could repeat
    one.
    """
    members["locations"] = as_locations(session, members["locations"]) or UNSET
    return v1.ToolCall(members.pop("id") or f"call_{os.urandom(8).hex()}", title, status="pending", **members)


def as_patch(call: v1.ToolCall | v1.ToolCallPatch) -> v1.ToolCallPatch:
    """Return the same members without the tag of an update."""
    return v1.ToolCallPatch(**{name: getattr(call, name) for name in v1.ToolCallPatch.__struct_fields__})


def as_locations(
    session: AgentSession, locations: Iterable[str | os.PathLike[str] | v1.ToolCallLocation]
) -> list[v1.ToolCallLocation]:
    """Return locations with absolute paths."""
    return [
        replace(place, path=session.path(place.path))
        if isinstance(place, v1.ToolCallLocation)
        else v1.ToolCallLocation(session.path(place))
        for place in locations
    ]


def _as_content(item: v1.ToolCallContent | v1.ContentBlock | str) -> v1.ToolCallContent:
    if type(item) is v1.Diff:  # a growing diff is sent again and again
        return item
    if isinstance(item, str):
        return v1.Content(v1.TextContent(item))
    return v1.Content(item) if isinstance(item, v1.ContentBlock) else item
