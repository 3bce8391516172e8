"""Which files git ignores: the rules of `.gitignore`, wherever they stand.

Owns reading the rules of each folder and the order in which they win: the last line of the nearest file. Does not
walk, and does not know that below an ignored folder everything is ignored: whoever walks does not go there.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final

from dragoman.builtin.tools.wildcards import to_regex

if TYPE_CHECKING:
    from collections.abc import Sequence

RULES_FILE: Final = ".gitignore"
_LARGEST_BYTES: Final = 1 << 20  # a longer one is something else


class Rule:
    """One line."""

    __slots__ = ("is_for_folders", "is_for_names", "is_negated", "match", "regex")

    def __init__(self, regex: str, *, is_negated: bool, is_for_folders: bool, is_for_names: bool) -> None:
        self.regex = regex
        self.match = re.compile(regex, re.DOTALL).fullmatch
        self.is_negated = is_negated
        self.is_for_folders = is_for_folders
        self.is_for_names = is_for_names


class Rules:
    """The lines of one file."""

    __slots__ = ("_any_name", "_any_path", "_rules")

    def __init__(self, text: str) -> None:
        rules = [rule for line in text.removeprefix("\ufeff").split("\n") if (rule := parse_line(line)) is not None]
        self._rules = tuple(reversed(rules))
        # Nearly every file matches no rule at all, which these two find out at once.
        self._any_name = _any([rule.regex for rule in rules if rule.is_for_names])
        self._any_path = _any([rule.regex for rule in rules if not rule.is_for_names])

    def __bool__(self) -> bool:
        return bool(self._rules)

    def decide(self, path: str, name: str, is_folder: bool) -> bool | None:
        """True for ignored, False for taken back by a `!`, None if no rule is about it. `path` is from their folder."""
        by_name = self._any_name is not None and self._any_name.fullmatch(name) is not None
        by_path = self._any_path is not None and self._any_path.fullmatch(path) is not None
        if not by_name and not by_path:
            return None
        for rule in self._rules:
            if rule.is_for_folders and not is_folder:
                continue
            if rule.match(name if rule.is_for_names else path):
                return not rule.is_negated
        return None


def parse_line(line: str) -> Rule | None:
    """The rule of a line, None for a comment, an empty one, or one that can match nothing."""
    line = _without_trailing_spaces(line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    pattern = line.removeprefix("!")
    is_for_folders = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    is_for_names = "/" not in pattern
    regex = to_regex(pattern.removeprefix("/"))
    if not regex:
        return None
    return Rule(regex, is_negated=is_negated, is_for_folders=is_for_folders, is_for_names=is_for_names)


def _without_trailing_spaces(line: str) -> str:
    """Spaces at the end do not count, unless a backslash stands before them."""
    end = len(line.rstrip(" "))
    if end < len(line):
        backslashes = end - len(line[:end].rstrip("\\"))
        if backslashes % 2:
            end += 1
    return line[:end]


def _any(regexes: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{regex})" for regex in regexes), re.DOTALL) if regexes else None


class Ignores:
    """The rules that hold in one folder of a walk, from the outermost file to the nearest. Paths are from its start."""

    __slots__ = ("_layers",)

    def __init__(self, layers: tuple[tuple[str, int, Rules], ...] = ()) -> None:
        # What to put before a path, and how much of it to leave out, so that it is from the folder of the rules.
        self._layers = layers

    @classmethod
    def above(cls, start: str) -> Ignores:
        """The rules for `start` itself: those of its folders up to the repository it is in."""
        layers: list[tuple[str, int, Rules]] = []
        folder, before = os.path.realpath(start), ""
        while True:
            layers += [(before, 0, rules) for rules in reversed(_rules_of(folder))]
            parent = os.path.dirname(folder)
            if parent == folder or os.path.lexists(os.path.join(folder, ".git")):
                break
            before = f"{os.path.basename(folder)}/{before}"
            folder = parent
        return cls(tuple(reversed(layers)))

    def inside(self, folder: str, relative: str, *, has_rules: bool, is_repository: bool) -> Ignores:
        """The rules below one more folder. Those outside of a repository end at its door."""
        if not has_rules and not is_repository:
            return self
        added = [("", len(relative) + 1, rules) for rules in _rules_of(folder, is_repository=is_repository)]
        return Ignores((*(() if is_repository else self._layers), *added))

    def decide(self, path: str, name: str, is_folder: bool) -> bool | None:
        """True for ignored, False for explicitly not, None if nothing is said."""
        for before, skipped, rules in reversed(self._layers):
            decision = rules.decide(before + path[skipped:], name, is_folder)
            if decision is not None:
                return decision
        return None


def _rules_of(folder: str, *, is_repository: bool = True) -> list[Rules]:
    """What a folder itself says, the weakest first."""
    files = [os.path.join(folder, ".git", "info", "exclude")] if is_repository else []
    found = [_read(file) for file in (*files, os.path.join(folder, RULES_FILE))]
    return [rules for rules in found if rules]


def _read(path: str) -> Rules | None:
    data = read_plain(path, _LARGEST_BYTES)
    return None if data is None else Rules(os.fsdecode(data))


def read_plain(path: str, largest_bytes: int) -> bytes | None:
    """What is in a file; None for a link, a pipe, a folder, and what is too large or not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > largest_bytes:
            return None
        pieces = []
        # One byte more than there should be, to see the end with the first read of most files.
        while piece := os.read(fd, status.st_size + 1):
            pieces.append(piece)
            if len(piece) <= status.st_size:
                break
        return b"".join(pieces)
    except OSError:
        return None
    finally:
        os.close(fd)
