"""The table of known programs: what each one does, its options, and other names of the same thing.

Rules that deny or ask are read with it (`identify.py`): what is not in the table may be anything. The table is
`known.json`, which states how to read it and where it comes from. It is loaded when the first command is compared with
such a rule; programs without such rules do not pay for it. What a user adds comes from the caller.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files
from itertools import product
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from dragoman.policy.options import read_options

if TYPE_CHECKING:
    from dragoman.policy.options import OptionTable

Kind: TypeAlias = Literal["reads", "changes", "sends", "project", "script", "words", "code", "group", "asks"]

# Only the administrator of a machine puts programs there.
_SYSTEM_PLACES: Final = re.compile(
    r"/(?:usr|s?bin|opt|snap|nix/store|run/current-system|System|Library|Applications)/.+"
)
_HARMLESS: Final = re.compile(r"LC_[A-Z]+")


class Known(Struct, frozen=True, array_like=True):
    """One program or subcommand."""

    kind: Kind
    options: str = "-*"
    more: More | None = None


class More(Struct, frozen=True):
    """What few entries have.

    Attributes:
        operands: how many operands stand before the command that is run.
        is_launcher: whether a program that is not known is one of the project here.
        alone: options with which an interpreter needs no script.
        implies: options that are others under one name.
        default: the subcommand that is meant if there is none.
        prefix: the program that the words after the operands are for.
    """

    operands: int = 0
    is_launcher: bool = False
    alone: str = ""
    implies: dict[str, str] = {}
    default: str = ""
    prefix: str = ""


_NOTHING_MORE: Final = More()


class _File(Struct, frozen=True):
    programs: dict[str, Known]
    tables: dict[str, str]
    equal: dict[str, list[str]]
    names: dict[str, str]
    versioned: str
    values: dict[str, str]
    variables: str


class _Table:
    def __init__(self, file: _File) -> None:
        self.tables = file.tables
        self.programs = {
            " ".join(words): entry
            for names, entry in file.programs.items()
            for words in product(*(word.split("|") for word in names.split(" ")))
        }
        self.equal: dict[str, str] = {}
        for one, (own, *others) in file.equal.items():
            program = one.partition(" ")[0]
            self.equal |= {f"{program} {word}": one for word in own.split(", ") if word}
            self.equal |= {words: one for text in others for words in text.split(", ")}
        self.names = {other: one for one, others in file.names.items() for other in others.split()}
        versioned = "|".join(re.escape(name) for name in file.versioned.split())
        self.versioned = re.compile(rf"({versioned})-?[0-9][0-9.]*(?:-[a-z0-9_-]+)?")
        self.values = {
            name: re.compile("|".join(re.escape(key).replace(r"\*", ".*") for key in keys.split()), re.IGNORECASE)
            for name, keys in file.values.items()
        }
        self.variables = frozenset(file.variables.split())


@cache
def _table() -> _Table:
    data = files("dragoman.policy").joinpath("known.json").read_bytes()
    return _Table(msgspec.json.decode(data, type=_File))


@lru_cache(maxsize=512)
def program_path(program: str) -> tuple[str, ...]:
    """Return the one name of a program, without folder and version, and the subcommand that its name implies.

    `/usr/bin/python3.12` is `python`, `npx` is `npm exec`, `/usr/lib/git-core/git-push` is `git push`.
    """
    table = _table()
    name = program.rpartition("/")[2].lower().removesuffix(".exe") or program
    name = table.names.get(name, name)
    versioned = table.versioned.fullmatch(name)
    if versioned is not None and name not in table.programs:
        name = table.names.get(versioned[1], versioned[1])
    if name.startswith("git-"):
        return path_of(("git",), name[4:])[0]
    return tuple(table.equal.get(name, name).split()) or (name,)  # a name may be a space


def entry_of(path: tuple[str, ...]) -> Known | None:
    """Return what is known of a program or subcommand."""
    return _table().programs.get(" ".join(path))


def more_of(entry: Known) -> More:
    """Return the rarer properties of an entry."""
    return entry.more or _NOTHING_MORE


def path_of(path: tuple[str, ...], word: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the one name of a subcommand, by its alias or any beginning that is accepted, and options it implies."""
    one = _table().equal.get(f"{' '.join(path)} {word}")
    if one is None:
        return (*path, *word.split(" ")), ()
    words = one.split(" ")
    return tuple(word for word in words if word[:1] != "-"), tuple(word for word in words if word[:1] == "-")


def options_of(entry: Known) -> OptionTable:
    """Return the options of a program."""
    return _read_options(entry.options)


@lru_cache(maxsize=512)
def _read_options(text: str) -> OptionTable:
    return read_options(" ".join(_table().tables[word[1:]] if word[0] == "@" else word for word in text.split()))


def is_system_place(path: str) -> bool:
    """Whether a program with this absolute path, without `..`, belongs to the system."""
    return _SYSTEM_PLACES.fullmatch(path) is not None


def is_harmless_variable(name: str) -> bool:
    """Whether a variable of this name changes neither what runs nor where it writes."""
    return name in _table().variables or _HARMLESS.fullmatch(name) is not None


def is_harmless_value(table: str, value: str) -> bool:
    """Whether the key in `KEY=VALUE` is in a list of those that name no code and no program."""
    return _table().values[table].fullmatch(re.split("[= ]", value, maxsplit=1)[0]) is not None
