"""What came instead of what was recorded.

Owns the comparison of two messages and the sentence for each thing that is not the same. Pure; it does not know who
was playing whom.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from dragoman.trace.entry import Direction
from dragoman.trace.replay.ids import Names, is_made_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SHOWN_CHARACTERS: Final = 60

IGNORED: Final = (
    "initialize params.clientInfo.version",
    "initialize result.agentInfo.version",
    "* *.updatedAt",
    "* *.lastModified",
)
"""What changes by its nature, and is no difference."""

What: TypeAlias = Literal["changed", "missing", "unexpected", "order"]


class Difference(Struct, frozen=True, kw_only=True):
    """One thing that was not as recorded; as a string, a line for people.

    `missing`: a recorded line did not come. `unexpected`: one came that was not recorded. `changed`: the value at
    `path` of a line is another. `order`: a line came after one that it preceded in the recording.
    """

    what: What
    dir: Direction
    method: str
    """Of an answer, the method that was called; empty for a line that is no message."""
    kind: str
    """request, notification, response or raw."""
    number: int | None = None
    """Which entry of the recording, counted from 1 as in `dragoman inspect`; None for an unexpected line."""
    path: str = ""
    recorded: Any = UNSET
    came: Any = UNSET

    def __str__(self) -> str:
        name = {"response": f"answer to {self.method or 'nothing'}", "raw": "a line that is no message"}.get(
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
    """Compares messages, leaving out what need not be the same."""

    def __init__(self, names: Names, ignore: Sequence[str], *, only_shapes: bool = False) -> None:
        self._names = names
        # `*` is the only special character: paths have brackets of their own.
        patterns = [
            "".join(".*" if part == "*" else re.escape(part) for part in re.split(r"(\*)", one)) for one in ignore
        ]
        self._ignored = re.compile("|".join(patterns) or r"(?!)", re.DOTALL)
        self._only_shapes = only_shapes

    def changes(self, method: str, recorded: Any, came: Any) -> list[tuple[str, Any, Any]]:
        """Path, recorded and live value of everything that is not the same; UNSET for what is not there."""
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
        return bool(one == other)

    def _is_ignored(self, place: str) -> bool:
        return self._ignored.fullmatch(place) is not None


def _show(value: Any) -> str:
    if value is UNSET:
        return "nothing"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
