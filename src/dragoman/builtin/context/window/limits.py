"""The numbers of the context window: its size, when a conversation is shortened, and how much of it is kept.

Owns the numbers and their reasons. Pure.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

UNKNOWN_WINDOW: Final = 128_000
UNKNOWN_LOCAL_WINDOW: Final = 32_000
"""For models whose window is stated nowhere. Servers on the user's machine are usually started with a small one."""
SMALLEST_WINDOW: Final = 1_000
ADVICE: Final = "start a new session, leave out large files or outputs, or choose a model with a larger context window"

_MOST_RESERVE: Final = 20_000  # longer answers are rare; a larger reserve would waste the window
_MARGIN: Final = 3_000  # what an estimate may be wrong by
_LARGEST_TRIGGER: Final = 400_000  # beyond this, cost rises and quality falls, whatever the window


class WindowLimits(Struct, frozen=True):
    """The limits that follow from the size of a window. For small windows all are shares of it."""

    window: int
    max_output: int | None = None

    @property
    def limit(self) -> int:
        """Tokens that a request may have. The rest is for the answer, and for errors of the estimate."""
        reserve = min(self.max_output or _MOST_RESERVE, _MOST_RESERVE, self.window // 4)
        margin = min(max(self.window // 50, _MARGIN), self.window // 8)
        return min(self.window - reserve - margin, _LARGEST_TRIGGER)

    @property
    def prune_at(self) -> int:
        """The size from which on old outputs are left out, if enough of them can be."""
        return self.limit * 85 // 100

    def goal(self, overhead: int) -> int:
        """Return the most that a conversation may have once it is shortened; otherwise it would be full again at once.

        Args:
            overhead: tokens of the system prompt and the tools, which cannot be shortened.
        """
        return overhead + max(self.limit - overhead, 0) * 60 // 100

    @property
    def tail(self) -> int:
        """Tokens at the end that are kept word for word."""
        return min(20_000, self.limit // 4)

    @property
    def summary(self) -> int:
        """The most tokens of a summary."""
        return max(min(8_000, self.limit // 10), 200)

    @property
    def kept_outputs(self) -> int:
        """Tokens of the newest outputs that pruning leaves alone."""
        return min(40_000, self.limit // 4)

    @property
    def worth_pruning(self) -> int:
        """The least that pruning must save, because it breaks the provider's cache."""
        return min(20_000, self.limit // 8)
