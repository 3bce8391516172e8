"""Wildcard patterns as regular expressions: git's ignore patterns, and globs, which add braces.

Pure. `*` and `?` match within one path component, `**` between slashes matches any number of folders, `[a-z]`, `[!a]`
and `[[:alpha:]]` match one character, and a backslash takes the next character literally.
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
# An element of a set: a class, or a character with an optional range. `]` is an ordinary character in the first place.
_ITEM: Final = r"\[:[^\]:]{0,20}:\]|(?:\\.|[^\]\\])(?:-(?:\\.|[^\]\\]))?"
# The parts of a set are possessive: giving one back would close the set at a bracket that git takes for a character.
_TOKEN: Final = re.compile(
    rf"""(?P<folders>(?:^|(?<=/))\*\*+/) | (?P<below>(?:^|(?<=/))\*\*+\Z) | (?P<stars>\*+) | (?P<any>\?)
    | \[(?P<negation>[!^]?+)(?P<items>(?:\](?:-(?:\\.|[^\]\\]))?)?+(?:{_ITEM})*+)\]
    | \\(?P<escaped>.) | (?P<plain>[^*?\[\\]+)""",
    re.VERBOSE | re.DOTALL,
)
_ITEMS: Final = re.compile(r"\[:(?P<name>[^\]:]{0,20}):\]|\\?(?P<low>.)(?:-\\?(?P<high>.))?", re.DOTALL)
_BRACES: Final = re.compile(r"((?:\\.|[^\\])*?)\{((?:\\.|[^\\{}])*)\}", re.DOTALL)
_ALTERNATIVE: Final = re.compile(r"((?:\\.|[^\\,])*),", re.DOTALL)
_WILDCARD: Final = re.compile(r"[*?\[\\{]")
_MOST_ALTERNATIVES: Final = 256


def has_wildcards(text: str) -> bool:
    return _WILDCARD.search(text) is not None


def to_regex(pattern: str) -> str | None:
    """Return a regular expression for a whole path, or None for a pattern that can match nothing."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None  # a set without an end, or a backslash without a character
        at = token.end()
        match token.lastgroup:
            case "folders":
                parts.append("(?:.*/)?")  # the slash included: `a/**/b` also matches `a/b`
            case "below":
                parts.append(".*")
            case "stars":
                parts.append("[^/]*")
            case "any":
                parts.append("[^/]")
            case "items":
                characters = _set(token["items"])
                if characters is None:
                    return None
                parts.append(f"[^/{characters}]" if token["negation"] else f"(?!/)[{characters}]")
            case _:
                parts.append(re.escape(token["escaped"] or token["plain"]))
    return "".join(parts)


def _set(items: str) -> str | None:
    """Return the inside of a regular expression's set, or None if it names an unknown class."""
    parts = []
    for item in _ITEMS.finditer(items):
        name, low, high = item["name"], item["low"], item["high"]
        if name is not None:
            if name not in _CLASSES:
                return None
            parts.append(_CLASSES[name])
        elif high is None or low > high:
            parts.append(re.escape(low))  # git takes the first character of an empty range as itself
        else:
            parts.append(f"{re.escape(low)}-{re.escape(high)}")
    return "".join(parts)


class GlobPattern:
    """A glob over paths relative to a folder. Without a slash it matches in every folder, unless `is_anchored`.

    Raises: ValueError for a glob that can match nothing.
    """

    __slots__ = ("_regex", "names_hidden")

    def __init__(self, glob: str, *, is_anchored: bool = False) -> None:
        plain = glob.removeprefix("./").removeprefix("/") + ("**" if glob.endswith("/") else "")
        found = [to_regex(alternative) for alternative in expand(plain)]
        if not plain or None in found:
            raise ValueError(f"{glob!r} is not a glob; write it like **/*.py or src/*.{{ts,tsx}}")
        anywhere = "" if is_anchored or "/" in glob else "(?:.*/)?"
        self._regex = re.compile(anywhere + "(?:" + "|".join(regex for regex in found if regex) + ")", re.DOTALL)
        self.names_hidden = any(part.startswith(".") for part in plain.split("/"))

    def matches(self, relative: str) -> bool:
        return self._regex.fullmatch(relative) is not None


def expand(glob: str) -> list[str]:
    """Return every combination of the alternatives in braces, without duplicates."""
    found: dict[str, None] = {}
    waiting = [glob]
    while waiting:
        braces = _BRACES.match(current := waiting.pop())
        if braces is None:
            found[current] = None
        else:
            before, after = braces[1], current[braces.end() :]
            waiting += [before + alternative + after for alternative in reversed(_ALTERNATIVE.findall(braces[2] + ","))]
        if len(found) + len(waiting) > _MOST_ALTERNATIVES:
            raise ValueError(f"the glob has more than {_MOST_ALTERNATIVES} alternatives; use a simpler one")
    return list(found)
