"""Compactions of the context: each has a place, a status and a summary (rules 222-224).

The first frame of an id fixes its place. A final status ends it; a later frame that contradicts this is kept in
`SessionState.unknown` and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.schema import UNSET
from dragoman.state.text_buffer import GrowingPassage, Passage

if TYPE_CHECKING:
    from typing import Final

    from dragoman.schema.v1 import CompactionStatus, CompactionSummaryChunk, CompactionUpdate
    from dragoman.state.messages import Messages
    from dragoman.state.text_buffer import TextRoom
    from dragoman.state.timeline import Timeline, UnfoldedUpdates
    from dragoman.state.turns import Turns

FINISHED: Final = frozenset({"completed", "failed", "cancelled"})


class CompactionState(Passage):
    """One compaction; its summary is `.text` and `.blocks`."""

    __slots__ = ("_error", "_id", "_status")

    def __init__(self, compaction_id: str, turn: int | None, room: TextRoom | None = None) -> None:
        super().__init__(turn, room)
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
        """The agent's description of what failed."""
        return self._error

    @property
    def is_finished(self) -> bool:
        """A final status was reported."""
        return self._status in FINISHED

    def __repr__(self) -> str:
        return f"CompactionState({self._id!r}, {self._status!r}, {self.text!r})"


class _GrowingCompaction(CompactionState, GrowingPassage):
    __slots__ = ()

    def fold(self, update: CompactionUpdate) -> None:
        self._status = update.status
        self._changes += 1
        if update.summary is not UNSET:
            self.replace(update.summary)
        if update.error is not UNSET:
            self._error = update.error
        self.patch_meta(update.meta)


class Compactions:
    """All compactions of a session, by id."""

    __slots__ = ("_messages", "_timeline", "_turns", "_unfolded", "by_id")

    def __init__(self, timeline: Timeline, messages: Messages, turns: Turns, unfolded: UnfoldedUpdates) -> None:
        self._timeline = timeline
        self._messages = messages
        self._turns = turns
        self._unfolded = unfolded
        self.by_id: dict[str, _GrowingCompaction] = {}

    def fold(self, update: CompactionUpdate) -> None:
        """Add a compaction, or change the one that has this id."""
        compaction = self._get(update.compaction_id)
        if compaction.is_finished and compaction.status != update.status:
            self._unfolded.keep(update)
        else:
            compaction.fold(update)

    def fold_chunk(self, chunk: CompactionSummaryChunk) -> None:
        """Append to a summary. The chunk's `_meta` is about the chunk, not about the compaction."""
        compaction = self._get(chunk.compaction_id)
        if compaction.is_finished:
            self._unfolded.keep(chunk)
        else:
            compaction.append(chunk.content)

    def _get(self, compaction_id: str) -> _GrowingCompaction:
        compaction = self.by_id.get(compaction_id)
        if compaction is None:
            self._messages.close()
            compaction = self.by_id[compaction_id] = _GrowingCompaction(
                compaction_id, self._turns.current_index, self._messages.room
            )
            self._timeline.append(compaction)
        else:
            self._timeline.touch(compaction)
        return compaction
