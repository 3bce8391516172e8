"""The timeline of a session, and the updates that are kept in it as they came.

Items are appended in the order in which they first came; a changed item replaces the old one at its place.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from dragoman.schema import Unknown
    from dragoman.schema.v1 import CompactionSummaryChunk, CompactionUpdate, Notice, PlanUpdate

    # Updates that could not be folded: of a kind, or with a plan in a form, this version does not know; or frames of
    # a compaction that is over.
    Unfolded: TypeAlias = Unknown | PlanUpdate | CompactionUpdate | CompactionSummaryChunk


# Changes that a program which draws may miss between two looks, before it has to look at every item.
_REMEMBERED: Final = 512


class Timeline:
    """All items of a session in one list, and the places of the last changes."""

    __slots__ = ("_changed", "_changes", "items")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._changed: deque[int] = deque(maxlen=_REMEMBERED)
        self._changes = 0

    def __len__(self) -> int:
        return len(self.items)

    def append(self, item: object) -> None:
        """Add a new item at the end; its position is the length before."""
        self.items.append(item)

    def put(self, position: int, item: object) -> None:
        """Replace the item at this position by its newer value."""
        self.items[position] = item
        self._changed.append(position)
        self._changes += 1

    def touch(self, item: object) -> None:
        """Note that an item which grows in its place is written to again."""
        items = self.items
        for position in range(len(items) - 1, -1, -1):
            if items[position] is item:
                self._changed.append(position)
                self._changes += 1
                return

    def changed_since(self, mark: int) -> tuple[int, frozenset[int] | None]:
        """Return where items changed since an earlier mark, and the next mark; None if it is not remembered."""
        count = self._changes - mark
        if count > len(self._changed) or count < 0:
            return self._changes, None
        recent = list(self._changed)
        return self._changes, frozenset(recent[len(recent) - count :])


class Notices:
    """The notices of a session; each is an item of the timeline."""

    __slots__ = ("_timeline", "items")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.items: list[Notice] = []

    def fold(self, notice: Notice) -> None:
        """Keep a notice."""
        self.items.append(notice)
        self._timeline.append(notice)


class UnfoldedUpdates:
    """Updates that change nothing, kept so that no information is lost."""

    __slots__ = ("_timeline", "items")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.items: list[Unfolded] = []

    def fold(self, update: Unknown) -> None:
        """Keep an update of an unknown kind, and show it in the timeline."""
        self.items.append(update)
        self._timeline.append(update)

    def keep(self, update: Unfolded) -> None:
        """Keep an update that contradicts what is there; it is not an item of the timeline."""
        self.items.append(update)
