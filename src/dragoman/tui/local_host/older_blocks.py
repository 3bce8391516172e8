"""Blocks from before the state of a conversation begins, page by page from the host's log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from dragoman.schema import decode, v1
from dragoman.state import SessionState, fold
from dragoman.tui.local_host.loaded_turns import turns_in
from dragoman.view.watched import WatchedSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.client import RemoteAgent
    from dragoman.tui.conversation import HostedConversation
    from dragoman.view.blocks import TurnBlock

TAIL_EVENTS: Final = 4_000
"""Of a session that is opened: what was before them comes when the user scrolls to it."""
MOST_ITEMS: Final = 6_000
"""Of a session that grows: then it is opened again, with its end only."""


def is_too_long(conversation: HostedConversation) -> bool:
    """Whether a state has more than a client needs to keep, and nothing is going on."""
    return (
        len(conversation.state.timeline) > MOST_ITEMS
        and conversation.phase == "ready"
        and not (conversation.prompts or conversation.questions or conversation.is_running)
    )


class OlderPage(NamedTuple):
    """A part of a session's history."""

    state: SessionState
    ends: Mapping[int, TurnBlock]
    """The ends of turns, by the position of the item that they stand behind."""
    has_more: bool
    """Whether there is more before it."""


async def read_older(remote: RemoteAgent, session_id: str) -> OlderPage:
    """Read the next page of a session's history, as a state of its own.

    Raises: RequestError, ConnectionClosed.
    """
    answer = await remote.request("_dragoman/history", {"sessionId": session_id})
    page = SessionState()
    for update in answer.get("updates") or ():
        fold(page, decode(v1.SessionUpdate, msgspec.json.encode(update)))
    from dragoman.view.build import turn_end  # not for the first frame

    times = WatchedSession()
    turns_in(answer).note_in(page, times)
    ends = {turn.end - 1: turn_end(turn, times) for turn in page.turns if turn.end}
    return OlderPage(page, ends, answer.get("hasMore") is True)
