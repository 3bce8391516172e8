"""Wildcards to regular expressions, as git reads them; with braces, as people write them in globs.

Pure. `*` and `?` stay within one name, `**` between slashes crosses folders, `[a-z]`, `[!a]` and `[[:alpha:]]` are one
letter, a backslash takes the next letter as it is.
"""

from __future__ import annotations

import re
from typing import Final

_CLASSES: Final = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "a-fA-F0-9",
}
_MOST_ALTERNATIVES: Final = 256


def has_wildcards(text: str, letters: str = "*?[\\{") -> bool:
    return any(letter in text for letter in letters)


def to_regex(pattern: str) -> str | None:
    """A regular expression for the whole of a path; None for a pattern that can match nothing."""
    parts: list[str] = []
    at, end = 0, len(pattern)
    while at < end:
        letter = pattern[at]
        if letter == "*":
            stop = at
            while stop < end and pattern[stop] == "*":
                stop += 1
            at = _stars(pattern, at, stop, parts)
            continue
        if letter == "?":
            parts.append("[^/]")
        elif letter == "[":
            found = _bracket(pattern, at)
            if found is None:
                return None
            part, at = found
            parts.append(part)
            continue
        elif letter == "\\":
            at += 1
            if at == end:
                return None
            parts.append(re.escape(pattern[at]))
        else:
            parts.append(re.escape(letter))
        at += 1
    return "".join(parts)


def _stars(pattern: str, at: int, stop: int, parts: list[str]) -> int:
    """Adds what the stars from `at` to `stop` mean; returns where to go on."""
    stands_alone = (at == 0 or pattern[at - 1] == "/") and (stop == len(pattern) or pattern[stop] == "/")
    if stop - at < 2 or not stands_alone:
        parts.append("[^/]*")
        return stop
    if stop == len(pattern):
        parts.append(".*")
        return stop
    parts.append("(?:.*/)?")  # with the slash behind it: `a/**/b` is also `a/b`
    return stop + 1


def _bracket(pattern: str, at: int) -> tuple[str, int] | None:
    """The set of letters that begins at `at`, and where it ends; None if it does not."""
    end = at + 1
    is_negated = pattern[end : end + 1] in ("!", "^")
    if is_negated:
        end += 1
    first = end
    items: list[str] = []
    while True:
        if end >= len(pattern):
            return None
        letter = pattern[end]
        if letter == "]" and end > first:
            break
        if letter == "[" and pattern[end + 1 : end + 2] == ":":
            close = pattern.find(":]", end + 2)
            if close < 0 or pattern[end + 2 : close] not in _CLASSES:
                return None
            items.append(_CLASSES[pattern[end + 2 : close]])
            end = close + 2
            continue
        found = _range(pattern, end)
        if found is None:
            return None
        item, end = found
        items.append(item)
    inside = "".join(items)
    if is_negated:
        return f"[^/{inside}]", end + 1
    return (f"(?!/)[{inside}]" if inside else "(?!)"), end + 1


def _range(pattern: str, at: int) -> tuple[str, int] | None:
    """One letter of a set, or two with a dash between."""
    found = _letter(pattern, at)
    if found is None:
        return None
    low, at = found
    if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
        found = _letter(pattern, at + 1)
        if found is None:
            return None
        high, at = found
        return (f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""), at
    return re.escape(low), at


def _letter(pattern: str, at: int) -> tuple[str, int] | None:
    if pattern[at] == "\\":
        at += 1
    return (pattern[at], at + 1) if at < len(pattern) else None


class Glob:
    """A glob over paths relative to a folder. Without a slash, or with `is_anywhere`, it may begin in any folder.

    Raises: ValueError for a glob that can match nothing.
    """

    __slots__ = ("_regex", "names_hidden")

    def __init__(self, glob: str, *, is_anchored: bool = False) -> None:
        plain = glob.removeprefix("./").removeprefix("/") + ("**" if glob.endswith("/") else "")
        found = [to_regex(alternative) for alternative in expand(plain)]
        if not plain or None in found:
            raise ValueError(f"{glob!r} is no glob; write it like **/*.py or src/*.{{ts,tsx}}")
        anywhere = "" if is_anchored or "/" in glob else "(?:.*/)?"
        self._regex = re.compile(anywhere + "(?:" + "|".join(regex for regex in found if regex) + ")", re.DOTALL)
        self.names_hidden = any(part.startswith(".") for part in plain.split("/"))

    def matches(self, relative: str) -> bool:
        return self._regex.fullmatch(relative) is not None


def expand(glob: str) -> list[str]:
    """Every way to choose between the alternatives in braces."""
    opening = _next(glob, "{", 0)
    while opening >= 0:
        parts = _alternatives(glob, opening)
        if parts is not None:
            close, choices = parts
            rest = expand(glob[close + 1 :])
            found = [
                glob[:opening] + chosen + after for choice in choices for chosen in expand(choice) for after in rest
            ]
            if len(found) > _MOST_ALTERNATIVES:
                raise ValueError(f"the glob has more than {_MOST_ALTERNATIVES} alternatives; use a simpler one")
            return found
        opening = _next(glob, "{", opening + 1)
    return [glob]


def _next(glob: str, letter: str, at: int) -> int:
    """Where an unescaped letter stands."""
    while at < len(glob):
        if glob[at] == "\\":
            at += 1
        elif glob[at] == letter:
            return at
        at += 1
    return -1


def _alternatives(glob: str, opening: int) -> tuple[int, list[str]] | None:
    depth, start, at = 0, opening + 1, opening
    choices: list[str] = []
    while at < len(glob):
        letter = glob[at]
        if letter == "\\":
            at += 1
        elif letter == "{":
            depth += 1
        elif letter == "," and depth == 1:
            choices.append(glob[start:at])
            start = at + 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                choices.append(glob[start:at])
                return at, choices
        at += 1
    return None
