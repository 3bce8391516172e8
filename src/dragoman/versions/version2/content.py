"""The content of messages that were already passed on, kept to recognise repetitions.

A message may come whole after it came in chunks, and a prompt comes back from the agent. Texts are compared joined,
because chunks and blocks cut them differently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.versions.frames import Frame, text

if TYPE_CHECKING:
    from collections.abc import Iterable


class KnownContent:
    """Blocks with neighbouring texts joined."""

    __slots__ = ("_parts",)

    def __init__(self, blocks: Iterable[Frame] = ()) -> None:
        self._parts: list[list[str] | Frame] = []
        for block in blocks:
            self.add(block)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, block: Frame) -> None:
        """Append a block."""
        if block.get("type") != "text":
            self._parts.append(block)
        elif self._parts and isinstance(last := self._parts[-1], list):
            last.append(text(block.get("text")))
        else:
            self._parts.append([text(block.get("text"))])

    def joined(self) -> list[str | Frame]:
        """Return texts and other blocks, in order."""
        for part in self._parts:
            if isinstance(part, list) and len(part) > 1:
                part[:] = ["".join(part)]
        return [part[0] if isinstance(part, list) else part for part in self._parts]

    def rest_of(self, other: KnownContent) -> list[Frame] | None:
        """Return what `other` has after this content, as blocks; None if it does not begin with this content."""
        mine, theirs = self.joined(), other.joined()
        if len(mine) > len(theirs):
            return None
        rest = theirs[len(mine) :]
        for index, (part, given) in enumerate(zip(mine, theirs, strict=False)):
            if part == given:
                continue
            is_last = index == len(mine) - 1
            if not (is_last and isinstance(part, str) and isinstance(given, str) and given.startswith(part)):
                return None
            rest = [given[len(part) :], *rest]
        return [{"type": "text", "text": part} if isinstance(part, str) else part for part in rest]
