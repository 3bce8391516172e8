"""Files of other programs, read: bounded, only regular files, and no link that leads out of their folder.

A file that cannot be read or understood is reported in one line, and the rest goes on. Blocks.
"""

from __future__ import annotations

import os
import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConfigError
from dragoman.policy.paths import is_below
from dragoman.settings.documents import Document
from dragoman.workspace import FileLimits, Workspace, WorkspaceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGEST_TEXT: Final = 64 * 1024  # of a command or an agent, as the built-in agent reads them
LARGEST_SETTINGS: Final = 8 << 20  # `~/.claude.json` holds the history of every project
_MOST_FILES: Final = 300
_MOST_SEEN: Final = 5_000
_DEEPEST: Final = 4


class ForeignFiles:
    """The files below given folders, and what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def report(self, path: Path, why: str) -> None:
        """Note what is wrong with a file."""
        line = f"{path}: {why}"
        if line not in self.problems:
            self.problems.append(line)

    def text(self, path: Path, root: Path, largest: int = LARGEST_TEXT) -> str | None:
        """Read the text of a file; None if there is none, or if it was reported."""
        if not os.path.lexists(path):
            return None
        real, real_root = os.path.realpath(path), os.path.realpath(root)
        if not is_below(real, real_root):
            self.report(path, f"is a link that leads out of {root}, and is not followed; copy the file there")
            return None
        try:
            size = os.stat(real).st_size
            if size > largest:
                self.report(path, f"has {size} bytes, and at most {largest} are read; it is left out")
                return None
            return Workspace([real_root], limits=FileLimits(file_bytes=largest)).read_text(real)
        except (OSError, WorkspaceError) as error:
            self.report(path, f"cannot be read and is left out: {getattr(error, 'strerror', None) or error}")
            return None

    def json(self, path: Path, root: Path) -> Document | None:
        """Read a JSON file with an object in it; comments and trailing commas are accepted."""
        text = self.text(path, root, LARGEST_SETTINGS)
        if text is None or not text.strip():
            return None
        try:
            document = Document(path, text.removeprefix("\ufeff"), has_comments=True, may_repeat=True)
        except ConfigError as error:
            self.problems.append(f"{error}; the file is left out")
            return None
        if not isinstance(document.value, dict):
            self.report(path, "is not a JSON object and is left out")
            return None
        return document

    def toml(self, path: Path, root: Path) -> tuple[dict[str, Any], str] | None:
        """Read a TOML file; return it and its text."""
        text = self.text(path, root, LARGEST_SETTINGS)
        if text is None:
            return None
        try:
            return tomllib.loads(text), text
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            self.report(path, f"is not TOML and is left out: {error}")
            return None

    def named(self, folder: Path, ending: str, deepest: int = _DEEPEST) -> Iterator[Path]:
        """Yield the files of a folder with this ending, in their order. Linked folders are not entered."""
        found = 0
        for seen, (here, folders, names) in enumerate(os.walk(folder)):
            depth = 0 if here == str(folder) else os.path.relpath(here, folder).count(os.sep) + 1
            folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < deepest else []
            for name in sorted(names):
                if not name.endswith(ending) or name.startswith("."):
                    continue
                if found == _MOST_FILES or seen > _MOST_SEEN:
                    self.report(folder, f"has more than {_MOST_FILES} files; the rest is left out")
                    return
                found += 1
                yield type(folder)(here) / name


def table_of(members: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the member of this name if it is an object or a table, else an empty one."""
    value = members.get(name)
    return value if isinstance(value, dict) else {}


def line_of(document: Document, *keys: str | int) -> int:
    """Return the line of a value of a JSON file."""
    place = document.place(*keys).rsplit(":", 2)
    return int(place[1])


def toml_line(text: str, *names: str) -> int:
    """Return the line of a table or a member of a TOML file, 0 if it is not found as it is usually written."""
    dotted = r"\s*\.\s*".join(rf"[\"']?{re.escape(name)}[\"']?" for name in names)
    last = rf"[\"']?{re.escape(names[-1])}[\"']?"
    for pattern in (rf"^\s*\[+\s*{dotted}\s*\]", rf"^\s*{last}\s*="):
        found = re.search(pattern, text, re.MULTILINE)
        if found is not None:
            return text.count("\n", 0, found.end()) + 1
    return 0
