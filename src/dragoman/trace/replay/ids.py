"""Maps ids in a recording to ids of the live run.

Owns which members have ids that one side makes up and the other repeats, their translation, and the rewriting of a
recorded line with them. Ids with a meaning (modes, options) are left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

if TYPE_CHECKING:
    from dragoman.wire import Id

_MADE_UP: Final = frozenset(
    {"sessionId", "toolCallId", "messageId", "terminalId", "compactionId", "elicitationId", "planId"}
)
_MADE_UP_ENDS: Final = ("SessionId", "MessageId")

_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode


def is_made_up(member: str) -> bool:
    """Whether a member has an id without a meaning of its own."""
    return member in _MADE_UP or member.endswith(_MADE_UP_ENDS)


class IdMap:
    """Pairs of a recorded id and its live id."""

    def __init__(self) -> None:
        self._to_live: dict[str, str] = {}
        self._to_recorded: dict[str, str] = {}
        self._has_changes = False  # whether any live id differs from its recorded one

    def may_be(self, recorded: str, live: str) -> bool:
        """Whether the two ids can stand for the same thing, as far as is known."""
        known = self._to_live.get(recorded)
        return known == live if known is not None else live not in self._to_recorded

    def learn(self, recorded: Any, live: Any) -> None:
        """Learn from two messages that stand for each other: ids at the same place name the same thing."""
        if isinstance(recorded, dict) and isinstance(live, dict):
            for member, one in recorded.items():
                other = live.get(member)
                if is_made_up(member) and isinstance(one, str) and isinstance(other, str):
                    if one not in self._to_live and other not in self._to_recorded:
                        self._to_live[one] = other
                        self._to_recorded[other] = one
                        self._has_changes = self._has_changes or one != other
                else:
                    self.learn(one, other)
        elif isinstance(recorded, list) and isinstance(live, list):
            for one, other in zip(recorded, live, strict=False):
                self.learn(one, other)

    def live(self, recorded: str) -> str:
        """Return the live id of a recorded one; itself if it is not known."""
        return self._to_live.get(recorded, recorded)

    def rewrite(self, line: bytes, id: Id | UnsetType = UNSET, request_id: Id | UnsetType = UNSET) -> bytes:
        """Write a recorded line with live ids.

        What need not change stays as it was written, to the byte.

        Args:
            line: The recorded line.
            id: The id of the message, if it must change.
            request_id: The value of its member `requestId`, if that must change.
        """
        if id is UNSET and request_id is UNSET and not self._has_changes:
            return line
        members = _decode_members(line)
        changed: dict[str, bytes] = {}
        if id is not UNSET:
            changed["id"] = msgspec.json.encode(id)
        for name in ("params", "result", "error"):
            if name in members:
                value = msgspec.json.decode(members[name])
                translated = self._translate(value)
                if request_id is not UNSET and isinstance(value, dict) and "requestId" in value:
                    translated = {**translated, "requestId": request_id}
                if translated is not value:
                    changed[name] = msgspec.json.encode(translated)
        changed = {name: text for name, text in changed.items() if text != bytes(members.get(name, b""))}
        if not changed:
            return line
        texts = [msgspec.json.encode(name) + b":" + changed.get(name, bytes(raw)) for name, raw in members.items()]
        return b"{" + b",".join(texts) + b"}"

    def _translate(self, value: Any) -> Any:
        """Return the value with live ids; the same object if none had to be changed."""
        if isinstance(value, dict):
            parts = {
                member: self.live(member_value)
                if isinstance(member_value, str) and is_made_up(member)
                else self._translate(member_value)
                for member, member_value in value.items()
            }
            return value if all(parts[member] is value[member] for member in value) else parts
        if isinstance(value, list):
            items = [self._translate(item) for item in value]
            return value if all(one is other for one, other in zip(items, value, strict=True)) else items
        return value
