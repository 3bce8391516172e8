"""JSON that is still incomplete: the arguments of a tool call while the model streams them.

A member whose value is not certain yet is left out; nothing is invented.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

_CLOSERS: Final = {"{": "}", "[": "]"}
_HALF_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?$")
# A first half of a surrogate pair whose second half has not arrived.
_HALF_PAIR: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?$")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\(?:.|$))*("|$)|[{}\[\],:]', re.DOTALL)


def parse_partial(text: str, *, is_strict: bool = False) -> dict[str, Any] | None:
    """Return the members of an object that may be cut off anywhere; None if nothing is certain yet.

    Args:
        is_strict: leave out a string or number that may go on, such as the first half of a path.
    """
    whole = _decoded(text)
    if whole is not None:
        return whole
    stack: list[str] = []
    wants_key = False  # the next string is a member's name
    cut, cut_stack = 0, ""  # up to here everything is complete; these brackets are open then
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] == '"':
            is_name = wants_key and bool(stack) and stack[-1] == "{"
            if match[1] != '"' and is_strict:
                break
            if match[1] != '"':
                return _close(_end_string(text), stack) if not is_name else _close(text[:cut], cut_stack)
            if not is_name:
                cut, cut_stack = match.end(), "".join(stack)
        elif token in _CLOSERS:
            stack.append(token)
            wants_key = token == "{"
            cut, cut_stack = match.end(), "".join(stack)
        elif token in "}]":
            if not stack:
                return None
            stack.pop()
            wants_key = False
            cut, cut_stack = match.end(), "".join(stack)
        elif token == ",":
            wants_key = bool(stack) and stack[-1] == "{"
            cut, cut_stack = match.start(), "".join(stack)
        else:
            wants_key = False
    return (None if is_strict else _close(text, stack)) or _close(text[:cut], cut_stack)


def _end_string(text: str) -> str:
    """Close the string in which the text breaks off, without an incomplete escape at its end."""
    for half in (_HALF_PAIR, _HALF_ESCAPE):
        found = half.search(text)
        # After an even number of backslashes it is not an escape.
        if found and (len(text[: found.start()]) - len(text[: found.start()].rstrip("\\"))) % 2 == 0:
            return text[: found.start()] + '"'
    return text + '"'


def _close(text: str, stack: list[str] | str) -> dict[str, Any] | None:
    return _decoded(text + "".join(_CLOSERS[bracket] for bracket in reversed(stack)))


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
