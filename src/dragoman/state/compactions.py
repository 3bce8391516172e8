"""Compactions of the context: entities with a place, a status and a summary (rules 222-224).

The first frame of an id fixes its place. One of the final statuses ends it; what contradicts that later is kept in
`SessionState.unknown` and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.schema import UNSET
from dragoman.state.messages import close_open
from dragoman.state.text_buffer import Passage

if TYPE_CHECKING:
    from typing import Final

    from dragoman.schema.v1 import CompactionStatus, CompactionSummaryChunk, CompactionUpdate
    from dragoman.state.session import SessionState

FINISHED: Final = frozenset({"completed", "failed", "cancelled"})


class CompactionState(Passage):
    """One compaction; its summary is `.text` and `.blocks`."""

    __slots__ = ("_error", "_id", "_status")

    def __init__(self, compaction_id: str, turn: int | None) -> None:
        super().__init__(turn)
        self._id = compaction_id
        self._status: CompactionStatus = "in_progress"
        self._error: str | None = None

    @property
    def id(self) -> str:
        """The agent's id for it."""
        return self._id

    @property
    def status(self) -> CompactionStatus:
        """`in_progress`, then one of `completed`, `failed`, `cancelled`."""
        return self._status

    @property
    def error(self) -> str | None:
        """What went wrong, in words."""
        return self._error

    @property
    def is_finished(self) -> bool:
        """A final status was reported."""
        return self._status in FINISHED

    def __repr__(self) -> str:
        return f"CompactionState({self._id!r}, {self._status!r}, {self.text!r})"


def fold_compaction(state: SessionState, update: CompactionUpdate) -> None:
    compaction = _get(state, update.compaction_id)
    if compaction.is_finished and compaction._status != update.status:
        state._unknown.append(update)
        return
    compaction._status = update.status
    compaction._changes += 1
    if update.summary is not UNSET:
        compaction._replace(update.summary)
    if update.error is not UNSET:
        compaction._error = update.error
    compaction._patch_meta(update.meta)


def fold_compaction_chunk(state: SessionState, chunk: CompactionSummaryChunk) -> None:
    compaction = _get(state, chunk.compaction_id)
    if compaction.is_finished:
        state._unknown.append(chunk)
    else:
        compaction._append(chunk.content)  # the chunk's _meta speaks of the chunk, not of the compaction


def _get(state: SessionState, compaction_id: str) -> CompactionState:
    compaction = state._compactions.get(compaction_id)
    if compaction is None:
        close_open(state)
        compaction = CompactionState(compaction_id, state._turn_index)
        state._compactions[compaction_id] = compaction
        state._timeline.append(compaction)
    return compaction
