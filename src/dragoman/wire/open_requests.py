"""The open requests of one direction of a connection, for programs that pass requests on.

Owns what makes an answer unambiguous: an id is used once at a time, 1 and "1" are two ids, an answer counts once, and
so many requests may wait that memory is bounded. Does not know what a request is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from dragoman.errors import INTERNAL_ERROR, INVALID_REQUEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.wire.ids import Id

T = TypeVar("T")


class RefusedRequest(NamedTuple):
    """Why a request is not taken: the error that answers it."""

    code: int
    why: str


class OpenRequests(Generic[T]):
    """What is known about each open request, by its id.

    Args:
        most: How many may be open at a time; what they take is memory of this program.
        takes_null: Whether null is an id.
        prefix: How ids of our own begin; without one they are numbers.
    """

    def __init__(self, most: int, *, takes_null: bool = True, prefix: str = "") -> None:
        self._most = most
        self._takes_null = takes_null
        self._prefix = prefix
        self._made = 0
        self._open: dict[tuple[type, Id], T] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, request_id: Id) -> bool:
        return (type(request_id), request_id) in self._open

    def __iter__(self) -> Iterator[tuple[Id, T]]:
        """Iterate over the open requests, the oldest first; they may be closed meanwhile."""
        return iter([(request_id, about) for (_, request_id), about in self._open.items()])

    @property
    def is_full(self) -> bool:
        """Whether so many are open that no other one is taken."""
        return len(self._open) >= self._most

    def refusal(self, request_id: Id) -> RefusedRequest | None:
        """Return why a request with this id cannot be opened; None if it can."""
        if request_id is None and not self._takes_null:
            return RefusedRequest(INVALID_REQUEST, "the id of this request is null")
        if (type(request_id), request_id) in self._open:
            return RefusedRequest(INVALID_REQUEST, "a request with this id is still open; use another id")
        if len(self._open) >= self._most:
            return RefusedRequest(INTERNAL_ERROR, "too many requests are open")
        return None

    def open(self, request_id: Id, about: T) -> None:
        """Keep a request that was not refused."""
        self._open[type(request_id), request_id] = about

    def open_own(self, about: T) -> Id:
        """Keep a request of our own; return its id."""
        self._made += 1
        request_id: Id = f"{self._prefix}{self._made}" if self._prefix else self._made
        self.open(request_id, about)
        return request_id

    def is_own(self, request_id: Id) -> bool:
        """Whether an id is one of ours, open or not."""
        return bool(self._prefix) and isinstance(request_id, str) and request_id.startswith(self._prefix)

    def get(self, request_id: Id) -> T | None:
        """Return what is known about an open request."""
        return self._open.get((type(request_id), request_id))

    def close(self, request_id: Id) -> T | None:
        """Close a request that is answered now; return what is known about it, None if none is open under this id."""
        return self._open.pop((type(request_id), request_id), None)

    def close_all(self) -> list[tuple[Id, T]]:
        """Close all requests and return them."""
        closed = list(self)
        self._open.clear()
        return closed
