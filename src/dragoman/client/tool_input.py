"""Finds paths, commands, changes and addresses in the arguments of a tool call, in the forms that real agents send.

Reads any JSON value to a fixed depth; keys are compared without case and underscores, because agents spell them in
every way. Texts that are written to files, and descriptions, are not searched. What is there and cannot be read is a
`problem`, never silently nothing. Does not judge, and does not look at the disk.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.policy.paths import is_below

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_DEPTH: Final = 6  # objects in objects; the deepest recorded agent nests three


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PATH_KEYS: Final = _keys(
    "path file filepath filename abspath absolutepath notebookpath targetfile source destination oldpath newpath"
)
_LIST_KEYS: Final = _keys("files edits changes paths filepaths")
_COMMAND_KEYS: Final = _keys("command cmd commandline shellcommand script argv")
_ARGUMENT_KEYS: Final = ("args", "arguments")
_FOLDER_KEYS: Final = _keys("cwd workdir workingdirectory directory dirpath")
_TEXT_KEYS: Final = _keys(
    "content contents newstring oldstring newstr oldstr newtext oldtext filetext description reason prompt summary"
    " thought title old new text"
)
_NEW_KEYS: Final = _keys("newstring newstr newtext new")
_OLD_KEYS: Final = _keys("oldstring oldstr oldtext old")
_WHOLE_KEYS: Final = _keys("content contents filetext text")
_EVERYWHERE_KEYS: Final = _keys("replaceall all")
_JSON_KEYS: Final = _keys("arguments input params parameters")
# Rules that an agent proposes to itself: it does not run them.
_PROPOSALS: Final = re.compile(r"proposed.*|.*amendment|(permission)?suggestions")
# Editing tools have a member `command` for what they do to a file.
_READING_WORDS: Final = _keys("view read")
_EDITING_WORDS: Final = _keys("create str_replace insert undo_edit write edit") | _READING_WORDS
_HOST: Final = re.compile(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:.]+")
_PATCH_FILE: Final = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (?P<path>[^\r\n]+)", re.MULTILINE)
_UNIFIED: Final = re.compile(r"^--- (?P<old>[^\r\n]+)\r?\n\+\+\+ (?P<new>[^\r\n]+)", re.MULTILINE)
_RENAMED: Final = re.compile(r"^(?:rename|copy) (?:from|to) (?P<path>[^\r\n]+)", re.MULTILINE)
# `b/etc/passwd` in a patch may be an absolute path behind the letter, as Copilot writes it.
_TOP_FOLDERS: Final = ("etc/", "home/", "root/", "Users/")


class ShownChange(Struct, frozen=True):
    """A change of a file that was shown: `old` is None if `new` is the whole text, otherwise a piece or all of it."""

    path: str
    old: str | None
    new: str
    is_everywhere: bool = False

    def is_like(self, other: ShownChange) -> bool:
        """Whether both show the same change, up to one newline at the end."""
        return self.path == other.path and self.old == other.old and is_same_text(self.new, other.new)


class ShownCommand(Struct, frozen=True):
    """A command that was shown: its words or its shell line, and its folder if that was named."""

    argv: tuple[str, ...] | None
    line: str | None
    cwd: str = ""


class ToolInput:
    """What was found in the arguments of a tool so far, in the order in which it was found."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.kinds: dict[str, None] = {}
        self.paths: dict[str, None] = {}
        self.commands: dict[ShownCommand, None] = {}
        self.changes: dict[ShownChange, None] = {}
        self.hosts: dict[str, None] = {}
        self.problem = ""

    def add_path(self, path: object) -> None:
        if isinstance(path, str) and path:
            self.paths[path] = None

    def add_change(self, path: str, old: str | None, new: str, *, is_everywhere: bool = False) -> None:
        self.add_path(path)
        self.kinds["edit"] = None
        self.changes[ShownChange(path, old, new, is_everywhere)] = None

    def add_line(self, line: str) -> None:
        self.commands[ShownCommand(None, line)] = None

    def read(self, value: Any, *, is_command: bool) -> None:
        """Read the arguments of a tool; `is_command` if the tool is known to run commands."""
        arguments = json_object(value) if isinstance(value, str) else None
        self._read(value if arguments is None else arguments, 0, "", is_command)

    def _read(self, value: Any, depth: int, cwd: str, is_command: bool) -> None:
        if isinstance(value, str):
            self._read_text(value)
        elif isinstance(value, dict | list) and value and depth > MOST_DEPTH:
            self.problem = "its input is nested too deeply"
        elif isinstance(value, list):
            for each in value:
                # A list in a list counts as deeper, so that no input is read without an end.
                self._read(each, depth + isinstance(each, list), cwd, is_command)
        elif isinstance(value, dict):
            self._read_object(value, depth, cwd, is_command)

    def _read_object(self, raw: dict[str, Any], depth: int, cwd: str, is_command: bool) -> None:
        members = [(key, _plain(key), value) for key, value in raw.items()]
        cwd = next((value for _, key, value in members if key in _FOLDER_KEYS and isinstance(value, str)), cwd)
        has_path = any(key in _PATH_KEYS and isinstance(value, str) for _, key, value in members)
        self._read_commands(members, cwd, is_editing=has_path and not is_command)
        self._read_change(members)
        for _, key, value in members:
            if key in _TEXT_KEYS or key in _COMMAND_KEYS or key == "commands" or _PROPOSALS.fullmatch(key):
                continue
            if key in ("url", "uri"):
                self._read_address(value)
            elif key in _PATH_KEYS and isinstance(value, str):
                self.add_path(value)
            elif key in _LIST_KEYS or (key in _PATH_KEYS and isinstance(value, list)):
                self._read_files(value, depth, cwd, is_command)
            elif key in _JSON_KEYS and isinstance(value, str) and (inner := json_object(value)) is not None:
                self._read(inner, depth + 1, cwd, is_command)
            elif isinstance(value, dict | list | str):
                self._read(value, depth + isinstance(value, dict), cwd, is_command)

    def _read_files(self, value: Any, depth: int, cwd: str, is_command: bool) -> None:
        """Several files: paths, objects with a path, or an object whose keys are paths."""
        if isinstance(value, str):
            self.add_path(value)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, str):
                    self.add_path(each)
                else:
                    self._read(each, depth + 1, cwd, is_command)
        elif isinstance(value, dict):
            if not any(_plain(key) in _PATH_KEYS | _TEXT_KEYS for key in value):
                for key, each in value.items():
                    self.add_path(key)
                    self._read(each, depth + 2, cwd, is_command)
            else:
                self._read(value, depth + 1, cwd, is_command)

    def _read_commands(self, members: list[tuple[str, str, Any]], cwd: str, *, is_editing: bool) -> None:
        values = {key: value for _, key, value in members}
        arguments = next((values[key] for key in _ARGUMENT_KEYS if values.get(key)), None)
        for _, key, value in members:
            if not value:
                continue
            if key == "commands":
                for each in value if isinstance(value, list) else [value]:
                    self._add_command(each, None, cwd)
            elif key in _COMMAND_KEYS:
                if is_editing and isinstance(value, str) and value in _EDITING_WORDS:
                    self.kinds["read" if value in _READING_WORDS else "edit"] = None
                else:
                    self._add_command(value, arguments, cwd)

    def _add_command(self, value: Any, arguments: Any, cwd: str) -> None:
        words = [value] if isinstance(value, str) else value
        arguments = [] if arguments is None else arguments
        if not _is_words(words) or not _is_words(arguments):
            self.kinds["execute"] = None
            self.problem = "its command has an unknown form"
        elif isinstance(value, str) and not arguments:
            self.commands[ShownCommand(None, value, cwd)] = None
        elif words:
            self.commands[ShownCommand((*words, *arguments), None, cwd)] = None

    def _read_change(self, members: list[tuple[str, str, Any]]) -> None:
        """A path with the text that is written to it, or with a piece and what replaces it."""
        texts = {key: value for _, key, value in members if isinstance(value, str)}
        path = next((value for key, value in texts.items() if key in _PATH_KEYS), None)
        if path is None:
            return
        old = next((value for key, value in texts.items() if key in _OLD_KEYS), None)
        new = next((value for key, value in texts.items() if key in _NEW_KEYS), None)
        whole = next((value for key, value in texts.items() if key in _WHOLE_KEYS), None)
        if old and new is not None:
            is_everywhere = any(key in _EVERYWHERE_KEYS and value is True for _, key, value in members)
            self.add_change(path, old, new, is_everywhere=is_everywhere)
        elif whole is not None and new is None and old is None:
            self.add_change(path, None, whole)

    def _read_address(self, value: Any) -> None:
        if isinstance(value, str) and value.startswith("file://"):
            from urllib.parse import unquote

            self.add_path("/" + unquote(value.removeprefix("file://")).partition("/")[2])
        elif (host := find_host(value)) is not None:
            self.hosts[host] = None

    def _read_text(self, text: str) -> None:
        """The files that a patch names; any other text has nothing to read."""
        for path in _patched_files(text, self.root, self.paths):
            self.kinds["edit"] = None
            self.add_path(path)


def is_same_text(one: str, other: str) -> bool:
    """Whether two texts are equal up to one newline at the end, which some agents do not show."""
    return one == other or one == f"{other}\n" or f"{one}\n" == other


def _plain(key: str) -> str:
    return key.replace("_", "").lower()


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def json_object(text: str) -> dict[str, Any] | None:
    """The object that a text is, whole; None for anything else, such as the beginning of one."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return found if isinstance(found, dict) else None


def _patched_files(text: str, root: str, known: Any) -> Iterator[str]:
    """The files that a patch changes, in the format of `apply_patch` or as a unified diff."""
    for found in _PATCH_FILE.finditer(text):
        yield os.path.join(root, found["path"].strip())
    for found in _UNIFIED.finditer(text):
        for header in found.groups():
            yield from _unified_path(header.partition("\t")[0].strip().strip('"'), root, known)
    if text.lstrip().startswith("diff --git "):
        for found in _RENAMED.finditer(text):
            yield os.path.join(root, found["path"].strip())


def _unified_path(header: str, root: str, known: Any) -> Iterator[str]:
    path = header[2:] if header.startswith(("a/", "b/")) else header
    if path in ("/dev/null", "dev/null"):
        return
    absolute = "/" + path.lstrip("/")
    if path.startswith("/") or is_below(absolute, root) or absolute in known:
        yield absolute
        return
    yield os.path.join(root, path)
    if path.startswith(_TOP_FOLDERS):
        yield absolute


def find_host(url: Any) -> str | None:
    """The host that an address leads to, None if readers of addresses could disagree about it."""
    # Browsers read a backslash as a slash and this parser does not: they would see different hosts.
    if not isinstance(url, str) or not url or "\\" in url or not url.isprintable() or " " in url:
        return None
    from urllib.parse import urlsplit

    try:
        host = urlsplit(url if "://" in url else f"https://{url}").hostname
    except ValueError:
        return None
    return host if host and _HOST.fullmatch(host) else None
