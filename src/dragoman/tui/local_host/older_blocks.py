"""Blocks from before the state of a conversation begins, page by page from the host's log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.schema import decode, v1
from dragoman.state import SessionState, fold

if TYPE_CHECKING:
    from dragoman.client import RemoteAgent
    from dragoman.tui.conversation import HostedConversation

TAIL_EVENTS: Final = 4_000
"""Of a session that is opened: what was before them comes when the user scrolls to it."""
MOST_ITEMS: Final = 6_000
"""Of a session that grows: then it is opened again, with its end only."""


def is_too_long(talk: HostedConversation) -> bool:
    """Whether a state has more than a client needs to keep, and nothing is going on."""
    return (
        len(talk.state.timeline) > MOST_ITEMS
        and talk.phase == "ready"
        and not (talk.prompts or talk.questions or talk.is_running)
    )


async def read_older(remote: RemoteAgent, session_id: str) -> tuple[SessionState, bool]:
    """The next page of a session's history, as a state of its own, and whether there is more before it.

    Raises: RequestError, ConnectionClosed.
    """
    found = await remote.request("_dragoman/history", {"sessionId": session_id})
    page = SessionState()
    for update in found.get("updates") or ():
        fold(page, decode(v1.SessionUpdate, msgspec.json.encode(update)))
    return page, found.get("hasMore") is True
