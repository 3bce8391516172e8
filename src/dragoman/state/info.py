"""Facts about the session as a whole: title, time of the last change, context usage and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.schema import UNSET

if TYPE_CHECKING:
    from typing import Any

    from dragoman.schema.v1 import Cost, SessionInfoUpdate, UsageUpdate


class Info:
    """Title and usage as the agent last reported them."""

    __slots__ = ("cost", "meta", "title", "updated_at", "usage")

    def __init__(self) -> None:
        self.title: str | None = None
        self.updated_at: str | None = None
        self.meta: dict[str, Any] | None = None
        self.usage: UsageUpdate | None = None
        self.cost: Cost | None = None

    def fold(self, update: SessionInfoUpdate) -> None:
        """Take the members that are present; null clears one (rule 217)."""
        if update.title is not UNSET:
            self.title = update.title
        if update.updated_at is not UNSET:
            self.updated_at = update.updated_at
        if update.meta is not UNSET:
            self.meta = update.meta

    def fold_usage(self, update: UsageUpdate) -> None:
        """Replace the usage; the cost is a running total, so a report without it does not clear it."""
        self.usage = update
        if update.cost is not UNSET and update.cost is not None:
            self.cost = update.cost
