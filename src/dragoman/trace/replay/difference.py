"""Differences between a recording and a live run.

Owns the comparison of two messages and the sentence for each difference. Pure: it does not know which side is played.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from dragoman.text.secrets import KEY_VARIABLES, known_keys
from dragoman.trace.entry import Direction
from dragoman.trace.replay.ids import IdMap, is_made_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SHOWN_CHARACTERS: Final = 60
_MASK: Final = re.compile(rf"\[(?:{'|'.join(KEY_VARIABLES)})\]")  # as a recording has it instead of a key

IGNORED: Final = (
    "initialize params.clientInfo.version",
    "initialize result.agentInfo.version",
    "* *.updatedAt",
    "* *.lastModified",
)
"""Members that differ in every run and are never reported."""

What: TypeAlias = Literal["changed", "missing", "unexpected", "order"]


class Difference(Struct, frozen=True, kw_only=True):
    """One difference from the recording; `str()` makes a readable line of it.

    `missing`: a recorded line did not come. `unexpected`: a line came that was not recorded. `changed`: a line has
    another value at `path`. `order`: a line came after one that it preceded in the recording.
    """

    what: What
    dir: Direction
    method: str
    """Of a response, the method of its request; empty for a line that is not a message."""
    kind: str
    """request, notification, response or raw."""
    number: int | None = None
    """Which entry of the recording, counted from 1 as in `dragoman inspect`; None for an unexpected line."""
    path: str = ""
    recorded: Any = UNSET
    came: Any = UNSET

    def __str__(self) -> str:
        name = {"response": f"answer to {self.method or 'nothing'}", "raw": "a line that is not a message"}.get(
            self.kind, f"{self.kind} {self.method}"
        )
        where = f" (#{self.number})" if self.number is not None else ""
        match self.what:
            case "changed":
                return f"changed: {name}{where}: {self.path}: recorded {_show(self.recorded)}, came {_show(self.came)}"
            case "missing":
                return f"missing: {name}{where} did not come"
            case "order":
                return f"order: {name}{where} came later than recorded"
        return f"unexpected: {name}: {_show(self.came)}"


class Comparison:
    """A comparison of messages without what may differ.

    Args:
        names: Known pairs of ids.
        ignore: Patterns of `method path` that may differ, with `*` for anything.
        only_shapes: Compare members and types only, for a redacted recording.
    """

    def __init__(self, names: IdMap, ignore: Sequence[str], *, only_shapes: bool = False) -> None:
        self._names = names
        # `*` is the only special character, because paths contain brackets.
        patterns = [
            "".join(".*" if part == "*" else re.escape(part) for part in re.split(r"(\*)", one)) for one in ignore
        ]
        self._ignored = re.compile("|".join(patterns) or r"(?!)", re.DOTALL)
        self._only_shapes = only_shapes

    def changes(self, method: str, recorded: Any, came: Any) -> list[tuple[str, Any, Any]]:
        """Return path, recorded value and live value of each difference; UNSET for an absent value."""
        return [
            change for change in self._walk("", "", recorded, came) if not self._is_ignored(f"{method} {change[0]}")
        ]

    def _walk(self, path: str, member: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
        if isinstance(one, dict) and isinstance(other, dict):
            for name in [*one, *(name for name in other if name not in one)]:
                place = f"{path}.{name}" if path else name
                yield from self._walk(place, name, one.get(name, UNSET), other.get(name, UNSET))
        elif isinstance(one, list) and isinstance(other, list):
            for index in range(max(len(one), len(other))):
                here = one[index] if index < len(one) else UNSET
                there = other[index] if index < len(other) else UNSET
                yield from self._walk(f"{path}[{index}]", member, here, there)
        elif not self._is_same(member, one, other):
            yield path, one, other

    def _is_same(self, member: str, one: Any, other: Any) -> bool:
        if isinstance(one, bool) or isinstance(other, bool):
            return one is other
        if isinstance(one, str) and isinstance(other, str) and (is_made_up(member) or self._only_shapes):
            return self._only_shapes or self._names.may_be(one, other)
        if self._only_shapes and isinstance(one, (int, float)) and isinstance(other, (int, float)):
            return True
        return bool(one == other) or (isinstance(one, str) and isinstance(other, str) and _is_masked(one, other))

    def _is_ignored(self, place: str) -> bool:
        return self._ignored.fullmatch(place) is not None


def _is_masked(recorded: str, came: str) -> bool:
    """Return whether a recorded text is what came with its keys masked; any key fits, so that others can replay it."""
    parts = _MASK.split(recorded)
    if len(parts) == 1:
        return False
    return re.fullmatch(".+".join(map(re.escape, parts)), came, re.DOTALL) is not None


def _show(value: Any) -> str:
    if value is UNSET:
        return "nothing"
    text = known_keys.mask(msgspec.json.encode(value).decode())
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
