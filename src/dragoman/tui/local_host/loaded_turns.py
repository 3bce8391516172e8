"""The turns of a session that was loaded: how those in its history ended, and which one runs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dragoman.errors import ConnectionClosed, DragomanError, RequestError
from dragoman.schema import decode, v1
from dragoman.state import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.client import RemoteAgent
    from dragoman.state import SessionState
    from dragoman.view.watched import WatchedSession


class LoadedTurns(NamedTuple):
    """What the host knows of the turns of a session."""

    ended: Sequence[dict[str, Any]] = ()
    """Of each turn that ended, the oldest first: `promptId`, `messageId`, `result` or `error`, `seconds`."""
    begun: str | None = None
    """The id of the last prompt's message, if its turn has no end in the history."""
    running: str | None = None
    """The id of the prompt whose turn runs."""
    seconds: float = 0.0
    """For how long it has run."""

    def has_ended(self, prompt_id: object) -> bool:
        """Whether a prompt has a turn in the history that ended."""
        return any(turn.get("promptId") == prompt_id for turn in self.ended)

    def has(self, prompt_id: str) -> bool:
        """Whether a prompt has a turn in the history."""
        return prompt_id == self.running or self.has_ended(prompt_id)

    def note_in(self, state: SessionState, watched: WatchedSession) -> None:
        """Put the turns that ended into a state that has their history."""
        starts = [
            (position, item.message_id)
            for position, item in enumerate(state.timeline)
            if isinstance(item, Message) and item.role == "user" and item.message_id in self._message_ids
        ]
        places = {id: number for number, (_, id) in enumerate(starts)}
        for number, ended in enumerate(self.ended):
            place = places.get(ended.get("messageId"))
            if place is None and number:
                continue
            # Of the first one the prompt may be in an older part of the history.
            start = 0 if place is None else starts[place][0]
            after = 0 if place is None else place + 1
            end = starts[after][0] if after < len(starts) else len(state.timeline)
            if end > start:
                turn = state.note_past_turn(start, end, *_outcome(ended.get("result")))
                if isinstance(ended.get("seconds"), int | float):
                    watched.note_turn(turn.index, float(ended["seconds"]))

    def note_last_in(self, state: SessionState, watched: WatchedSession) -> None:
        """Put a turn that has just ended into a state, if its prompt is there and no turn of ours runs."""
        shown = {item.message_id for item in state.timeline if isinstance(item, Message)}
        if not state.is_running and shown >= self._message_ids and self._message_ids:
            self.note_in(state, watched)

    @property
    def _message_ids(self) -> set[Any]:
        return {*(turn.get("messageId") for turn in self.ended), self.begun} - {None}


def _outcome(result: object) -> tuple[Any, v1.Usage | None]:
    if not isinstance(result, dict):
        return None, None
    usage: v1.Usage | None = None
    if isinstance(result.get("usage"), dict):
        with suppress(DragomanError):
            usage = decode(v1.Usage, msgspec.json.encode(result["usage"]))
    reason = result.get("stopReason")
    return reason if isinstance(reason, str) else None, usage


def turns_in(answer: object) -> LoadedTurns:
    """Read what an answer of the host has of turns."""
    if not isinstance(answer, dict):
        return LoadedTurns()
    begun, running = (answer.get(name) for name in ("begun", "running"))
    ended = [turn for turn in answer.get("ended") or () if isinstance(turn, dict)]
    seconds = answer.get("seconds")
    return LoadedTurns(
        ended,
        begun if isinstance(begun, str) else None,
        running if isinstance(running, str) else None,
        float(seconds) if isinstance(seconds, int | float) else 0.0,
    )


async def read_turns(remote: RemoteAgent, session_id: str) -> LoadedTurns:
    """Ask the host about the history that it has just sent; one of an older version does not know, and gives none."""
    with suppress(RequestError, ConnectionClosed):
        return turns_in(await remote.request("_dragoman/turns", {"sessionId": session_id}))
    return LoadedTurns()
