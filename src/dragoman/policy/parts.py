"""The parts of a command line: which simple commands it runs, in which folder, and which files it redirects to.

Owns what happens between the shell's grammar (`shell.py`) and the rules: shells around a line (`bash -lc LINE`) are
taken away, `cd` moves the folder of what follows, redirections become files that are read or written. A command given
as words (an argv) is one part. A line that cannot be read completely has no parts, only a reason.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.policy import paths
from dragoman.policy.options import operands_of, read_options
from dragoman.policy.programs import SHELLS, name_of
from dragoman.policy.shell import Line, SimpleCommand, Unreadable, Word, read_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    ReadsLine: TypeAlias = Callable[[str], Line | Unreadable]

_SHELL_PLACES: Final = frozenset({"", "/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"})
_SHELL_FLAGS: Final = re.compile(r"-[eilux]+")
_SHELL_COMMAND_FLAGS: Final = re.compile(r"-[eilux]*c")
_NO_FILE: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty"})
_TEE: Final = read_options("-a -i --append --ignore-interrupts")
# After `cd a; b` the folder is one of two, after more of them one of many.
_MAX_FOLDERS: Final = 4
_MOVING: Final = frozenset({"pushd", "popd", "chdir"})
_MAX_SHELLS: Final = 4


class Part(Struct, frozen=True):
    """One simple command of a line. `folders` are the folders it may run in; more than one if a `cd` may fail."""

    command: SimpleCommand
    folders: tuple[str, ...]
    is_fed: bool = False  # its input is the output of another part

    @property
    def argv(self) -> tuple[str, ...]:
        """The words as text."""
        return self.command.argv

    @property
    def has_glob(self) -> bool:
        """Whether some words stand for words that are not known."""
        return any(word.fixed is not None for word in self.command.words)

    @property
    def written(self) -> tuple[str, ...]:
        """The files that redirections and `tee` write, as absolute paths where the folder is known."""
        found = [item.target for item in self.command.redirections if item.operator in (">", ">>", "&>", "&>>")]
        if name_of(self.argv[0]) == "tee":
            operands = operands_of(_TEE, self.argv[1:])
            found += self.command.words[1:] if operands is None else [self.command.words[1 + n] for n in operands]
        return tuple(self._located(found))

    @property
    def read(self) -> tuple[str, ...]:
        """The files that redirections read."""
        return tuple(self._located([item.target for item in self.command.redirections if item.operator == "<"]))

    def _located(self, words: list[Word]) -> Iterator[str]:
        for word in words:
            if word.text not in _NO_FILE:
                yield from (word.path if word.is_home else f"{folder}/{word.path}" for folder in self._starts(word))

    def _starts(self, word: Word) -> tuple[str, ...]:
        return ("",) if word.text.startswith("/") else self.folders


class Reading(Struct, frozen=True):
    """The parts of a command; or none, the reason, and the text in which a deny still looks for its words."""

    parts: tuple[Part, ...] = ()
    unreadable: str = ""
    text: str = ""


class _NotRead(Exception):
    """The reason why a line is not read."""


def read_parts(
    argv: tuple[str, ...] | None, text: str | None, folder: str, home: str, read: ReadsLine = read_line
) -> Reading:
    """Return what a command runs, which is sent as words or as a line for a shell.

    Args:
        folder: where it starts, absolute.
        read: reads a line; it is called for the lines inside of shells too.
    """
    if text is None and not argv:
        return Reading(unreadable="the agent did not send the command")
    try:
        if text is not None:
            return Reading(tuple(_read_text(text, folder, home, 0, read)))
        words = tuple(map(Word, argv or ()))
        if not words[0].text:
            raise _NotRead("the name of a program is empty")
        return Reading(tuple(_expand(Line((SimpleCommand(words),)), folder, home, 0, read)))
    except _NotRead as reason:
        return Reading(unreadable=str(reason), text=" ".join(argv or ()) if text is None else text)


def _read_text(text: str, folder: str, home: str, depth: int, read: ReadsLine) -> list[Part]:
    line = read(text)
    if isinstance(line, Unreadable):
        raise _NotRead(line.reason)
    return _expand(line, folder, home, depth, read)


def what_runs(argv: tuple[str, ...] | None, text: str | None, read: ReadsLine = read_line) -> Line | str:
    """Return what a command runs behind shells: its line, or its text if that cannot be read (`Command.runs`)."""
    if text is None:
        return unwrapped(Line((SimpleCommand(tuple(map(Word, argv))),)), read) if argv else ""
    line = read(text)
    return text.strip() if isinstance(line, Unreadable) else unwrapped(line, read)


def unwrapped(line: Line, read: ReadsLine = read_line) -> Line | str:
    """Return the line inside a shell, if the whole line is a shell that runs one; otherwise the line itself."""
    command = line.commands[0]
    is_alone = len(line.commands) == 1 and not (command.assignments or command.redirections)
    has_glob = any(word.fixed is not None for word in command.words)
    inner = unwrap(command.argv) if is_alone and not has_glob else None
    return line if inner is None else what_runs(None, inner, read)


def unwrap(argv: tuple[str, ...]) -> str | None:
    """Return the line in `bash -lc LINE`, as agents pass a shell line in the form of words; None for anything else."""
    place, _, program = argv[0].rpartition("/") if argv else ("", "", "")
    # fish reads quotes in its own way.
    if program not in SHELLS or program == "fish" or place not in _SHELL_PLACES or (not place and "/" in argv[0]):
        return None
    rest = list(argv[1:])
    while len(rest) > 2 and _SHELL_FLAGS.fullmatch(rest[0]):
        rest.pop(0)
    return rest[1] if len(rest) == 2 and _SHELL_COMMAND_FLAGS.fullmatch(rest[0]) else None


def _expand(line: Line, folder: str, home: str, depth: int, read: ReadsLine) -> list[Part]:
    parts: list[Part] = []
    current: tuple[str, ...] = (folder,)
    possible = current
    for number, command in enumerate(line.commands):
        before = line.joins[number - 1] if number else "seq"
        after = line.joins[number] if number < len(line.joins) else "seq"
        if before in ("or", "seq"):
            current = possible
        part = Part(command, current, is_fed=before == "pipe")
        inner = unwrap(part.argv)
        if inner is not None:
            parts += _inside(part, inner, home, depth, read)
        else:
            parts.append(part)
        if part.argv[0] in _MOVING or (
            part.argv[0] in ("builtin", "command") and (_MOVING | {"cd"}) & set(part.argv[1:])
        ):
            raise _NotRead(f"`{part.argv[0]}` changes the folder in a way that is not read")
        if part.argv[0] == "cd":
            if "pipe" in (before, after):
                raise _NotRead("a `cd` stands in a pipeline")
            current = tuple(dict.fromkeys(_moved(command, start, home) for start in current))
            possible = tuple(dict.fromkeys((*possible, *current)))
            if "or" in line.joins[:number]:
                current = possible
            if len(possible) > _MAX_FOLDERS:
                raise _NotRead("the folder changes too often")
    return parts


def _moved(command: SimpleCommand, folder: str, home: str) -> str:
    """Return the folder after `cd`."""
    words = command.words[1:]
    words = words[1:] if words and words[0].text == "--" else words
    if len(words) != 1 or words[0].fixed is not None or words[0].text.startswith("-") or not words[0].text:
        raise _NotRead("the folder of a `cd` is not a plain path")
    return paths.normalise(words[0].path, folder, home)


def _inside(part: Part, line: str, home: str, depth: int, read: ReadsLine) -> list[Part]:
    """Return the parts of a line inside a shell; what was redirected or assigned outside counts for each of them."""
    if depth == _MAX_SHELLS:
        raise _NotRead("shells run shells too deeply")
    if part.has_glob or len(part.folders) > 1:
        raise _NotRead("a shell runs a line that is not known")
    outer = part.command
    parts = _read_text(line, part.folders[0], home, depth + 1, read)
    return [
        replace(
            inner,
            command=replace(
                inner.command,
                assignments=(*outer.assignments, *inner.command.assignments),
                redirections=(*outer.redirections, *inner.command.redirections),
            ),
            is_fed=inner.is_fed or (number == 0 and part.is_fed),
        )
        for number, inner in enumerate(parts)
    ]
