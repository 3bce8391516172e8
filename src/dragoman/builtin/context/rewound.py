"""Which messages of a conversation were taken back by `/undo` or `/rewind`, and not brought back by `/redo`. Pure.

Nothing stored is removed. A rewind is a fact in the agent's answer to the command: how many messages before the command
it takes back. Counts instead of ids, so that a fork, whose copies have other ids, has the same facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.uistream.messages import DataPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.uistream.messages import UIMessage

REWIND: Final = "rewind"
"""Name of the data part: `{"back": N, "files": whether files were changed, "rewinds": {folder: its record}}`."""
REDO: Final = "redo"
"""Name of the data part that brings back what the last rewind took back."""


class RewindFact(NamedTuple):
    """A rewind, with the number of messages it takes back, or a redo."""

    name: str
    back: int
    has_files: bool
    """Whether it changed files."""
    rewinds: dict[str, int] | None = None
    """The numbers of the rewinds of files, by folder; None if they were not stored."""


def rewound(history: Sequence[UIMessage]) -> frozenset[int]:
    """Return the positions of the messages that the model is not given, because they were taken back."""
    ranges: list[range] = []
    for index, message in enumerate(history):
        for fact in facts_of(message):
            if fact.name == REWIND:
                ranges.append(range(max(0, index - 1 - fact.back), index - 1))
            elif ranges:
                ranges.pop()
    return frozenset(position for positions in ranges for position in positions)


def facts_of(message: UIMessage) -> list[RewindFact]:
    """Return the rewinds and redos that an answer of the agent holds."""
    if message.role != "assistant":
        return []
    return [
        RewindFact(part.name, *_read(part.data))
        for part in message.parts
        if isinstance(part, DataPart) and part.name in (REWIND, REDO)
    ]


def _read(data: Any) -> tuple[int, bool, dict[str, int] | None]:
    found = data if isinstance(data, dict) else {}
    back, rewinds = found.get("back"), found.get("rewinds")
    numbers = {str(folder): number for folder, number in rewinds.items()} if isinstance(rewinds, dict) else None
    return (back if isinstance(back, int) and back > 0 else 0), found.get("files") is True, numbers


class RewoundWalk:
    """The same, for messages that are met from the newest to the oldest."""

    def __init__(self) -> None:
        self._left = 0
        self._redone = 0
        self._coming: tuple[int, ...] = ()

    def is_rewound(self, message: UIMessage) -> bool:
        """Whether this message, the next older one, was taken back by one that was met before."""
        is_taken = self._left > 0
        self._left = max(0, self._left - 1, *self._coming)
        self._coming = ()
        for fact in reversed(facts_of(message)):
            if fact.name == REDO:
                self._redone += 1
            elif self._redone:
                self._redone -= 1
            else:
                self._coming = (*self._coming, fact.back)  # counts from the message before the command
        return is_taken
