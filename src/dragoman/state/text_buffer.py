"""Content that arrives in chunks and is read as a whole, both in linear time.

A chunk costs one list append. Reading joins what is new since the last read, so reading after every chunk is linear
too. A run of plain text becomes one block; every other block (image, annotated text, a block of an unknown type) is
kept as it is, in its place. What a `TextRoom` has no place for is dropped and counted: the beginning is kept. `Passage`
can only be read; the state works with `GrowingPassage`, which adds the writing methods. Does not depend on roles, turns
or sessions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, overload

from dragoman.schema import UNSET
from dragoman.schema.v1 import TextContent

if TYPE_CHECKING:
    from typing import Any

    from dragoman.schema import UnsetType
    from dragoman.schema.v1 import ContentBlock

# Pieces that wait to be joined: together at most a few MB, and joining this many takes well below a millisecond.
MANY_PIECES: Final = 1024
LONG_PIECE: Final = 2048
# What a block without text takes at least.
_BLOCK: Final = 100

T_co = TypeVar("T_co", covariant=True)


class View(Sequence[T_co]):
    """A read-only view of a list. It shows later changes of the list; its slices are tuples, which do not."""

    __slots__ = ("_items",)

    def __init__(self, items: list[T_co]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        return tuple(self._items[index]) if isinstance(index, slice) else self._items[index]

    def __iter__(self) -> Iterator[T_co]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"View({self._items!r})"


class TextRoom:
    """How many more characters a session may keep. Shared by its passages; each turn begins with the whole room.

    Args:
        characters: the whole room; None for no limit.
    """

    __slots__ = ("_characters", "left")

    def __init__(self, characters: int | None = None) -> None:
        self._characters = characters
        self.left = sys.maxsize if characters is None else characters

    def refill(self) -> None:
        """Give the whole room to the next turn."""
        self.left = sys.maxsize if self._characters is None else self._characters


class Passage:
    """Text and other content blocks that grow at the end."""

    __slots__ = ("_changes", "_closed", "_lost", "_meta", "_pending", "_room", "_run", "_text", "_turn")

    def __init__(self, turn: int | None = None, room: TextRoom | None = None) -> None:
        self._turn = turn
        self._room = room or TextRoom()
        self._lost = 0
        self._meta: dict[str, Any] | None = None
        self._pending: list[str] = []  # plain text that is not yet part of _text
        self._text = ""
        self._closed: list[ContentBlock] = []  # blocks before the run of plain text that is still growing
        self._run = 0  # where in _text that run begins
        self._changes = 0  # without the pending texts, which are counted by their list

    @property
    def text(self) -> str:
        """All text so far, without the other blocks."""
        return self.compress()

    @property
    def blocks(self) -> tuple[ContentBlock, ...]:
        """All content so far in order, with neighbouring plain texts as one block."""
        self.compress()
        run = self._text[self._run :]
        return (*self._closed, TextContent(run)) if run else tuple(self._closed)

    @property
    def lost_characters(self) -> int:
        """How much was dropped because the session may not keep more; 0 if everything is here."""
        self.compress()
        return self._lost

    @property
    def meta(self) -> dict[str, Any] | None:
        """The last `_meta` that came with a chunk or an update of the whole."""
        return self._meta

    @property
    def turn(self) -> int | None:
        """Index of the turn in which this began; None for a replayed history or between turns."""
        return self._turn

    @property
    def revision(self) -> int:
        """Grows with each change of this item."""
        return self._changes + len(self._pending)

    def compress(self) -> str:
        """Join the texts so far into one string, which takes a fraction of their memory, and return it."""
        pending = self._pending
        if pending:
            # With the attribute emptied, `text` is the only reference and CPython grows the string in place: reading
            # after every chunk copies the new part only, unless the reader still holds the old string.
            new = "".join(pending)
            self._changes += len(pending)
            pending.clear()
            room = self._room
            if len(new) > room.left:
                self._lost += len(new) - room.left
                new = new[: room.left]
            if new:
                room.left -= len(new)
                text = self._text
                self._text = ""
                text += new
                self._text = text
        return self._text


class GrowingPassage(Passage):
    """A passage together with the methods that write to it; only the state calls them."""

    __slots__ = ()

    @property
    def pending(self) -> list[str]:
        """Plain texts that are not joined yet; appending to it is the fast path of a stream of chunks."""
        return self._pending

    def append(self, block: ContentBlock) -> None:
        """Add one block of any kind."""
        if type(block) is TextContent and block.annotations is UNSET and block.meta is UNSET:
            self._pending.append(block.text)
            if len(self._pending) > MANY_PIECES or len(block.text) > LONG_PIECE:
                self.compress()
            return
        self.compress()
        size = _size(block)
        if size > self._room.left:
            self._lost += size
            self._changes += 1
            return
        self._room.left -= size
        if self._run < len(self._text):
            self._closed.append(TextContent(self._text[self._run :]))
        if type(block) is TextContent:
            self._text += block.text
        self._closed.append(block)
        self._run = len(self._text)
        self._changes += 1

    def replace(self, blocks: Iterable[ContentBlock] | None) -> None:
        """Drop the content and start again with these blocks."""
        self.compress()
        self._room.left += len(self._text) - self._run + sum(map(_size, self._closed))
        self._lost = 0
        self._text = ""
        self._closed.clear()
        self._run = 0
        self._changes += 1
        for block in blocks or ():
            self.append(block)

    def patch_meta(self, meta: dict[str, Any] | UnsetType | None) -> None:
        """Replace `_meta`, unless the update does not have it."""
        if meta is not UNSET:
            self._meta = meta
            self._changes += 1


def _size(block: ContentBlock) -> int:
    """Return what a block counts against the room: its text or its data."""
    content = getattr(block, "resource", block)
    data = getattr(content, "text", None) or getattr(content, "data", None) or getattr(content, "blob", None)
    return len(data) if isinstance(data, str) else _BLOCK
