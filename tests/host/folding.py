"""What a client shows of the updates that it got: the state that `state/` folds of them, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman.schema import decode, v1
from dragoman.state import SessionState, fold
from dragoman.state.message import Message


def folded(updates: Iterable[dict[str, Any]], state: SessionState | None = None) -> list[Any]:
    """The conversation after these updates, without what only one way of sending it has: numbers, notices."""
    state = state or SessionState()
    for update in updates:
        params = msgspec.json.encode({"sessionId": "s", "update": update})
        fold(state, decode(v1.SessionNotification, params).update)
    return shown(state)


def shown(state: SessionState) -> list[Any]:
    """A state as plain values, to be compared."""
    found: list[Any] = []
    for item in state.timeline:
        if isinstance(item, Message):
            found.append((item.role, item.message_id, item.text))
        else:
            call: Any = item
            found.append(("tool", call.id, call.title, call.status))
    return [*found, state.plan, state.title, state.usage]
