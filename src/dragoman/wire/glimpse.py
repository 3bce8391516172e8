"""Guesses which request a broken message belongs to, from the two ends of its line.

Owns the guess at id and kind when a line cannot be decoded, so that one waiter fails instead of waiting forever.
Does not validate: what it does not understand makes the guess less precise, never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.wire.ids import Id, Kind

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^\s"{}\[\]:,]+', re.DOTALL)

# The last member of a JSON object is followed by nothing but that object's brace, so a line that ends like this has
# its id at the outermost level. `,` in front: a quote that closes a string is never followed by a name.
_LAST_ID: Final = re.compile(rb',\s*"id"\s*:\s*(-?\d+|"[^"\\]*(?:\\.[^"\\]*)*"|null)\s*\}\s*\Z', re.DOTALL)

# What shows the kind, the strongest sign first.
_KINDS: Final[dict[bytes, Kind]] = {
    b'"method"': "request",
    b'"result"': "response",
    b'"error"': "response",
    b'"params"': "request",
}

_decode_id: Callable[[bytes | msgspec.Raw], Id] = msgspec.json.Decoder(int | str | None).decode


class Glimpse(msgspec.Struct, frozen=True, gc=False):
    """What could be read: `id` is UNSET unless both the id and the kind were found."""

    kind: Kind = "unknown"
    id: Id | UnsetType = UNSET


def glimpse(head: bytes, tail: bytes = b"") -> Glimpse:
    """Read id and kind from the first (and last) bytes of a line that cannot be decoded.

    The line must start as an object. An agent that logs its frames to stdout (`sent {"id":3,...`) would otherwise
    make us fail the waiter whose real answer follows. An id without a kind is not returned: the ids of the two
    directions are independent (rule 27), and the wrong request would fail.
    """
    members = _outer_members(head)
    kind = next((_KINDS[name] for name in _KINDS if name in members), None)
    if kind is None:
        return Glimpse()
    id = read_id(members[b'"id"']) if b'"id"' in members else UNSET
    if id is UNSET and (last := _LAST_ID.search(tail)):
        id = read_id(last[1])
    return Glimpse(kind, id)


def read_id(text: bytes | msgspec.Raw) -> Id | UnsetType:
    """Return the id written as `text`; UNSET for anything but a string, an integer or null (rule 20)."""
    try:
        return _decode_id(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UNSET


def _outer_members(head: bytes) -> dict[bytes, bytes]:
    """Return the members of the outermost object as they are written.

    A value that is not a scalar, or is cut, is empty.
    """
    members: dict[bytes, bytes] = {}
    depth = 0
    name: bytes | None = None  # set between a member's colon and its end
    before = value = b""
    for match in _TOKEN.finditer(head):
        token = match[0]
        if depth == 0 and token != b"{":
            break
        if depth == 1 and token == b":" and name is None:
            name, value = before, b""
            members[name] = b""
        elif depth == 1 and name is not None and token in b",}":
            members[name] = value
            name = None
        elif depth == 1:
            value = token
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
            if not depth:
                break
        before = token
    return members
