"""How often each principal may do something: buckets that fill with time."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.wire import LIMIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.host.quotas import Quota


class ServeLimits(msgspec.Struct, frozen=True):
    """How much one token, one user and the host may use."""

    connections: int = 64
    requests_per_second: float = 100.0
    """Requests over HTTP, the first message of a connection included."""
    connections_per_minute: float = 120.0
    """New connections: a client that connects again and again is slowed down."""
    body_bytes: int = LIMIT_BYTES
    in_flight_bytes: int = 64 * 1024 * 1024
    """Received, and not complete or not answered, over all connections of one token."""
    initialize_seconds: float = 10.0
    idle_seconds: float = 1800.0
    sockets: int = 4096
    sockets_per_address: int = 512
    sessions: int | None = 256
    agents: int | None = 32
    turns: int | None = 16
    prompts_per_hour: int | None = None
    stored_bytes: int | None = 10 * 1024 * 1024 * 1024
    cost_per_day: float | None = None
    """These six are of one user, over all tokens; an administrator may give a user other values."""
    agent_processes: int | None = None
    """Of the host; None for a number that suits its memory and processors."""

    def quota(self) -> Quota:
        """Return those of one user."""
        from dragoman.host.quotas import LIMITS, Quota

        return Quota(**{name: getattr(self, name) for name in LIMITS})


_MOST_NAMES: Final = 10_000


class Buckets:
    """One bucket for each name; a full one holds `burst`."""

    def __init__(self, per_second: float, burst: float, *, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> bool:
        """Take one; False if the bucket of this name is empty."""
        now = self._clock()
        if len(self._levels) >= _MOST_NAMES:  # names may be addresses, of which anyone has many
            full = self._burst / self._per_second if self._per_second else 0.0
            self._levels = {name: found for name, found in self._levels.items() if now - found[1] < full}
        level, at = self._levels.get(name, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._per_second)
        is_enough = level >= 1.0
        self._levels[name] = (level - 1.0 if is_enough else level, now)
        return is_enough

    def seconds_until_next(self, name: str) -> int:
        """Return when it is worth trying again, in whole seconds, at least one."""
        level, _ = self._levels.get(name, (self._burst, 0.0))
        return max(1, int((1.0 - level) / self._per_second) + 1) if self._per_second else 60
