"""Tickets for pages in a browser, which cannot send a header with a WebSocket.

A ticket is bought with the token by `POST /ticket`, holds for one upgrade within seconds, and only from the origin that
bought it. It is offered as a subprotocol, never in a URL: proxies write those down.
"""

from __future__ import annotations

import hashlib
import secrets
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

TICKET_SECONDS: Final = 30.0
_MOST: Final = 10_000


class _Ticket(NamedTuple):
    token: str
    origin: bytes | None
    until: float


class Tickets:
    """Tickets that were not used yet, by their hashes."""

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._tickets: dict[bytes, _Ticket] = {}

    def issue(self, token: str, origin: bytes | None) -> str:
        """Issue a new ticket for the holder of a token.

        Args:
            token: The name of the token.
            origin: Of the page that asked for it; None if no page did.
        """
        now = self._clock()
        self._tickets = {key: each for key, each in self._tickets.items() if each.until > now}
        if len(self._tickets) >= _MOST:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(32)
        self._tickets[_key(ticket)] = _Ticket(token, origin, now + TICKET_SECONDS)
        return ticket

    def use(self, ticket: str, origin: bytes | None) -> str | None:
        """Use a ticket up, also if the origin is wrong, and return the name of the token behind it."""
        found = self._tickets.pop(_key(ticket), None)
        if found is None or found.until <= self._clock() or found.origin != origin:
            return None
        return found.token


def _key(ticket: str) -> bytes:
    """Return the hash to search by: how long the search takes is then independent of the tickets that exist."""
    return hashlib.sha256(ticket.encode("latin-1", "replace")).digest()
