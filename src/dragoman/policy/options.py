"""Option tables of programs as text, and words checked against them.

A table is a list of options: `-a` and `--all` take no value, `-n=` and `--lines=` take one (attached or as the next
word), `--color=?` takes one only after `=`, `-#` is a number such as `-20`. Clusters of short options are taken apart.
Two readings: `operands_of` and its neighbours compare long options exactly, for lists of what is allowed;
`parse_options` also takes unique beginnings of long options, as most programs do, and returns one name for equal
options (`-r|-R|--recursive`). There `!` after an option states that it names code or a program, `~NAME` that its value
is KEY=VALUE, and `-*` that options which are not listed run nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER: Final = re.compile(r"-[0-9]+")
_OPTION: Final = re.compile(r"(.+?)(=\??|)(?:(!)|~(\w+))?")


class OptionTable(Struct, frozen=True):
    """The options that a program may be given here.

    `equal` has the one name of every option, `keys` the list of keys that values of an option may have.
    """

    flags: frozenset[str]
    valued: frozenset[str]
    optional: frozenset[str]
    running: frozenset[str]
    equal: dict[str, str]
    keys: dict[str, str]
    has_numbers: bool
    is_open: bool


@lru_cache(maxsize=512)
def read_options(text: str) -> OptionTable:
    """Parse a table."""
    sets: dict[str, set[str]] = {"": set(), "=": set(), "=?": set(), "!": set()}
    equal: dict[str, str] = {}
    keys: dict[str, str] = {}
    for word in text.split():
        if word in ("-#", "-*"):
            continue
        names, value, mark, key = _OPTION.fullmatch(word).groups()  # type: ignore[union-attr]  # matches any word
        for name in names.split("|"):
            sets[value].add(name)
            equal[name] = equal.get(names.partition("|")[0], names.partition("|")[0])
            if mark:
                sets["!"].add(name)
            if key:
                keys[name] = key
    return OptionTable(
        flags=frozenset(sets[""]),
        valued=frozenset(sets["="]),
        optional=frozenset(sets["=?"]),
        running=frozenset(sets["!"]),
        equal=equal,
        keys=keys,
        has_numbers="-#" in text.split(),
        is_open="-*" in text.split(),
    )


class Parsed(Struct, frozen=True):
    """The words after a program, read by its table.

    Attributes:
        options: the one name of each option that is given, with its value.
        operands: the indexes of the words that are not options.
        unlisted: the first option that is not in the table.
        running: the first option that names code or a program.
        keyed: options whose value is KEY=VALUE: the list of keys, the value.
    """

    options: tuple[tuple[str, str | None], ...]
    operands: tuple[int, ...]
    unlisted: str = ""
    running: str = ""
    keyed: tuple[tuple[str, str], ...] = ()


def parse_options(table: OptionTable, words: Sequence[str], *, stops_early: bool = False, last: str = "") -> Parsed:
    """Return what is given in the words. An option that is not in the table is read as one without a value.

    `stops_early`: the first operand ends the options; so does the option `last`.
    """
    options: list[tuple[str, str | None]] = []
    operands: list[int] = []
    unlisted = running = ""
    keyed: list[tuple[str, str]] = []
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            options.append((word, None))
            operands += range(index + 1, len(words))
            break
        if not (len(word) > 1 and word[0] == "-") and word not in table.equal:
            if stops_early:
                operands += range(index, len(words))
                break
            operands.append(index)
            index += 1
            continue
        index += 1
        for name, value in _given(table, word):
            if name is None:
                unlisted = unlisted or word
                options.append((word.partition("=")[0], None))
                continue
            given = value
            if given is None and name in table.valued and index < len(words):
                given = words[index]
                index += 1
            if name in table.flags and given is not None and given.lower() in ("false", "0", "no"):
                continue
            options.append((table.equal.get(name, name), None if name in table.flags else given))
            if name in table.running:
                running = running or word
            if name in table.keys:
                keyed.append((table.keys[name], given or ""))
            if last and name == last:
                operands += range(index, len(words))
                index = len(words)
    return Parsed(tuple(options), tuple(operands), unlisted, running, tuple(keyed))


def _given(table: OptionTable, word: str) -> list[tuple[str | None, str | None]]:
    """Return the options in one word, each with the value that is attached to it; None for one that is not known."""
    if word in table.equal:
        return [(word, None)]
    if table.has_numbers and _NUMBER.fullmatch(word):
        return [("-#", word[1:])]
    name, equals, value = word.partition("=")
    attached = value if equals else None
    if name in table.equal:
        return [(name, attached)]
    if word.startswith("--"):
        found = {table.equal[option] for option in table.equal if option.startswith(name)}
        if len(found) == 1:
            return [(found.pop(), attached)]
        is_negated = name.startswith("--no-") and f"--{name[5:]}" in table.equal
        return [(name if is_negated else None, attached)]
    options: list[tuple[str | None, str | None]] = []
    for place, letter in enumerate(word[1:], start=1):
        option = f"-{letter}"
        if option not in table.equal:
            return [*options, (None, None)]
        if option in table.flags:
            options.append((option, None))
            continue
        rest = word[place + 1 :]
        return [*options, (option, rest.removeprefix("=") if rest else None)]
    return options


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
