"""JSON files with the positions of their values, so that an error can point at the value it is about.

A file is read as strict JSON, or with comments and trailing commas as Zed writes it, and written completely or not at
all. The standard library reads a file without errors; the parser here is slower and runs only for a file with comments
and to find the position of a value. What the members of a file mean is not known here.
"""

from __future__ import annotations

import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# Settings are kilobytes. One of the files comes with a repository, and must not be able to fill the memory.
LARGEST_BYTES: Final = 8 << 20
DEEPEST: Final = 100  # more than any real file has, and far from the interpreter's own limit
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_STRINGS: Final = json.JSONDecoder()
_WORDS: Final = {"true": True, "false": False, "null": None}

Key = str | int


class ValueSpan(NamedTuple):
    """Where a value stands in its text."""

    name: int
    """Where the name of the member begins."""
    start: int
    end: int


class Document:
    """One JSON file: its value, and the position of each part of it."""

    def __init__(self, path: Path, text: str, *, has_comments: bool = False, may_repeat: bool | None = None) -> None:
        self.path = path
        self._text = text
        self._has_comments = has_comments
        self._may_repeat = has_comments if may_repeat is None else may_repeat
        self._places: dict[tuple[Key, ...], int] | None = None
        self.value: Any = self._read()

    def place(self, *keys: Key) -> str:
        """Return `file:line:column` of the value at the end of these keys, or of the nearest value around it."""
        if self._places is None:
            self._places = self._parser().run()[1]
        while keys and keys not in self._places:
            keys = keys[:-1]
        return _point(self.path, self._text, self._places.get(keys, 0))

    def error(self, message: str, *keys: Key) -> ConfigError:
        """Return an error about the value at the end of these keys, to be raised."""
        return ConfigError(f"{self.place(*keys)}: {message}")

    def _read(self) -> Any:
        try:
            return json.loads(self._text, object_pairs_hook=_unique, parse_constant=_refuse)
        except (ValueError, RecursionError):
            value, self._places = self._parser().run()
            return value

    def _parser(self) -> _Parser:
        return _Parser(self.path, self._text, self._has_comments, self._may_repeat)


def read_document(path: Path, *, has_comments: bool = False, may_repeat: bool | None = None) -> Document | None:
    """Read a JSON file; None if it does not exist.

    Args:
        path: the file.
        has_comments: accept comments and trailing commas.
        may_repeat: accept repeated names (the last one counts); by default only in a file with comments.

    Raises:
        ConfigError: the file cannot be read or is not JSON; the message starts with `file:line:column`.
    """
    try:
        # Without blocking: a repository may contain a pipe where a file is expected.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; correct it or remove it") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ConfigError(f"{path}: not a file; put a JSON file there or remove it")
    with open(fd, "rb") as file:
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise ConfigError(f"{path}: longer than {LARGEST_BYTES >> 20} MiB; shorten it or remove it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        raise ConfigError(f"{_point(path, before, len(before))}: not UTF-8 text; save the file as UTF-8") from None
    return Document(path, text, has_comments=has_comments, may_repeat=may_repeat)


def write_document(path: Path, value: object) -> None:
    """Replace a JSON file atomically; only its owner can read it. A symlink is followed.

    Raises:
        ConfigError: the file cannot be written.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    try:
        write_private(path, text.encode("utf-8", "surrogatepass"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}; check the directory and its owner") from error


def write_private(path: Path, data: bytes) -> None:
    """Replace a file, and make its folder if needed. Other users cannot read it, even if they could before.

    Raises:
        OSError: the file cannot be written.
    """
    # Settings are read at every start, and seldom written.
    from dragoman.workspace import private

    private.make_private_folder(path.parent)
    private.write_private(path, data, is_synced=True, follows_links=True)  # users keep settings in folders of their own


def write_shared(path: Path, data: bytes) -> None:
    """Replace a file of a project, and make its folder if needed. Raises: OSError."""
    from dragoman.workspace.atomic import replace_file

    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, data, mode=0o644)


def spans_of(path: Path, text: str) -> dict[tuple[Key, ...], ValueSpan]:
    """Return where each member of a text with comments stands. Raises: ConfigError."""
    parser = _Parser(path, text, True, False)
    parser.run()
    return parser.spans


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return a question to the user who misspelt one of the known words; empty if none is similar."""
    from difflib import get_close_matches

    near = get_close_matches(word, words, n=3)
    return f"did you mean {' or '.join(near)}?" if near else ""


class _Parser:
    """A strict JSON parser that records where each value begins; comments and trailing commas are optional."""

    def __init__(self, path: Path, text: str, has_comments: bool, may_repeat: bool) -> None:
        self._path, self._text, self._has_comments, self._may_repeat = path, text, has_comments, may_repeat
        self._at = 0
        self._places: dict[tuple[Key, ...], int] = {}
        self.spans: dict[tuple[Key, ...], ValueSpan] = {}

    def run(self) -> tuple[Any, dict[tuple[Key, ...], int]]:
        value = self._value(())
        self.spans[()] = ValueSpan(0, self._places[()], self._at)
        self._skip()
        if self._at < len(self._text):
            raise self._wrong("unexpected text after the end of the value; remove it")
        return value, self._places

    def _value(self, keys: tuple[Key, ...]) -> Any:
        self._skip()
        self._places[keys] = start = self._at
        if len(keys) > DEEPEST:
            raise self._wrong(f"nested too deeply; at most {DEEPEST} levels are read")
        match self._text[start : start + 1]:
            case "{":
                return self._object(keys)
            case "[":
                return self._array(keys)
            case '"':
                return self._string()
        if (number := _NUMBER.match(self._text, start)) is not None:
            self._at = number.end()
            return float(number[0]) if number[1] or number[2] else int(number[0])
        for word, value in _WORDS.items():
            if self._text.startswith(word, start):
                self._at += len(word)
                return value
        raise self._wrong("the file ends too early" if start == len(self._text) else "expected a value here")

    def _object(self, keys: tuple[Key, ...]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self._at += 1
        while not self._closes("}", is_first=not members):
            if not self._text.startswith('"', self._at):
                raise self._wrong('expected a name in "double quotes" here')
            start = self._at
            name = self._string()
            # Programs differ in which of two members with one name they use: it might not be the one the user read.
            if name in members and not self._may_repeat:
                raise self._wrong(f"the name {name!r} is repeated here; remove one of the two", start)
            self._skip()
            if not self._text.startswith(":", self._at):
                raise self._wrong("expected a colon here")
            self._at += 1
            inner = (*keys, name)
            members[name] = self._value(inner)
            self.spans[inner] = ValueSpan(start, self._places[inner], self._at)
        return members

    def _array(self, keys: tuple[Key, ...]) -> list[Any]:
        items: list[Any] = []
        self._at += 1
        while not self._closes("]", is_first=not items):
            items.append(self._value((*keys, len(items))))
        return items

    def _closes(self, bracket: str, *, is_first: bool) -> bool:
        """Move to the next member and return False, or past the closing bracket and return True."""
        self._skip()
        if not is_first and not self._text.startswith(bracket, self._at):
            if not self._text.startswith(",", self._at):
                raise self._wrong(f"expected a comma or {bracket} here")
            comma = self._at
            self._at += 1
            self._skip()
            if self._text.startswith(bracket, self._at) and not self._has_comments:
                raise self._wrong("a comma after the last member is not allowed; remove it", comma)
        if self._at >= len(self._text):
            raise self._wrong(f"the file ends before the closing {bracket}")
        if not self._text.startswith(bracket, self._at):
            return False
        self._at += 1
        return True

    def _string(self) -> str:
        try:
            text, self._at = _STRINGS.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            raise self._wrong(error.msg.lower().removesuffix(" at"), error.pos) from None
        return str(text)

    def _skip(self) -> None:
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if not self._text.startswith("/", self._at):
                return
            if not self._has_comments:
                raise self._wrong("comments are not allowed in this file; remove it")
            comment = _COMMENT.match(self._text, self._at)
            if comment is None:
                raise self._wrong("this comment has no end")
            self._at = comment.end()

    def _wrong(self, message: str, at: int | None = None) -> ConfigError:
        return ConfigError(f"{_point(self._path, self._text, self._at if at is None else at)}: {message}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _point(path: Path, text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"{path}:{line}:{at - text.rfind(chr(10), 0, at)}"
