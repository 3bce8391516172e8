"""What is remembered of a thread from turn to turn."""

from __future__ import annotations

import msgspec


class ThreadNotes(msgspec.Struct):
    """What the turns of a thread have in common."""

    used: int | None = None
    """Tokens in the context window."""
    warnings: set[str] = msgspec.field(default_factory=set)
    """Warnings that were shown; Codex repeats some in every turn."""
    starters: dict[str, str] = msgspec.field(default_factory=dict)
    """The calls that started sub-agents, by thread."""
    ended: set[str] = msgspec.field(default_factory=set)
    """Calls that were shown as over when their turn ended; what is reported of them later is left out."""
    commands: set[str] = msgspec.field(default_factory=set)
    """Commands of turns that are over; what is left of them was left on purpose."""
