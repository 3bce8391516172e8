"""A line as every other program would read it, or its refusal.

A line passes on as the bytes it is, so the guard and its receiver must see the same message in it. JSON leaves open
what a repeated name means, and some parsers compare names without case: a line with two methods would be an update for
one program and a request for another. Such a line is malformed here. Does not know methods.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import INVALID_REQUEST
from dragoman.wire import Malformed, read_message

if TYPE_CHECKING:
    from msgspec import Raw

    from dragoman.wire import Message

# One of these is in every message, once. Quotes inside of texts are escaped, so a count finds names and short values.
_MARKS: Final = (b'"method"', b'"result"', b'"error"')
# Programs do not write letters as escapes; a name that is written so is meant to be overlooked.
_ESCAPED_LETTER: Final = (b"\\u004", b"\\u005", b"\\u006", b"\\u007")
_WHY: Final = "the message has the same member twice"


def read_unambiguous(line: bytes) -> Message:
    """Return the message of a line; one that another parser could read differently is malformed. Never raises."""
    message = read_message(line)
    if isinstance(message, Malformed):
        return message
    lowered = line.lower()
    is_plain = sum(map(lowered.count, _MARKS)) == 1 and not any(map(lowered.count, _ESCAPED_LETTER))
    if is_plain or _has_distinct_members(line):
        return message
    return Malformed(line, _WHY, INVALID_REQUEST)


def unambiguous_params(params: bytes | Raw) -> bytes:
    """Return the params of a request as they came if every program reads the same in them, else each name once.

    Raises: MsgspecError or RecursionError if they cannot be read at all.
    """
    given = bytes(params)
    try:
        _distinct(given.decode())
    except _Twice:
        return msgspec.json.encode(msgspec.json.decode(given))
    return given


def _has_distinct_members(line: bytes) -> bool:
    """Whether the names of the outermost object differ, whatever their case."""
    try:
        # The hook is called for every object; the outermost one is last and becomes the value.
        pairs: Any = _pairs(line.decode())
    except (ValueError, RecursionError):
        return False
    names = [name.casefold() for name, _ in pairs]
    return len(set(names)) == len(names)


class _Twice(Exception):
    pass


def _refuse_twice(members: list[tuple[str, Any]]) -> None:
    if len({name.casefold() for name, _ in members}) != len(members):
        raise _Twice


_pairs: Final = json.JSONDecoder(object_pairs_hook=list).decode
_distinct: Final = json.JSONDecoder(object_pairs_hook=_refuse_twice).decode
