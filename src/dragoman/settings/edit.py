"""Changes the user's settings file, and leaves everything else in it as it is written: comments, order, spaces.

Only the text of a value that changed is replaced, so a file that a user keeps with care stays theirs.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConfigError
from dragoman.settings.documents import read_document, spans_of, write_private, write_shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dragoman.settings.documents import Key

_SKIPPED: Final = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_INDENT: Final = 2


@contextmanager
def edit_settings(path: Path, *, is_shared: bool = False) -> Iterator[dict[str, Any]]:
    """Provide the members of a settings file that has been read and checked; what was changed is written at the end.

    Args:
        is_shared: it is a project's file, which everyone who works on the project reads.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    document = read_document(path, has_comments=True, may_repeat=False)
    if document is not None and not isinstance(document.value, dict):
        raise document.error('settings must be an object: {"agent_servers": {...}}')
    before: dict[str, Any] = {} if document is None else document.value
    members = deepcopy(before)
    yield members
    if document is not None and members == before:
        return
    text = "{}" if document is None else path.read_text("utf-8-sig")
    text = changed_text(path, text, before, members)
    data = (text.rstrip() + "\n").encode("utf-8", "surrogatepass")
    try:
        (write_shared if is_shared else write_private)(path, data)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}; check the directory and its owner") from error


def changed_text(path: Path, text: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return the text of an object, with the members that differ replaced, added or removed. Raises: ConfigError."""
    return _changed(path, text, (), before, after)


def _changed(path: Path, text: str, keys: tuple[Key, ...], before: dict[str, Any], after: dict[str, Any]) -> str:
    for name in before:
        if name not in after:
            text = _without(path, text, (*keys, name))
    for name, value in after.items():
        place = (*keys, name)
        if name not in before:
            text = _with_member(path, text, keys, name, value)
        elif isinstance(value, dict) and isinstance(before[name], dict):
            text = _changed(path, text, place, before[name], value)
        elif value != before[name] or type(value) is not type(before[name]):
            span = spans_of(path, text)[place]
            text = text[: span.start] + _written(value, len(place)) + text[span.end :]
    return text


def _with_member(path: Path, text: str, keys: tuple[Key, ...], name: str, value: object) -> str:
    """Add a member behind the last one of an object, and behind the comment of that one."""
    spans = spans_of(path, text)
    inside = [span for place, span in spans.items() if place[:-1] == keys and place]
    closing = spans[keys].end - 1
    if inside:
        end = max(span.end for span in inside)
        if not text.startswith(",", _skipped(text, end)):
            text = text[:end] + "," + text[end:]
            closing += 1
    space = len(text[:closing].rstrip())
    member = f"{json.dumps(name, ensure_ascii=False)}: {_written(value, len(keys) + 1)}"
    indent = " " * (_INDENT * (len(keys) + 1))
    return f"{text[:space]}\n{indent}{member}\n{indent[_INDENT:]}{text[closing:]}"


def _without(path: Path, text: str, place: tuple[Key, ...]) -> str:
    spans = spans_of(path, text)
    span = spans[place]
    behind = _skipped(text, span.end)
    start, end = span.name, span.end
    if text.startswith(",", behind):
        end = behind + 1
    else:  # it is the last one: the comma before it goes, too
        others = [span.end for key, span in spans.items() if key[:-1] == place[:-1] and key and span.end < start]
        if others:
            comma = _skipped(text, max(others))
            text = text[:comma] + text[comma + 1 :]
            start, end = start - 1, end - 1
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip() and text[end : end + 1] in ("\n", ""):  # nothing else is on its line
        start, end = line, end + 1
    return text[:start] + text[end:]


def _skipped(text: str, start: int) -> int:
    """Return where the blanks and comments from `start` on end."""
    found = _SKIPPED.match(text, start)
    return start if found is None else found.end()


def _written(value: object, depth: int) -> str:
    return json.dumps(value, indent=_INDENT, ensure_ascii=False).replace("\n", "\n" + " " * (_INDENT * depth))
