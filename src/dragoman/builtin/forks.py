"""Forks of sessions: a new session that continues from a message of another.

Owns what a fork copies, and when it is refused: while a turn of its parent is running. Afterwards the two are
independent. Loaded with the first fork.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from dragoman.builtin.context.titles import TITLE_BY
from dragoman.errors import INVALID_REQUEST, RequestError
from dragoman.policy.modes import WIDEST_MODE
from dragoman.store.ids import new_id

if TYPE_CHECKING:
    from dragoman.builtin.session import OpenSession
    from dragoman.schema import v1
    from dragoman.store.sessions import SessionRow
    from dragoman.uistream.messages import UIMessage


async def fork(parent: OpenSession, params: v1.ForkSessionRequest) -> SessionRow:
    """Store the fork and return its row.

    `_meta.dragoman.messageId` names the last message that is copied, by the id that clients know: of a user message,
    or of any passage of the agent's. `_meta.dragoman.checkpoint` is the number of a turn, as `/rewind` lists them: what
    was before that turn is copied. Raises: RequestError, StoreError.
    """
    source = parent.row
    if parent.turn is not None:
        raise RequestError(INVALID_REQUEST, "A prompt is running in this session", {"sessionId": source.id})
    row = structs.replace(
        source,
        id=new_id("ses"),
        cwd=params.cwd,
        directories=tuple(params.additional_directories or ()),
        # The user chose to be asked about nothing in that session and its folder, not in this one.
        mode=parent.settings.mode if source.mode == WIDEST_MODE else source.mode,
        title=f"{source.title} (fork)" if source.title else None,
        parent_id=source.id,
        metadata={name: value for name, value in source.metadata.items() if name != TITLE_BY},
        created_at="",
    )
    return await parent.store.fork_session(row, until=await _message_id(parent, params.meta))


async def _message_id(parent: OpenSession, meta: Any) -> str | None:
    own = meta.get("dragoman") if isinstance(meta, Mapping) else None
    own = own if isinstance(own, Mapping) else {}
    if own.get("checkpoint") is not None:
        return await _before_checkpoint(parent, own["checkpoint"])
    wanted = own.get("messageId")
    if wanted is None:
        return None
    # For clients, each passage of the agent's message is a message of its own: `ID.1`, `ID.2`.
    message_id = wanted.partition(".")[0] if isinstance(wanted, str) else ""
    if await parent.store.has_message(parent.row.id, message_id):
        return message_id
    raise RequestError.invalid_params("The session has no such message", path="$._meta.dragoman.messageId")


async def _before_checkpoint(parent: OpenSession, wanted: Any) -> str:
    """Return the id of the last message before a turn; empty for the first turn."""
    from dragoman.builtin.checkpoints import past_turns

    history: list[UIMessage] = []
    async for page in parent.past.pages(parent.past.until):
        history += page
    history += parent.history
    turns = past_turns(history)
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 1 <= wanted <= len(turns):
        why = f"checkpoint must be the number of a turn, 1 to {len(turns)}"
        raise RequestError.invalid_params(why, path="$._meta.dragoman.checkpoint")
    position = turns[wanted - 1].position
    return history[position - 1].id if position else ""
