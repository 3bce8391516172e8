"""Option tables of programs as text, and words checked against them.

A table is a list of options: `-a` and `--all` take no value, `-n=` and `--lines=` take one (attached or as the next
word), `--color=?` takes one only after `=`, `-#` is a number such as `-20`. Long options are compared exactly and
clusters of short ones are taken apart, because programs do both. What an option does is not known here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER: Final = re.compile(r"-[0-9]+")


class OptionTable(Struct, frozen=True):
    """The options that a program may be given here."""

    flags: frozenset[str]
    valued: frozenset[str]
    optional: frozenset[str]
    has_numbers: bool


@lru_cache(maxsize=512)
def read_options(text: str) -> OptionTable:
    """Parse a table."""
    words = text.split()
    return OptionTable(
        frozenset(word for word in words if "=" not in word and word != "-#"),
        frozenset(word[:-1] for word in words if word.endswith("=")),
        frozenset(word[:-2] for word in words if word.endswith("=?")),
        "-#" in words,
    )


def operands_of(options: OptionTable, words: Sequence[str], *, stops_early: bool = False) -> list[int] | None:
    """Return the indexes of the words that are not options, or None if an option is not in the table.

    `stops_early`: the first operand ends the options, as in front of a subcommand.
    """
    found, unknown = _walk(options, words, stops_early)
    return found if unknown is None else None


def is_given(options: OptionTable, words: Sequence[str], names: frozenset[str]) -> bool:
    """Whether one of these options is among the words, alone, with its value or in a cluster."""
    index = 0
    while index < len(words) and words[index] != "--":
        word = words[index]
        used = _words_used(options, word) if len(word) > 1 and word[0] == "-" else None
        if used is not None and (word.partition("=")[0] in names or names & _cluster(options, word)):
            return True
        index += used or 1
    return False


def _cluster(options: OptionTable, word: str) -> frozenset[str]:
    """Return the short options of a cluster such as `-ne`; what follows one with a value is its value."""
    found: list[str] = []
    for letter in "" if word.startswith("--") else word[1:]:
        found.append(f"-{letter}")
        if found[-1] in options.valued or found[-1] in options.optional:
            break
    return frozenset(found)


def unknown_option(options: OptionTable, words: Sequence[str]) -> str | None:
    """Return the first option that is not in the table."""
    _, unknown = _walk(options, words, False)
    return None if unknown is None else words[unknown]


def _walk(options: OptionTable, words: Sequence[str], stops_early: bool) -> tuple[list[int], int | None]:
    found: list[int] = []
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            return [*found, *range(index + 1, len(words))], None
        if len(word) > 1 and word[0] == "-":
            used = _words_used(options, word)
            if used is None:
                return found, index
            index += used
            continue
        if stops_early:
            return list(range(index, len(words))), None
        found.append(index)
        index += 1
    return found, None


def _words_used(options: OptionTable, word: str) -> int | None:
    """Return how many words the option takes, None if it is not in the table."""
    if word in options.flags or word in options.optional or (options.has_numbers and _NUMBER.fullmatch(word)):
        return 1
    if word in options.valued:
        return 2
    name, equals, _ = word.partition("=")
    if equals and (name in options.valued or name in options.optional):
        return 1
    if word.startswith("--"):
        return None
    for place, letter in enumerate(word[1:], start=1):
        option = f"-{letter}"
        if option in options.valued:
            return 1 if place < len(word) - 1 else 2
        if option in options.optional:
            return 1
        if option not in options.flags:
            return None
    return 1
