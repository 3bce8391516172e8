"""Rules about the words of a command: the text of such a rule, and which parts an allow covers.

An allow is read narrowly: a part is covered only if its words are literally those of the rule. How widely a deny or ask
is read belongs to `concern.py`. The parts of a line come from `parts.py`, what programs run from `programs.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.policy import paths
from dragoman.policy.parts import unwrap
from dragoman.policy.programs import is_listed, runs_anything
from dragoman.policy.safe import only_reads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.policy.parts import Part, Reading

# Whether a deny or ask rule concerns a command. "maybe": it cannot be seen, so the user is asked.
Concern: TypeAlias = Literal["yes", "maybe", "no"]

# Outside quotes each of these makes a shell do more than pass on a word: operators, substitution, redirection, groups,
# globs, home folders, comments, history, escapes, Bourne's old pipe.
_ACTIVE: Final = frozenset(";&|<>(){}$`*?[]~#!^\\")
_ACTIVE_IN_DOUBLE_QUOTES: Final = frozenset("$`\\!")
_BETWEEN_WORDS: Final = re.compile(r"[\s;&|(){}`<>\"']+")
# A rule longer than this could not be read by its user.
_MAX_QUOTED: Final = 4_000
_GIT_PLAIN: Final = frozenset({"--no-pager", "-P", "--no-optional-locks"})


class CommandPattern(Struct, frozen=True):
    """The pattern of an `execute` rule: `npm test` (exactly these words) or `npm test *` (these words first)."""

    words: tuple[str, ...]
    is_prefix: bool

    @property
    def is_everything(self) -> bool:
        """Whether it is `*`, which covers every command line."""
        return not self.words


def simple_command(line: str) -> tuple[str, ...] | None:
    """Return the words of a shell line, if it is one simple command of literal words; None otherwise."""
    words = _split(line)
    # `A=b cmd` sets a variable first; zsh replaces `=cmd` by a path.
    if not words or "=" in words[0] or not words[0]:
        return None
    return tuple(words)


def _split(line: str) -> list[str] | None:
    # Not printable: control characters, line breaks of any kind, invisible and direction marks.
    if not line.replace("\t", " ").isprintable():
        return None
    words: list[str] = []
    word: str | None = None  # None between words; "" is a word when it was quoted
    quote = ""
    for letter in line:
        if quote:
            if letter == quote:
                # fish reads a backslash before the closing quote as an escape: there the quote does not end.
                if word and word.endswith("\\"):
                    return None
                quote = ""
            elif quote == '"' and letter in _ACTIVE_IN_DOUBLE_QUOTES:
                return None
            else:
                word = (word or "") + letter
        elif letter in "'\"":
            quote, word = letter, word or ""
        elif letter in " \t":
            if word is not None:
                words.append(word)
            word = None
        elif letter in _ACTIVE or (word is None and letter in "=%"):
            return None
        else:
            word = (word or "") + letter
    if quote:
        return None
    return words if word is None else [*words, word]


def read_command_pattern(text: str) -> CommandPattern:
    """Parse the pattern of an `execute` rule. Raises: ValueError with the rest of a sentence about the rule."""
    stripped = text.strip()
    if stripped == "*":
        return CommandPattern((), is_prefix=True)
    is_prefix = stripped.endswith((" *", "\t*"))
    words = simple_command(stripped[:-1] if is_prefix else stripped)
    if words is None:
        raise ValueError(
            "is not one simple command of literal words; quote what is meant literally, and end it with ` *` "
            "to cover more words, as in execute:npm test *"
        )
    return CommandPattern(words, is_prefix)


def check_allow(pattern: CommandPattern) -> None:
    """Raises: ValueError for an allow that would cover more than it shows."""
    if pattern.is_everything:
        return
    if unwrap(pattern.words) is not None:
        raise ValueError("wraps a command in a shell; write that command itself, it is found inside the shell")
    why = runs_anything(pattern.words) if pattern.is_prefix else None
    if why is not None:
        raise ValueError(f"would trust too much: {why}; write the whole command, without the ` *`")


def covers(pattern: CommandPattern, part: Part) -> bool:
    """Whether an allow covers this part: all of its words, or first words that state what the command does."""
    if pattern.is_everything:
        return True
    words = _without_pager(part.argv)
    if not has_harmless_variables(part):
        return False
    if not pattern.is_prefix:
        return words == pattern.words and not part.has_glob
    if words[: len(pattern.words)] != pattern.words or not is_plain(part):
        return False
    if len(words) == len(pattern.words) or is_listed(words) is not None:  # of those the options are known already
        return True
    from dragoman.policy.identify import adds_nothing  # the table takes a moment to load

    return adds_nothing(pattern.words, part)


def is_plain(part: Part) -> bool:
    """Whether the first words of this part state what it does, whatever the globs in it stand for."""
    words = _without_pager(part.argv)
    if any(word.fixed is not None and (not word.fixed or word.fixed[0] == "-") for word in part.command.words):
        return False
    return has_harmless_variables(part) and runs_anything(words) is None


def has_harmless_variables(part: Part) -> bool:
    """Whether the assignments in front do not change what runs."""
    if not part.command.assignments:
        return True
    from dragoman.policy.known import is_harmless_variable  # the table takes a moment to load

    return all(is_harmless_variable(name) for name, _ in part.command.assignments)


def _without_pager(words: tuple[str, ...]) -> tuple[str, ...]:
    while words[0] == "git" and len(words) > 1 and words[1] in _GIT_PLAIN:
        words = (words[0], *words[2:])
    return words


def is_reading(part: Part) -> bool:
    """Whether this part only reads the files that its words name."""
    return part.argv[0] == "cd" or only_reads(part)


def words_of(reading: Reading) -> Iterator[str]:
    """Yield every word that might name a file to change, including the value of `--option=value`."""
    for part in reading.parts:
        if is_reading(part):
            continue
        # The path of the program itself is not a path that it changes.
        for word in part.argv[1:]:
            yield from _with_value(word)
    for word in set(_BETWEEN_WORDS.split(reading.text)) if reading.unreadable else ():
        if paths.is_worth_checking(word):
            yield from _with_value(word)


def _with_value(word: str) -> Iterator[str]:
    yield word
    _, equals, value = word.partition("=")
    if equals:
        yield value


def quote(words: tuple[str, ...]) -> str | None:
    """Return a line that `simple_command` reads as these words, as its inverse; None if there is none."""
    quoted = []
    if sum(map(len, words)) > _MAX_QUOTED:
        return None
    for word in words:
        if "'" in word and any(mark in word for mark in '"$`\\!'):
            return None
        mark = '"' if "'" in word else "'"
        is_plain = word and not (_ACTIVE & set(word)) and not set(word) & set("'\" \t") and word[0] not in "=%"
        quoted.append(word if is_plain else f"{mark}{word}{mark}")
    line = " ".join(quoted)
    return line if simple_command(line) == words else None
