"""How far a turn may go, and how patient it is with its model.

Owns the numbers and their reasons. What happens at a limit is the loop's business.
"""

from __future__ import annotations

from msgspec import Struct


class TurnLimits(Struct, frozen=True):
    """Bounds of a turn, and those of its session. Looked at before each call of the model, so one may go beyond."""

    steps: int = 200
    """Model calls. Long refactorings take some dozens; a loop that chases itself takes all it can get."""
    tokens: int | None = None
    """Tokens the model may write in one turn, thoughts included; None is no bound."""
    cost_usd: float | None = None
    """What a turn may cost. A model whose price nobody knows costs nothing here."""
    session_tokens: int | None = None
    session_cost_usd: float | None = None
    """The same for the whole session; a prompt beyond it ends at once."""
    retries: int = 5
    """Tries after the first when the provider is busy or the line breaks."""
    retry_seconds: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    """Waits before each; a provider that names a time is believed, up to `longest_wait_seconds`."""
    longest_wait_seconds: float = 120.0
    cleanup_seconds: float = 10.0
    """What a cancelled tool gets to put things in order. Later it is left behind and nobody hears of it."""
