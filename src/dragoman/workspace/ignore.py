"""Which files git ignores: the rules of `.gitignore` files and of `.git/info/exclude`.

Owns reading the rules of each folder and their precedence: the last matching line of the nearest file wins. Does not
walk, and does not apply the rule that everything below an ignored folder is ignored: the walk does not enter it.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.workspace.wildcards import to_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    RuleReader = Callable[[str, int], bytes | None]
    """Reads an ignore file, given the largest size that is one; None if there is none."""

RULES_FILE: Final = ".gitignore"
_LARGEST_BYTES: Final = 1 << 20  # a larger file is not a list of rules
# Folders that tools fill with thousands of installed or generated files, and have git ignore in the same step.
GENERATED: Final = frozenset(
    (
        *("node_modules", ".venv", "venv", "__pycache__", "target", ".tox", ".nox", ".gradle", ".next"),
        *(".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"),
    )
)


class IgnoreRule(Struct, frozen=True):
    """One line of an ignore file."""

    regex: re.Pattern[str]
    is_negated: bool
    is_for_folders: bool
    is_for_names: bool


class IgnoreFile:
    """The rules of one ignore file."""

    __slots__ = ("_any_name", "_any_path", "_rules")

    def __init__(self, text: str) -> None:
        rules = [rule for line in text.removeprefix("\ufeff").split("\n") if (rule := parse_line(line)) is not None]
        self._rules = tuple(reversed(rules))
        # Nearly every path matches no rule at all, which these two expressions find out in one step each.
        self._any_name = _any([rule.regex.pattern for rule in rules if rule.is_for_names])
        self._any_path = _any([rule.regex.pattern for rule in rules if not rule.is_for_names])

    def __bool__(self) -> bool:
        return bool(self._rules)

    def decide(self, path: str, name: str, is_folder: bool) -> bool | None:
        """Return True for ignored, False for included by a `!` line, None if no rule applies.

        `path` is relative to the folder of the file.
        """
        by_name = self._any_name is not None and self._any_name.fullmatch(name) is not None
        by_path = self._any_path is not None and self._any_path.fullmatch(path) is not None
        if not by_name and not by_path:
            return None
        for rule in self._rules:
            if (is_folder or not rule.is_for_folders) and rule.regex.fullmatch(name if rule.is_for_names else path):
                return not rule.is_negated
        return None


def parse_line(line: str) -> IgnoreRule | None:
    """Return the rule of a line, or None for a comment, an empty line, or a pattern that can match nothing."""
    line = line.removesuffix("\r")
    kept = line.rstrip(" ")
    if kept != line and (len(kept) - len(kept.rstrip("\\"))) % 2:
        kept += " "  # a backslash keeps the first of the spaces at the end
    line = kept
    if line.startswith("#"):
        return None
    pattern = line.removeprefix("!")
    inner = pattern.removesuffix("/")
    regex = to_regex(inner.removeprefix("/"))
    if not regex:
        return None
    return IgnoreRule(
        re.compile(regex, re.DOTALL),
        is_negated=line.startswith("!"),
        is_for_folders=pattern.endswith("/"),
        is_for_names="/" not in inner,
    )


def _any(regexes: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{regex})" for regex in regexes), re.DOTALL) if regexes else None


class IgnoreStack:
    """The ignore files that apply in one folder of a walk, outermost first. Paths are relative to the walk's start."""

    __slots__ = ("_layers",)

    def __init__(self, layers: tuple[tuple[str, int, IgnoreFile], ...] = ()) -> None:
        # For each file: what to put before a path and how many characters to skip, to make it relative to its folder.
        self._layers = layers

    @classmethod
    def above(
        cls, start: str, names: tuple[str, ...] = (RULES_FILE,), *, read: RuleReader | None = None
    ) -> IgnoreStack:
        """Return the rules for `start` itself: those of its folders, up to the root of its repository.

        Args:
            names: the names of ignore files, lowest precedence first.
            read: reads them, by default as they are on the disk.
        """
        layers: list[tuple[str, int, IgnoreFile]] = []
        folder, before = os.path.realpath(start), ""
        while True:
            layers += [(before, 0, rules) for rules in reversed(_rules_of(folder, names=names, read=read))]
            parent = os.path.dirname(folder)
            if parent == folder or os.path.lexists(os.path.join(folder, ".git")):
                break
            before = f"{os.path.basename(folder)}/{before}"
            folder = parent
        return cls(tuple(reversed(layers)))

    def __bool__(self) -> bool:
        return bool(self._layers)

    def inside(
        self,
        folder: str,
        relative: str,
        *,
        has_rules: bool,
        is_repository: bool,
        names: tuple[str, ...] = (RULES_FILE,),
        read: RuleReader | None = None,
    ) -> IgnoreStack:
        """Return the rules below one more folder. Rules from outside a repository do not apply inside it."""
        if not has_rules and not is_repository:
            return self
        found = _rules_of(folder, is_repository=is_repository, names=names, read=read)
        added = [("", len(relative) + 1, rules) for rules in found]
        return IgnoreStack((*(() if is_repository else self._layers), *added))

    def with_rules(self, text: bytes, folder: str) -> IgnoreStack:
        """Return the rules below a folder that has one more ignore file with this text."""
        rules = IgnoreFile(os.fsdecode(text))
        return IgnoreStack((*self._layers, ("", len(folder) + 1 if folder else 0, rules))) if rules else self

    def decide(self, path: str, name: str, is_folder: bool) -> bool | None:
        """Return True for ignored, False for explicitly included, None if no rule applies."""
        for before, skipped, rules in reversed(self._layers):
            decision = rules.decide(before + path[skipped:], name, is_folder)
            if decision is not None:
                return decision
        return None


def _rules_of(
    folder: str, *, is_repository: bool = True, names: tuple[str, ...], read: RuleReader | None
) -> list[IgnoreFile]:
    """Return the ignore files of a folder, lowest precedence first."""
    read = read or read_plain
    exclude = [os.path.join(folder, ".git", "info", "exclude")] if is_repository else []
    contents = [read(path, _LARGEST_BYTES) for path in (*exclude, *(os.path.join(folder, n) for n in names))]
    return [rules for data in contents if data is not None and (rules := IgnoreFile(os.fsdecode(data)))]


def read_plain(path: str, largest_bytes: int) -> bytes | None:
    """Read a regular file. Return None for a link, pipe or folder, and for a file too large or not readable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > largest_bytes:
            return None
        pieces = []
        # One byte more than the size, so that one read also finds the end of most files.
        while piece := os.read(fd, status.st_size + 1):
            pieces.append(piece)
            if len(piece) <= status.st_size:
                break
        return b"".join(pieces)
    except OSError:
        return None
    finally:
        os.close(fd)
