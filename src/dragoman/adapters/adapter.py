"""What an adapter implements: one class per kind of source that is not an ACP agent.

Owns the interface. `AdapterAgent` (`agent.py`) serves an adapter to clients, `PromptContext` (`context.py`) is what a
run gets, `AdapterSession` (`session.py`) what belongs to one session. An adapter never sees JSON-RPC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dragoman.adapters.values import AdapterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from dragoman.adapters.context import PromptContext
    from dragoman.adapters.session import AdapterSession
    from dragoman.adapters.values import AskAnswer, Setting, WrappedSessionPage
    from dragoman.agent.handlers import Accepts, McpKind
    from dragoman.uistream.chunks import Chunk
    from dragoman.uistream.messages import UIMessage

Yielded: TypeAlias = "str | Chunk | Mapping[str, Any]"
"""What a run yields: text, a UI-message chunk, or a chunk as the JSON object of a UI-message stream."""


class Adapter:
    """The base class of all adapters. One object serves all sessions.

    `run` is required. Every other method is a feature: what a subclass overrides is offered to clients, what it does
    not override is not, or is supplied from the session store.
    """

    name: str = "wrapped"
    """The agent's name for programs. The store of its sessions is named after it."""
    title: str | None = None
    version: str = "0"
    accepts: Sequence[Accepts] = ("embedded_context",)
    """Kinds of prompt blocks next to text and links. Embedded text is part of `PromptContext.text`."""
    takes_mcp_servers: bool = False
    """Whether the MCP servers of the client are used. Otherwise a client that passes some is shown a notice."""
    mcp: Collection[McpKind] = ()
    """Kinds of MCP servers next to stdio."""
    cleanup_seconds: float | None = None
    """How long a run may take to clean up after a cancel; by default `turn.CLEANUP_SECONDS`."""
    uses_history: bool = False
    """Whether `PromptContext.history` is filled from the store. It costs reading it once per session."""

    # Turns

    def run(self, ctx: PromptContext) -> AsyncIterator[Yielded]:
        """Answer the prompt `ctx.blocks` (or `ctx.text`): an async generator of chunks, or of text.

        Permission has two shapes. Ask inside the run with `await ctx.ask(call, options)`; or yield
        `ToolApprovalRequest` chunks and end: the user is asked all of them, then `resume` continues the same turn.

        The generator is cancelled when the user cancels, and closed when it is left. What it raises ends the turn: an
        `AdapterError` with its own text, anything else with its type and text.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement run()")

    def resume(self, ctx: PromptContext, answers: Mapping[str, AskAnswer]) -> AsyncIterator[Yielded]:
        """Continue a turn whose last run ended with questions. `answers` has all of them, by `approval_id`.

        Labels and scopes of the options are passed with `ctx.offer(approval_id, options)` in the run before.
        """
        raise AdapterError(f"{self.title or self.name} asked for permission and cannot be continued with the answer")

    async def steer(self, session: AdapterSession, text: str) -> bool:
        """Pass text of the user to the running turn. False if it came too late; it is then prompted instead."""
        raise NotImplementedError

    # Sessions

    async def open(self, session: AdapterSession) -> None:
        """Open a session for a client: a new one, or one to continue (`session.how`).

        `session.metadata`, which must be JSON, is stored after each turn. An adapter with sessions of its own sets
        `session.id` for a new one. Raises: AdapterError.
        """

    async def close_session(self, session: AdapterSession) -> None:
        """Close a session: it was closed, its client is gone, or it is opened again. It may be opened later."""

    async def close(self) -> None:
        """End when the last connection has ended, after `close_session` for each session."""

    # Settings

    def settings(self, session: AdapterSession) -> Sequence[Setting]:
        """Return what the user can choose for a session, with the current values; called after `open` and changes."""
        raise NotImplementedError

    async def choose(self, session: AdapterSession, setting_id: str, value: str | bool) -> None:
        """Take the value that the user chose of those offered. Raises: AdapterError to refuse it."""
        raise NotImplementedError

    # For sources that keep their own sessions. Without `sessions` and `history` the session store is used.

    async def sessions(self, cwd: str | None, cursor: str | None) -> WrappedSessionPage:
        """Return one page of the source's sessions, only those of `cwd` if it is given."""
        raise NotImplementedError

    def history(self, session: AdapterSession) -> AsyncIterator[UIMessage]:
        """Return the messages of a session that is loaded, the oldest first. Called after `open`."""
        raise NotImplementedError

    async def delete(self, session_id: str) -> None:
        """Delete a session of the source. One that does not exist is not an error."""
        raise NotImplementedError

    async def fork(self, session: AdapterSession, source_id: str) -> None:
        """Open `session` as a copy of another one, and set its id."""
        raise NotImplementedError


def has_feature(adapter: Adapter, name: str) -> bool:
    """Return whether the adapter implements an optional method."""
    return getattr(type(adapter), name) is not getattr(Adapter, name) or name in vars(adapter)


def keeps_sessions(adapter: Adapter) -> bool:
    """Return whether the source has sessions of its own, so that none are stored here."""
    return has_feature(adapter, "sessions") or has_feature(adapter, "history")
