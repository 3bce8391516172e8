"""What a client is shown: projected chunks as updates that this client can take, and stored messages.

Owns the forms for clients that lack a kind of update. `uistream/updates.py` makes the updates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman.schema import v1
from dragoman.store.ids import new_id
from dragoman.text.terminal import plain
from dragoman.uistream import chunks as c
from dragoman.uistream.unfold import replay
from dragoman.uistream.updates import Projector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.agent import AgentSession, RemoteClient
    from dragoman.agent.updates import UpdateSender
    from dragoman.uistream.messages import UIMessage


def projector_for(client: RemoteClient) -> Projector:
    """Return a projector for a turn that is shown to this client."""
    return Projector(shows_compactions=client.offers("session.compaction"))


async def show_updates(
    session: AgentSession, updates: Sequence[v1.SessionUpdate], sender: UpdateSender | None = None
) -> None:
    """Send updates in order. What this client cannot take is left out; a notice becomes a line of thought."""
    if not updates:
        return
    shown = [
        form_of(session, update) if isinstance(update, v1.Notice) else _with_paths(session, update)
        for update in updates
    ]
    await (sender or session).update_all(shown)


def form_of(session: AgentSession, notice: v1.Notice) -> v1.SessionUpdate:
    """Return the notice, or a line of thought if this client cannot show notices."""
    return notice if session.client.offers("session.notices") else _as_thought(notice)


def stored_updates(message: UIMessage, client: RemoteClient) -> list[v1.SessionUpdate]:
    """Return the updates that repeat one message (rule 107)."""
    if message.role == "user":
        return Projector.user_message(message)
    projector = projector_for(client)
    updates = [update for chunk in replay(message) for update in projector.project(_without_terminal(chunk))]
    updates += projector.calls.end_all("interrupted")
    if projector.error is not None:
        failed = v1.TextContent(f"\n\n[The turn failed: {plain(projector.error)}]\n\n")
        updates.append(v1.AgentMessageChunk(failed, f"{message.id}.error"))
    return updates


def _as_thought(notice: v1.Notice) -> v1.AgentThoughtChunk:
    line = f"{notice.title}. {notice.description}" if notice.description else notice.title
    return v1.AgentThoughtChunk(v1.TextContent(f"{line}\n"), new_id("msg"))


def _with_paths(session: AgentSession, update: v1.SessionUpdate) -> v1.SessionUpdate:
    """Return the update with absolute paths (rules 246, 248): a source may name files relative to the session."""
    if not isinstance(update, (v1.ToolCall, v1.ToolCallUpdate)) or not (update.content or update.locations):
        return update
    content = [
        replace(item, path=session.path(item.path)) if isinstance(item, v1.Diff) else item
        for item in update.content or ()
    ]
    locations = [replace(place, path=session.path(place.path)) for place in update.locations or ()]
    return replace(update, content=content or update.content, locations=locations or update.locations)


def _without_terminal(chunk: c.Chunk) -> c.Chunk:
    """Return the chunk without a terminal of an earlier client; the text has its output."""
    if isinstance(chunk, c.ToolOutputAvailable) and isinstance(chunk.output, dict) and "terminal" in chunk.output:
        return replace(chunk, output={name: value for name, value in chunk.output.items() if name != "terminal"})
    return chunk
