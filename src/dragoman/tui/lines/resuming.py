"""Where to go on in a session that was loaded again: behind what the terminal shows already. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.state import Message, ToolCallState

if TYPE_CHECKING:
    from dragoman.state import SessionState, TimelineItem

_LOOKED_AT: Final = 200  # items from the end; what a host lost at its death is not longer


def resume_place(before: SessionState, after: SessionState) -> tuple[int, int]:
    """Return the last item of `after` that `before` has, and how many of its characters; (-1, 0) if there is none.

    A loaded session may begin later than the one that was written, and end earlier or later.
    """
    for item in reversed(before.timeline[-_LOOKED_AT:]):
        for position in range(len(after.timeline) - 1, max(-1, len(after.timeline) - 1 - _LOOKED_AT), -1):
            if _is_same(item, after.timeline[position]):
                return position, len(item.text) if isinstance(item, Message) else 0
    return (len(after.timeline) - 1, 0) if before.timeline else (-1, 0)


def _is_same(old: TimelineItem, new: TimelineItem) -> bool:
    if isinstance(old, ToolCallState) and isinstance(new, ToolCallState):
        return old.id == new.id
    if isinstance(old, Message) and isinstance(new, Message):
        return old.role == new.role and bool(old.text) and new.text.startswith(old.text)
    return False
