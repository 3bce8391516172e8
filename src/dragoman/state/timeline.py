"""The timeline of a session, and the updates that are kept in it as they came.

Items are appended in the order in which they first came; a changed item replaces the old one at its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from dragoman.schema import Unknown
    from dragoman.schema.v1 import CompactionSummaryChunk, CompactionUpdate, Notice, PlanUpdate

    # Updates that could not be folded: of a kind, or with a plan in a form, this version does not know; or frames of
    # a compaction that is over.
    Unfolded: TypeAlias = Unknown | PlanUpdate | CompactionUpdate | CompactionSummaryChunk


class Timeline:
    """All items of a session in one list."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: list[Any] = []

    def __len__(self) -> int:
        return len(self.items)

    def append(self, item: object) -> None:
        """Add a new item at the end; its position is the length before."""
        self.items.append(item)

    def put(self, position: int, item: object) -> None:
        """Replace the item at this position by its newer value."""
        self.items[position] = item


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
