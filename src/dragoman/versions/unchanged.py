"""Between two sides of the same version: every frame passes as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.versions.frames import OTHER, Frame, Sent, Side

if TYPE_CHECKING:
    from dragoman.versions.losses import Lost


class Unchanged:
    """Both sides speak the same version."""

    losses: tuple[Lost, ...] = ()
    wait_seconds: float | None = None

    def elapsed(self) -> list[Sent]:
        """Return nothing."""
        return []

    def feed(self, side: Side, frame: Frame) -> list[Sent]:
        """Return the frame, for the other side."""
        return [(OTHER[side], frame)]

    def closed(self, side: Side) -> list[Sent]:
        """Return nothing: the sides answer for themselves."""
        return []
