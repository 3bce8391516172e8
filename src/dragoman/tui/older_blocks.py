"""Blocks from before the state of a conversation begins, page by page from the host's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dragoman.schema import decode, v1
from dragoman.state import SessionState, fold

if TYPE_CHECKING:
    from dragoman.client import RemoteAgent


async def read_older(remote: RemoteAgent, session_id: str) -> tuple[SessionState, bool]:
    """The next page of a session's history, as a state of its own, and whether there is more before it.

    Raises: RequestError, ConnectionClosed.
    """
    found = await remote.request("_dragoman/history", {"sessionId": session_id})
    page = SessionState()
    for update in found.get("updates") or ():
        fold(page, decode(v1.SessionUpdate, msgspec.json.encode(update)))
    return page, found.get("hasMore") is True
