"""What a command really runs: one program with literal words, or a line that no rule about words can cover.

Owns a parser of shell lines that is much stricter than a shell: a line that is not clearly one simple command is
"not readable" here, which means that the user is asked. Which programs run other programs belongs to `programs.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.policy.programs import SHELLS, runs_anything

if TYPE_CHECKING:
    from collections.abc import Iterator

# Outside quotes each of these makes a shell do more than pass on a word: operators, substitution, redirection, groups,
# globs, home folders, comments, history, escapes, Bourne's old pipe.
_ACTIVE: Final = frozenset(";&|<>(){}$`*?[]~#!^\\")
_ACTIVE_IN_DOUBLE_QUOTES: Final = frozenset("$`\\!")
_SEPARATORS: Final = re.compile(r"[;&|\n\r(){}`<>]|\$(?=\()")
_SHELL_PLACES: Final = frozenset({"", "/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"})
_SHELL_FLAGS: Final = re.compile(r"-[eilux]+")
_SHELL_COMMAND_FLAGS: Final = re.compile(r"-[eilux]*c")
# They only read the files they are given.
_READERS: Final = frozenset(("cat", "cmp", "diff", "file", "grep", "head", "ls", "stat", "tail", "wc"))


class CommandPattern(Struct, frozen=True):
    """The pattern of an `execute` rule: `npm test` (exactly these words) or `npm test *` (these words first)."""

    words: tuple[str, ...]
    is_prefix: bool

    @property
    def is_everything(self) -> bool:
        """Whether it is `*`, which covers every command line."""
        return not self.words


def simple_command(line: str) -> tuple[str, ...] | None:
    """The words of a shell line, if it is one simple command of literal words; None otherwise."""
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


def unwrap(argv: tuple[str, ...]) -> str | None:
    """The line in `bash -lc LINE`, as agents pass a shell line in the form of words; None for anything else."""
    place, _, program = argv[0].rpartition("/") if argv else ("", "", "")
    if program not in SHELLS or place not in _SHELL_PLACES or (not place and "/" in argv[0]):
        return None
    rest = list(argv[1:])
    while len(rest) > 2 and _SHELL_FLAGS.fullmatch(rest[0]):
        rest.pop(0)
    return rest[1] if len(rest) == 2 and _SHELL_COMMAND_FLAGS.fullmatch(rest[0]) else None


def effective(command: tuple[str, ...] | None, shell: str | None) -> tuple[tuple[str, ...] | None, str | None]:
    """(words, line): the words that a command runs after unwrapping shells, or the line that is not readable."""
    words, line = (None, shell) if shell is not None else (command, None)
    for _ in range(4):  # a shell in a shell in a shell is not a simple command
        if line is not None:
            words = simple_command(line)
            if words is None:
                return None, line
        line = unwrap(words) if words else None
        if line is None:
            return words or None, None
    return None, line


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


def covers(pattern: CommandPattern, words: tuple[str, ...]) -> bool:
    """Whether an allow covers these words: all of them, or first words that state what the command does."""
    if not pattern.is_prefix:
        return words == pattern.words
    return words[: len(pattern.words)] == pattern.words and (pattern.is_everything or runs_anything(words) is None)


def touches(pattern: CommandPattern, command: tuple[str, ...] | None, shell: str | None) -> bool:
    """Whether a deny or ask rule matches any part of the line, under any path, behind any wrapper."""
    if pattern.is_everything:
        return True
    return any(_resembles(pattern, words) for words in _parts(command, shell))


def _resembles(pattern: CommandPattern, words: tuple[str, ...]) -> bool:
    first = words[0].rpartition("/")[2] == pattern.words[0] or words[0] == pattern.words[0]
    rest = words[1 : len(pattern.words)] if pattern.is_prefix else words[1:]
    return first and rest == pattern.words[1:]


def _parts(command: tuple[str, ...] | None, shell: str | None) -> Iterator[tuple[str, ...]]:
    """Every part of a command that might be run as a command: rather too many than too few."""
    words, line = effective(command, shell)
    if words is not None:
        yield from _behind_wrappers(words)
    for text in (line, *(words or ())):
        if text is None or (text is not line and not _SEPARATORS.search(text) and " " not in text):
            continue
        for part in _SEPARATORS.split(text):
            loose = part.translate({ord(mark): None for mark in "'\"\\"}).split()
            while loose and "=" in loose[0]:
                loose.pop(0)
            if loose:
                yield from _behind_wrappers(tuple(loose))


def _behind_wrappers(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield words
    if runs_anything(words) is not None:
        for start in range(1, len(words)):
            yield words[start:]


def words_of(command: tuple[str, ...] | None, shell: str | None) -> Iterator[str]:
    """Every word that might name a file to change, including the value of `--option=value`."""
    words, line = effective(command, shell)
    if words is not None and words[0] in _READERS:
        return
    # The path of the program itself is not a path that it changes.
    found = words[1:] if words is not None else re.split(r"[\s;&|(){}`<>\"']+", line or "")
    for word in found:
        yield word
        _, equals, value = word.partition("=")
        if equals:
            yield value


def quote(words: tuple[str, ...]) -> str | None:
    """The inverse of `simple_command`: a line that it reads as these words; None if there is none."""
    quoted = []
    for word in words:
        if "'" in word and any(mark in word for mark in '"$`\\!'):
            return None
        mark = '"' if "'" in word else "'"
        is_plain = word and not (_ACTIVE & set(word)) and not set(word) & set("'\" \t") and word[0] not in "=%"
        quoted.append(word if is_plain else f"{mark}{word}{mark}")
    line = " ".join(quoted)
    return line if simple_command(line) == words else None
