"""A list that grows at the end, and its earlier values, which stay as they were: both in constant time and space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class GrowingList(Sequence[T_co]):
    """The beginning of a list that others may have continued. It never changes; `grown` returns the next value."""

    __slots__ = ("_items", "_length")

    def __init__(self, items: Iterable[T_co] = ()) -> None:
        self._items: list[T_co] = list(items)
        self._length = len(self._items)

    def grown(self, more: Iterable[T_co]) -> GrowingList[T_co]:
        """This list with more items; the items are copied only if another value was grown from this one before."""
        made: GrowingList[T_co] = GrowingList.__new__(GrowingList)
        made._items = self._items if self._length == len(self._items) else self._items[: self._length]
        made._items.extend(more)
        made._length = len(made._items)
        return made

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        if isinstance(index, slice):
            return tuple(self._items[each] for each in range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError("list index out of range")
        return self._items[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[T_co]:
        for index in range(self._length):
            yield self._items[index]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (GrowingList, tuple, list)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # its items are not hashable in general

    def __repr__(self) -> str:
        return f"GrowingList({self[:]!r})"
