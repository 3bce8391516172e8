"""Rules about the words of a command: the text of such a rule, which parts an allow covers, which a deny concerns.

An allow is read narrowly: a part is covered only if its words are literally those of the rule. A deny or ask is read
widely: in any part, behind wrappers, with options before the subcommand, in any spelling; and where it cannot be seen
whether it applies, it may. The parts of a line come from `parts.py`, what programs run from `programs.py`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.policy import paths
from dragoman.policy.parts import unwrap
from dragoman.policy.programs import hides_what_runs, is_code_runner, is_risky_variable, name_of, runs_anything, wrapped
from dragoman.policy.safe import is_reader, only_reads
from dragoman.policy.subcommands import has_subcommands, subcommand_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.policy.parts import Part, Reading

# Whether a deny or ask rule concerns a command. "maybe": it cannot be seen, so the user is asked.
Concern: TypeAlias = Literal["yes", "maybe", "no"]

# Outside quotes each of these makes a shell do more than pass on a word: operators, substitution, redirection, groups,
# globs, home folders, comments, history, escapes, Bourne's old pipe.
_ACTIVE: Final = frozenset(";&|<>(){}$`*?[]~#!^\\")
_ACTIVE_IN_DOUBLE_QUOTES: Final = frozenset("$`\\!")
_BETWEEN_WORDS: Final = re.compile(r"[\s;&|(){}`<>\"']+")
# Turns a text that cannot be read into pieces, one per line: cut at operators.
_PIECES: Final = str.maketrans(dict.fromkeys(";&|\r(){}`<>", "\n"))
# Variables that do not change which program runs or where it writes.
_HARMLESS_VARIABLES: Final = re.compile(
    r"CI|NODE_ENV|FORCE_COLOR|NO_COLOR|CLICOLOR|TERM|LANG|LANGUAGE|LC_[A-Z]+|TZ|COLUMNS|LINES|RUST_LOG|RUST_BACKTRACE|"
    r"PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|DEBUG|VERBOSE"
)
# A rule longer than this could not be read by its user.
_MAX_QUOTED: Final = 4_000
# How many pieces of a text that cannot be read are searched for the command of a deny; such a text asks anyway.
_MAX_LOOSE: Final = 500
_GIT_PLAIN: Final = frozenset({"--no-pager", "-P", "--no-optional-locks"})
# How far options in front of a subcommand are looked for: keeps hostile lines from costing time.
_MAX_OPTIONS: Final = 64


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
    return words[: len(pattern.words)] == pattern.words and is_plain(part)


def is_plain(part: Part) -> bool:
    """Whether the first words of this part state what it does, whatever the globs in it stand for."""
    words = _without_pager(part.argv)
    if any(word.fixed is not None and (not word.fixed or word.fixed[0] == "-") for word in part.command.words):
        return False
    return has_harmless_variables(part) and runs_anything(words) is None


def has_harmless_variables(part: Part) -> bool:
    """Whether the assignments in front do not change what runs."""
    return all(_HARMLESS_VARIABLES.fullmatch(name) for name, _ in part.command.assignments)


def _without_pager(words: tuple[str, ...]) -> tuple[str, ...]:
    while words[0] == "git" and len(words) > 1 and words[1] in _GIT_PLAIN:
        words = (words[0], *words[2:])
    return words


def concern(pattern: CommandPattern, reading: Reading) -> Concern:
    """Return whether a deny or ask rule concerns any part of the command, under any path, behind any wrapper."""
    if pattern.is_everything:
        return "yes"
    if reading.unreadable:
        return "yes" if _runs_in(pattern, reading.text) else "maybe"
    found = {_concern_part(pattern, part) for part in reading.parts}
    return "yes" if "yes" in found else "maybe" if "maybe" in found else "no"


def _concern_part(pattern: CommandPattern, part: Part) -> Concern:
    words = part.argv
    if _matches_at(pattern, words, 0):
        return "yes"
    program, wanted = name_of(words[0]), name_of(pattern.words[0])
    is_code = is_code_runner(program)
    if is_code or runs_anything(words) is not None:
        texts = [item.target.text for item in part.command.redirections if item.operator == "<<"] if is_code else []
        if _occurs(pattern, words) or any(_runs_in(pattern, text) for text in (*words[1:], *texts)):
            return "yes"
    inner = wrapped(words)
    if inner is not None and _occurs(pattern, inner):
        return "yes"
    if hides_what_runs(words) is not None or any(is_risky_variable(name) for name, _ in part.command.assignments):
        return "maybe"
    if program == wanted:
        return "maybe" if _may_match(pattern, part) else "no"
    if inner is not None and name_of(inner[0]) == wanted:
        return "maybe"
    return "maybe" if not is_reader(program) and _names_program(pattern, program, words) else "no"


def _occurs(pattern: CommandPattern, words: Sequence[str]) -> bool:
    """Whether the command of the rule stands anywhere in these words."""
    wanted = name_of(pattern.words[0])
    return any(wanted in word.lower() and _matches_at(pattern, words, n) for n, word in enumerate(words))


def _runs(pattern: CommandPattern, words: tuple[str, ...]) -> bool:
    """Whether these words, taken as a command, run that of the rule."""
    return _matches_at(pattern, words, 0) or (_occurs(pattern, words) and runs_anything(words) is not None)


def _matches_at(pattern: CommandPattern, words: Sequence[str], start: int) -> bool:
    program = name_of(pattern.words[0])
    if name_of(words[start]) != program:
        return False
    rest = pattern.words[1:]
    places = [1, subcommand_index(program, words[start : start + _MAX_OPTIONS])]
    for place in places:
        if place is None:
            continue
        first = start + place
        if not pattern.is_prefix and len(words) - first != len(rest):
            continue
        if tuple(words[first : first + len(rest)]) == rest:
            return True
    return False


def _may_match(pattern: CommandPattern, part: Part) -> bool:
    """Whether a command of the rule's program may be the rule's command, though its words are not plainly so."""
    words, rest = part.argv, pattern.words[1:]
    program = name_of(words[0])
    if not rest:
        return False
    if part.has_glob and any(word.fixed is not None and rest[0].startswith(word.fixed) for word in part.command.words):
        return True
    if subcommand_index(program, words[:_MAX_OPTIONS]) is None:
        return True
    if has_subcommands(program) and len(rest) == 1:
        return False
    following = iter(words[1:])
    return all(word in following for word in rest)


def _names_program(pattern: CommandPattern, program: str, words: tuple[str, ...]) -> bool:
    """Whether a command that is not a known reader has the rule's program among its words: a wrapper not known here."""
    wanted = name_of(pattern.words[0])
    own = subcommand_index(program, words[:_MAX_OPTIONS]) if has_subcommands(program) else None
    for index, word in enumerate(words[1:], start=1):
        if wanted not in word.lower() or index == own:
            continue
        if name_of(word) == wanted:
            return True
        if not has_subcommands(program) and _runs_in(pattern, word):
            return True
    return False


def _runs_in(pattern: CommandPattern, text: str) -> bool:
    """Whether a shell might run the command of the rule somewhere in this text."""
    found = _pieces_with(name_of(pattern.words[0]), text)
    return any(_runs(pattern, words) for part in islice(found, _MAX_LOOSE) for words in _loose(part))


def _pieces_with(wanted: str, text: str) -> Iterator[str]:
    """Yield the pieces of a text between operators that contain a word, in any case. Fast for any text."""
    plain, folded = _cut(text)
    end = -1
    while (place := folded.find(wanted, end + 1)) >= 0:
        start = folded.rfind("\n", end + 1, place) + 1 or end + 1
        end = folded.find("\n", place)
        end = len(folded) if end < 0 else end
        yield plain[start:end]


@lru_cache(maxsize=8)
def _cut(text: str) -> tuple[str, str]:
    """Return a text with a line for each piece, as it is and in lower case, equally long. Every rule needs it again."""
    plain = text.replace("$(", "(").replace("'", "").replace('"', "").replace("\\", "").translate(_PIECES)
    folded = plain.lower()
    # A few letters become two in lower case.
    return (plain, folded) if len(folded) == len(plain) else (folded, folded)


def _loose(part: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of a piece of text between operators, without the assignments in front."""
    words = part.split()
    start = next((index for index, word in enumerate(words) if "=" not in word), len(words))
    if start < len(words):
        yield tuple(words[start : start + _MAX_LOOSE])


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
