"""A session that goes on from another one, at a message.

Owns what a fork takes along and when there can be none: not while its parent is in the middle of a turn. Both live on
by themselves afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from dragoman.builtin.context.titles import TITLE_BY
from dragoman.builtin.session import Host
from dragoman.errors import INVALID_REQUEST, RequestError
from dragoman.store.ids import new_id

if TYPE_CHECKING:
    from dragoman.schema import v1
    from dragoman.store.sessions import SessionRow, Store


async def fork(store: Store, source: SessionRow, host: Host | None, params: v1.ForkSessionRequest) -> SessionRow:
    """The new session's row. `host` is the source's, if it is open here.

    `_meta.dragoman.messageId` names the last message that is taken along, in the form clients know: the user's, or any
    passage of the agent's. Raises: RequestError, StoreError.
    """
    if host is None:
        host = await Host.open(store, source)  # ends what a crash left open
    if host.is_running:
        raise RequestError(INVALID_REQUEST, "A prompt is running in this session", {"sessionId": source.id})
    row = structs.replace(
        source,
        id=new_id("ses"),
        cwd=params.cwd,
        directories=tuple(params.additional_directories or ()),
        title=f"{source.title} (fork)" if source.title else None,
        parent_id=source.id,
        metadata={name: value for name, value in source.metadata.items() if name != TITLE_BY},
        created_at="",
    )
    return await store.fork_session(row, until=_message_id(host, params.meta))


def _message_id(host: Host, meta: Any) -> str | None:
    own = meta.get("dragoman") if isinstance(meta, Mapping) else None
    wanted = own.get("messageId") if isinstance(own, Mapping) else None
    if wanted is None:
        return None
    for message in host.history:
        # Each passage of the agent's message is a message of its own for clients: `ID.1`, `ID.2`.
        if isinstance(wanted, str) and wanted.partition(".")[0] == message.id:
            return message.id
    raise RequestError.invalid_params("The session has no such message", path="$._meta.dragoman.messageId")
