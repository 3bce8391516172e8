"""The repository of a folder, and whether the blobs of its index have the bytes of the files.

Reads git's own files: `HEAD`, the configuration, attributes. Every doubt counts against the blobs: a path with an
attribute that converts content is read instead. Never writes, runs nothing.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.snapshots.git_index import IndexDeclined, IndexEntry, read_index
from dragoman.workspace.ignore import read_plain
from dragoman.workspace.wildcards import to_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

_LARGEST_BYTES: Final = 1 << 20
_LARGEST_INDEX: Final = 512 << 20
_MOST_INCLUDES: Final = 20
ATTRIBUTES: Final = ".gitattributes"
# Attributes by which git changes content on its way into the repository.
_CONVERTING: Final = frozenset({"text", "crlf", "eol", "ident", "filter", "working-tree-encoding"})
_FALSE: Final = frozenset({"false", "no", "off", "0", ""})


class Repository(NamedTuple):
    """A work tree and the folders of git's files; `common` differs from `git` for a linked work tree."""

    worktree: str
    git: str
    common: str


def repository_at(folder: str) -> Repository | None:
    """Return the repository whose work tree begins at this folder."""
    git = os.path.join(folder, ".git")
    if os.path.isdir(git):
        return Repository(folder, git, git) if os.path.exists(os.path.join(git, "HEAD")) else None
    text = read_plain(git, 8192)
    if text is None or not text.startswith(b"gitdir: "):
        return None
    own = os.path.normpath(os.path.join(folder, os.fsdecode(text[8:]).strip()))
    common = read_plain(os.path.join(own, "commondir"), 8192)
    shared = own if common is None else os.path.normpath(os.path.join(own, os.fsdecode(common).strip()))
    return Repository(folder, own, shared) if os.path.exists(os.path.join(own, "HEAD")) else None


def find_repository(folder: str) -> Repository | None:
    """Return the repository that a folder is in."""
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return repository_at(folder)
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def head_of(repository: Repository | None) -> str:
    """Return the commit that is checked out, as text; empty if there is none yet."""
    if repository is None:
        return ""
    text = _text(os.path.join(repository.git, "HEAD"))
    if not text.startswith("ref: "):
        return text.strip()[:64]
    name = text[5:].strip()
    if ".." in name.split("/"):
        return ""
    for folder in (repository.git, repository.common):
        found = _text(os.path.join(folder, name)).strip()
        if found:
            return found[:64]
    for line in _text(os.path.join(repository.common, "packed-refs"), _LARGEST_INDEX).splitlines():
        if line.endswith(f" {name}"):
            return line.split(" ")[0][:64]
    return ""


def index_stamp(repository: Repository | None) -> int:
    """Return when git last wrote the index; 0 if there is none."""
    if repository is None:
        return 0
    try:
        return os.stat(os.path.join(repository.git, "index")).st_mtime_ns
    except OSError:
        return 0


class GitBase:
    """The index of one repository, as far as its blobs have the bytes of the files.

    Raises: IndexDeclined if it cannot be used at all.
    """

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        config = _Configuration(repository)
        self.hash_bytes = 32 if config.get("extensions.objectformat") == "sha256" else 20
        path = os.path.join(repository.git, "index")
        try:
            with open(path, "rb") as file:
                self.stamp = os.fstat(file.fileno()).st_mtime_ns
                data = file.read(_LARGEST_INDEX)
        except OSError as error:
            raise IndexDeclined(f"there is no index: {error.strerror}") from None
        self.entries: dict[str, IndexEntry] = read_index(data, self.hash_bytes)
        self.is_exact = config.get("core.autocrlf") in _FALSE and "autocrlf" not in _environment()
        self._attributes = AttributeRules("")
        for name in (os.path.join(repository.common, "info", "attributes"), *config.attribute_files):
            self._attributes.add("", _text(name))
        self._folders: dict[str, AttributeRules] = {}
        self._tracked: set[str] | None = None

    @property
    def objects(self) -> str:
        return os.path.join(self.repository.common, "objects")

    def blob(self, path: str, status: os.stat_result) -> bytes | None:
        """Return the blob with exactly the content of a file that has not changed since git saw it.

        None if there is none.
        """
        found = self.entries.get(path)
        if found is None or not found.fits(status) or not found.is_trusted or not self.is_exact:
            return None
        # As git does: a file written at the time of the index itself may have changed since within the same tick.
        if found.mtime_ns >= self.stamp or self._is_converted(path):
            return None
        return found.blob

    def named_blob(self, path: str) -> bytes | None:
        """Return the blob at a path, to be compared with what is read there."""
        found = self.entries.get(path)
        return None if found is None or not self.is_exact or self._is_converted(path) else found.blob

    def has_below(self, folder: str) -> bool:
        """Whether a file in this folder is tracked."""
        if self._tracked is None:
            self._tracked = set()
            for path in self.entries:
                place = os.path.dirname(path)
                while place and place not in self._tracked:
                    self._tracked.add(place)
                    place = os.path.dirname(place)
        return folder in self._tracked

    def has_no_attributes(self, folder: str) -> None:
        """Note that a folder has no attributes of its own, so that they need not be looked for."""
        above = self._folders.get(folder.rpartition("/")[0]) if folder else self._attributes
        if above is not None:
            self._folders.setdefault(folder, above)

    def _is_converted(self, path: str) -> bool:
        folder = path.rpartition("/")[0]
        rules = self._folders.get(folder)
        if rules is None:
            rules = self._load(folder)
        return bool(rules.rules) and rules.match(path)

    def _load(self, folder: str) -> AttributeRules:
        known = self._folders.get(folder)
        if known is None:
            above = self._attributes if not folder else self._load(folder.rpartition("/")[0])
            data = read_plain(f"{self.repository.worktree}/{folder}/{ATTRIBUTES}", _LARGEST_BYTES)
            known = above if not data else above.with_more(folder, data.decode("utf-8", "surrogateescape"))
            self._folders[folder] = known
        return known


class AttributeRules:
    """Patterns of paths whose content git converts. More paths than necessary count as such."""

    def __init__(self, folder: str, rules: tuple[tuple[str, re.Pattern[str]], ...] = ()) -> None:
        self._folder = folder
        self.rules = rules

    def add(self, folder: str, text: str) -> None:
        self.rules += tuple(_attribute_rules(folder, text))

    def with_more(self, folder: str, text: str) -> AttributeRules:
        added = tuple(_attribute_rules(folder, text)) if text else ()
        return AttributeRules(folder, self.rules + added) if added else self

    def match(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        for folder, regex in self.rules:
            inner = path[len(folder) + 1 :] if folder else path
            if regex.fullmatch(inner) or regex.fullmatch(name):
                return True
        return False


_EVERYTHING: Final = re.compile(".*", re.DOTALL)


def _attribute_rules(folder: str, text: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        pattern, _, rest = _split_pattern(line)
        if not any(_converts(word) for word in rest.split()):
            continue
        regex = None if pattern.startswith("[attr]") else to_regex(pattern.removeprefix("/"))
        # A macro may be used anywhere, and a pattern that is not understood may match anything.
        yield folder, re.compile(regex, re.DOTALL) if regex else _EVERYTHING


def _split_pattern(line: str) -> tuple[str, str, str]:
    if line.startswith('"'):
        return "", "", line  # in C quotes; it may match anything
    return line.replace("\t", " ").partition(" ")


def _converts(word: str) -> bool:
    return word.partition("=")[0] in _CONVERTING


class _Configuration:
    """The values of git's configuration that matter here, from the files of the system, the user and the repository."""

    def __init__(self, repository: Repository) -> None:
        self._values: dict[str, str] = {}
        home = os.path.expanduser("~")
        xdg = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        own = os.environ.get("GIT_CONFIG_GLOBAL")
        users = [own] if own is not None else [os.path.join(xdg, "git", "config"), os.path.join(home, ".gitconfig")]
        local = [os.path.join(repository.common, "config"), os.path.join(repository.git, "config.worktree")]
        self._left = _MOST_INCLUDES
        for path in (os.environ.get("GIT_CONFIG_SYSTEM", "/etc/gitconfig"), *users, *local):
            self._read(path)
        named = self._values.get("core.attributesfile")
        path = os.path.expanduser(named) if named else os.path.join(xdg, "git", "attributes")
        self.attribute_files = (path, "/etc/gitattributes")

    def get(self, name: str) -> str:
        return self._values.get(name, "").lower()

    def _read(self, path: str) -> None:
        section = ""
        for line in _text(path).splitlines():
            line = line.strip()
            if line.startswith("["):
                head, _, line = line[1:].partition("]")
                section = head.partition(" ")[0].lower()
                line = line.strip()
            key, has_value, value = line.partition("=")
            key = key.strip().lower()
            if not key or key.startswith(("#", ";")):
                continue
            value = value.split(" #")[0].split(" ;")[0].strip().strip('"') if has_value else "true"
            if section in ("include", "includeif") and key == "path" and self._left > 0:
                # Whether a condition holds is not examined: a value that may hold counts.
                self._left -= 1
                self._read(os.path.join(os.path.dirname(path), os.path.expanduser(value)))
            # A later `false` does not undo an earlier `true` here: a condition may separate them.
            elif not (f"{section}.{key}" == "core.autocrlf" and value.lower() in _FALSE):
                self._values[f"{section}.{key}"] = value


def _environment() -> str:
    names = [value for name, value in os.environ.items() if name.startswith("GIT_CONFIG_")]
    return " ".join(names).lower()


def _text(path: str, largest: int = _LARGEST_BYTES) -> str:
    data = read_plain(os.path.realpath(path), largest)
    return "" if data is None else data.decode("utf-8", "surrogateescape")
