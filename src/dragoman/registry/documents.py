"""JSON files of users, repositories and editors: read with places, so that an error can point at what it is about.

Owns reading (strict JSON, or with comments and trailing commas as Zed writes it), the places of values, and writing a
file whole or not at all. Knows no settings. A clean file is read by the standard library; the slow parser here runs
only for comments, and to find out where something is wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

# Settings of people are kilobytes. A repository decides about one of the files, and may not fill our memory.
LARGEST_BYTES: Final = 8 << 20
DEEPEST: Final = 100  # enough for every real file, and far from the interpreter's own limit
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NOTE: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_STRINGS: Final = json.JSONDecoder()
_WORDS: Final = {"true": True, "false": False, "null": None}

Key = str | int


class Document:
    """One JSON file: its value, and where each part of it stands."""

    def __init__(self, path: Path, text: str, *, has_comments: bool = False) -> None:
        self.path = path
        self._text = text
        self._has_comments = has_comments
        self._places: dict[tuple[Key, ...], int] | None = None
        self.value: Any = self._read()

    def place(self, *keys: Key) -> str:
        """`file:line:column` of the value below these keys, or of the nearest one around it."""
        if self._places is None:
            self._places = _Parser(self.path, self._text, self._has_comments).run()[1]
        while keys and keys not in self._places:
            keys = keys[:-1]
        return _point(self.path, self._text, self._places.get(keys, 0))

    def error(self, message: str, *keys: Key) -> ConfigError:
        """What to raise about the value below these keys."""
        return ConfigError(f"{self.place(*keys)}: {message}")

    def _read(self) -> Any:
        try:
            return json.loads(self._text, object_pairs_hook=_once, parse_constant=_refuse)
        except (ValueError, RecursionError):
            value, self._places = _Parser(self.path, self._text, self._has_comments).run()
            return value


def read_document(path: Path, *, has_comments: bool = False) -> Document | None:
    """The file, or None if there is none.

    Raises: ConfigError, with `file:line:column`, for one that cannot be read or is not JSON.
    """
    try:
        # Not blocking: a repository may put a pipe where a file is expected.
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
        raise ConfigError(f"{path}: longer than {LARGEST_BYTES >> 20} MiB, which no settings are; shorten or remove it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        raise ConfigError(f"{_point(path, before, len(before))}: not UTF-8 text; save the file as UTF-8") from None
    return Document(path, text, has_comments=has_comments)


def write_document(path: Path, value: object) -> None:
    """Replaces the file at once, readable by its owner only; a link keeps pointing to what it pointed to.

    Raises: ConfigError when it cannot be written.
    """
    target = os.path.realpath(path)
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    fresh = f"{target}.{os.getpid()}.new"
    try:
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with open(fd, "w", encoding="utf-8", errors="surrogatepass") as file:
                file.write(text)
                file.flush()
                os.fsync(fd)
            os.replace(fresh, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(fresh)
            raise
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}; check the directory and its owner") from error


class _Parser:
    """JSON by the book, with comments and trailing commas if they are allowed; notes where each value begins."""

    def __init__(self, path: Path, text: str, has_comments: bool) -> None:
        self._path, self._text, self._has_comments = path, text, has_comments
        self._at = 0
        self._places: dict[tuple[Key, ...], int] = {}

    def run(self) -> tuple[Any, dict[tuple[Key, ...], int]]:
        value = self._value(())
        self._skip()
        if self._at < len(self._text):
            raise self._wrong("there is more after the end of the value; remove it")
        return value, self._places

    def _value(self, keys: tuple[Key, ...]) -> Any:
        self._skip()
        self._places[keys] = start = self._at
        if len(keys) > DEEPEST:
            raise self._wrong("nested too deeply; no settings are")
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
        raise self._wrong("the file ends too early" if start == len(self._text) else "a value is expected here")

    def _object(self, keys: tuple[Key, ...]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self._at += 1
        while not self._closes("}", is_first=not members):
            if not self._text.startswith('"', self._at):
                raise self._wrong('a name in "double quotes" is expected here')
            start = self._at
            name = self._string()
            # Of two members with one name, which one counts differs between programs: what a person read may not run.
            if name in members and not self._has_comments:
                raise self._wrong(f"the name {name!r} stands here a second time; remove one of the two", start)
            self._skip()
            if not self._text.startswith(":", self._at):
                raise self._wrong("a colon is expected here")
            self._at += 1
            members[name] = self._value((*keys, name))
        return members

    def _array(self, keys: tuple[Key, ...]) -> list[Any]:
        items: list[Any] = []
        self._at += 1
        while not self._closes("]", is_first=not items):
            items.append(self._value((*keys, len(items))))
        return items

    def _closes(self, bracket: str, *, is_first: bool) -> bool:
        """Goes to the next member, or past the end; says which."""
        self._skip()
        if not is_first and not self._text.startswith(bracket, self._at):
            if not self._text.startswith(",", self._at):
                raise self._wrong(f"a comma or {bracket} is expected here")
            comma = self._at
            self._at += 1
            self._skip()
            if self._text.startswith(bracket, self._at) and not self._has_comments:
                raise self._wrong("no comma may stand after the last member; remove it", comma)
        if self._at >= len(self._text):
            raise self._wrong(f"the file ends where {bracket} is missing")
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
            note = _NOTE.match(self._text, self._at)
            if note is None:
                raise self._wrong("this comment has no end")
            self._at = note.end()

    def _wrong(self, message: str, at: int | None = None) -> ConfigError:
        return ConfigError(f"{_point(self._path, self._text, self._at if at is None else at)}: {message}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _point(path: Path, text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"{path}:{line}:{at - text.rfind(chr(10), 0, at)}"
