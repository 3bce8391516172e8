"""The limits of a turn and of its session, and how often a failed model call is repeated.

Owns the numbers and their reasons. `loop.py` decides what happens at a limit.
"""

from __future__ import annotations

from msgspec import Struct


class TurnLimits(Struct, frozen=True):
    """Limits of a turn and of its session. They are checked before each model call, so one call may exceed them."""

    steps: int = 200
    """Model calls in a turn. A long refactoring takes some dozens; an endless loop is stopped here."""
    tokens: int | None = None
    """Tokens the model may write in one turn, reasoning included; None means no limit."""
    cost_usd: float | None = None
    """What a turn may cost. A model whose price is unknown counts as free."""
    session_tokens: int | None = None
    session_cost_usd: float | None = None
    """The same for the whole session; a prompt after the limit is reached ends at once."""
    retries: int = 5
    """Attempts after the first if the provider is busy or the connection breaks."""
    retry_seconds: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    """Pauses before each of them. A pause that the provider names is used instead, up to `longest_wait_seconds`."""
    longest_wait_seconds: float = 120.0
    silence_seconds: float = 10.0
    """After so much silence of a model the user is shown what the turn waits for. Most answers begin within a few."""
    summary_seconds: float = 300.0
    """Time for the model to summarise a long conversation. After that the summary is made without it."""
    cleanup_seconds: float = 10.0
    """Time for a cancelled tool to clean up. After that the turn ends without it, and its result is dropped."""
