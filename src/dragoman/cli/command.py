"""The declaration of a verb, used for parsing, help and completion.

Parsing is left to `argparse`. The help text is written here because it is compared with the documentation and must be
the same on every Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from dragoman.cli.exits import CliError

_WIDE: Final = 10_000  # one line for each option, as pages of the documentation have it
_WIDEST_NAME: Final = 28
_FEW_EXAMPLES: Final = 5


class CliOption(NamedTuple):
    """`--flag`, or `--flag VALUE` if `value` is set. A repeatable option gives a list of its values."""

    flag: str
    help: str
    value: str = ""
    choices: tuple[str, ...] = ()
    short: str = ""
    is_repeatable: bool = False
    suggest: Callable[[], tuple[str, ...]] | None = None
    has_optional_value: bool = False
    """Without a value it is the empty text."""
    is_everyday: bool = False
    """Whether it stands in the first part of the help, which is all that `--help` shows of a command with many."""

    @property
    def offered(self) -> tuple[str, ...]:
        """The words completion offers: the choices, or suggestions if any word is allowed."""
        return self.choices or (self.suggest() if self.suggest else ())

    @property
    def flags(self) -> tuple[str, ...]:
        return (self.short, self.flag) if self.short else (self.flag,)

    @property
    def usage(self) -> str:
        """The option in the first line of the help."""
        shown = f"[{self.flags[0]} {self._shown_value}]" if self.value else f"[{self.flags[0]}]"
        return f"{shown}..." if self.is_repeatable else shown

    @property
    def title(self) -> str:
        """The option in front of its description."""
        flags = ", ".join(self.flags)
        return f"{flags} {self._shown_value}" if self.value else flags

    @property
    def _shown_value(self) -> str:
        return f"[{self.value}]" if self.has_optional_value else self.value


class Argument(NamedTuple):
    """A positional argument. A repeatable one gives a list of the words."""

    name: str
    help: str
    choices: tuple[str, ...] = ()
    is_optional: bool = False
    suggest: Callable[[], tuple[str, ...]] | None = None
    is_repeatable: bool = False

    @property
    def offered(self) -> tuple[str, ...]:
        return self.choices or (self.suggest() if self.suggest else ())

    @property
    def usage(self) -> str:
        shown = f"[{self.name}]" if self.is_optional else self.name
        return f"{shown}..." if self.is_repeatable else shown

    @property
    def nargs(self) -> str | None:
        """How many words there may be, as argparse writes it."""
        if self.is_repeatable:
            return "*" if self.is_optional else "+"
        return "?" if self.is_optional else None


class CliCall(NamedTuple):
    """One use of a verb: its parsed arguments, and the words after `--` unchanged (None without `--`)."""

    given: argparse.Namespace
    program: tuple[str, ...] | None


class CliCommand(NamedTuple):
    """A verb: its arguments and options, and the function that runs it and returns an exit code."""

    run: Callable[[CliCall], int]
    description: str
    arguments: tuple[Argument, ...] = ()
    options: tuple[CliOption, ...] = ()
    examples: tuple[str, ...] = ()
    takes_program: bool = False


HELP = CliOption("--help", "show this help")
JSON = CliOption("--json", "write one JSON document")


class _Parser(argparse.ArgumentParser):
    """argparse that raises instead of ending the program, and does not ask for the width of the terminal."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        return argparse.HelpFormatter(self.prog, width=80)  # without a width, shutil would be imported

    def error(self, message: str) -> NoReturn:
        raise CliError(message, hint=f"see {self.prog} --help")


def parse(verb: str, command: CliCommand, words: Sequence[str]) -> CliCall:
    """Parse the words after the verb.

    Raises:
        CliError: the words do not fit the declaration.
    """
    own, program = split_program(words)
    if program is not None and not command.takes_program:
        raise CliError(f"{verb} does not take a program after --", hint=f"see dragoman {verb} --help")
    # Abbreviations are refused: a new option must never change what an old script means.
    parser = _Parser(prog=f"dragoman {verb}", add_help=False, allow_abbrev=False)
    for option in command.options:
        how: dict[str, Any] = {"metavar": option.value} if option.value else {"action": "store_true"}
        if option.has_optional_value:
            how |= {"nargs": "?", "const": ""}
        if option.choices:
            how["choices"] = option.choices
        if option.is_repeatable:
            how |= {"action": "append", "default": []}
        parser.add_argument(*option.flags, **how)
    for argument in command.arguments:
        parser.add_argument(argument.name, choices=argument.choices or None, nargs=argument.nargs)
    # Options may stand between the words: `rules remove --everywhere RULE`.
    return CliCall(parser.parse_intermixed_args(own), program)


def split_program(words: Sequence[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """Split at the first `--`; what follows belongs to another program and stays unchanged."""
    if "--" not in words:
        return list(words), None
    cut = words.index("--")
    return list(words[:cut]), tuple(words[cut + 1 :])


def help_text(verb: str, command: CliCommand, *, shows_all: bool = True, columns: int = _WIDE) -> str:
    """Return what `dragoman VERB --help` prints.

    Args:
        verb: The verb.
        command: What it declares.
        shows_all: Whether all options are shown, also where some of them are the everyday ones.
        columns: How wide the lines may be.
    """
    everyday = [option for option in command.options if option.is_everyday]
    is_short = bool(everyday) and not shows_all
    shown = everyday if is_short else list(command.options)
    usage = [option.usage for option in shown] + [argument.usage for argument in command.arguments]
    if command.takes_program:
        usage.append("[-- PROGRAM...]")
    start = f"usage: dragoman {verb} "
    description = command.description.partition("\n\n")[0] if is_short else command.description
    sections = [_filled(usage, start, columns), _narrowed(description, columns)]
    if command.arguments:
        arguments = [(entry.name, _described(entry)) for entry in command.arguments]
        sections.append(_section("arguments", arguments, columns))
    if everyday:
        sections.append(_section("everyday options", [_row(entry) for entry in everyday], columns))
    rest = [entry for entry in command.options if not entry.is_everyday]
    if is_short:
        sections.append(f"{len(rest)} more options, and the rest of the story: dragoman {verb} --help all")
    else:
        title = "other options" if everyday else "options"
        sections.append(_section(title, [_row(entry) for entry in (*rest, HELP)], columns))
    if command.examples:
        examples = command.examples[:_FEW_EXAMPLES] if is_short else command.examples
        sections.append("\n".join(["examples:", *(f"  {example}" for example in examples)]))
    return "\n\n".join(sections) + "\n"


def _row(entry: CliOption) -> tuple[str, str]:
    return entry.title, _described(entry)


def _section(title: str, rows: list[tuple[str, str]], columns: int) -> str:
    width = min(max(len(name) for name, _ in rows), _WIDEST_NAME)
    lines = [f"{title}:"]
    for name, text in rows:
        start = f"  {name:{width}}  "
        if len(name) > width:
            lines.append(f"  {name}")
            start = " " * (width + 4)
        lines.append(_filled(text.split(" "), start, columns))
    return "\n".join(lines)


def _filled(words: Sequence[str], start: str, columns: int) -> str:
    """Return words in lines of at most so many columns; the lines after the first begin below the first word."""
    lines = [start]
    is_first = True
    for word in words:
        if not is_first and len(lines[-1]) + 1 + len(word) > columns:
            lines.append(" " * len(start))
            is_first = True
        lines[-1] += word if is_first else f" {word}"
        is_first = False
    return "\n".join(lines)


def _narrowed(text: str, columns: int) -> str:
    """Return a text with its own ends of lines if they fit, and filled again if one does not."""
    if all(len(line) <= columns for line in text.split("\n")):
        return text
    return "\n".join(_filled(words, start, columns) for start, words in _pieces(text))


def _pieces(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the paragraphs of a text and the entries of its lists: how the first line begins, and the words.

    An entry begins with two spaces, has its name and two spaces more in front of its words, and goes on in lines with
    more spaces.
    """
    start, words = "", list[str]()
    for line in text.split("\n"):
        is_entry = line.startswith("  ") and not line.startswith("   ")
        goes_on = line and not is_entry and (not start or line.startswith("   "))
        if words and not goes_on:
            yield start, words
            start, words = "", []
        if is_entry:
            name, gap, rest = line[2:].partition("  ")
            rest = rest.lstrip()
            start = line[: len(line) - len(rest)] if gap else "  "
            words = (rest if gap else name).split()
        elif line:
            words += line.split()
        else:
            yield "", []
    if words:
        yield start, words


def _described(entry: CliOption | Argument) -> str:
    return f"{entry.help} ({', '.join(entry.choices)})" if entry.choices else entry.help
