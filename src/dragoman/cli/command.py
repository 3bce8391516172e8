"""The declaration of a verb, used for parsing, help and completion.

Parsing is left to `argparse`. The help text is written here because it is compared with the documentation and must be
the same on every Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from dragoman.cli.exits import CliError


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


def help_text(verb: str, command: CliCommand) -> str:
    """Return what `dragoman VERB --help` prints."""
    options = (*command.options, HELP)
    usage = [option.usage for option in command.options] + [argument.usage for argument in command.arguments]
    if command.takes_program:
        usage.append("[-- PROGRAM...]")
    sections = [" ".join(["usage: dragoman", verb, *usage]), command.description]
    if command.arguments:
        sections.append(_section("arguments", [(entry.name, _described(entry)) for entry in command.arguments]))
    sections.append(_section("options", [(entry.title, _described(entry)) for entry in options]))
    if command.examples:
        sections.append("\n".join(["examples:", *(f"  {example}" for example in command.examples)]))
    return "\n\n".join(sections) + "\n"


def _section(title: str, rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join([f"{title}:", *(f"  {name:{width}}  {text}" for name, text in rows)])


def _described(entry: CliOption | Argument) -> str:
    return f"{entry.help} ({', '.join(entry.choices)})" if entry.choices else entry.help
