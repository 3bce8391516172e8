"""Between bytes on the disk and the text an agent sees: encoding, line endings, a window of lines.

A line ends at `\\n` and nowhere else, and every character comes back as it stands. The byte order mark of a file
belongs to the file: readers do not see it, writers cannot lose it. Pure: a path is only used to name the file in an
error.
"""

from __future__ import annotations

from typing import Final

from dragoman.workspace.failure import WorkspaceError

_MARK: Final = b"\xef\xbb\xbf"


def decode(content: bytes, path: str) -> str:
    """Return the text of a file.

    Raises:
        WorkspaceError: `binary`, for what holds a NUL or is not UTF-8.
    """
    if b"\0" in content:
        raise WorkspaceError("binary", path, "it is not text: it holds NUL bytes; use a program that knows its format")
    try:
        return (content[3:] if content.startswith(_MARK) else content).decode()
    except UnicodeDecodeError as error:
        raise WorkspaceError(
            "binary", path, f"it is not UTF-8 text (byte {error.start}); convert it, or use a program that knows it"
        ) from None


def encode(text: str, existing: bytes | None, path: str) -> bytes:
    """Return the bytes to store, in the manner of the file they replace: its byte order mark and its line endings.

    A file whose every line ends in CRLF keeps that, since an agent that edits one often mixes in lines of its own.
    In any other file the text is stored as it was given.
    """
    if "\0" in text:
        raise WorkspaceError("binary", path, "the text holds a NUL, which no text file does; write it without")
    if existing and _is_crlf(existing):
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise WorkspaceError("binary", path, "the text holds half a character (a lone surrogate)") from None
    if existing and existing.startswith(_MARK) and not content.startswith(_MARK):
        return _MARK + content
    return content


def window(text: str, line: int | None, limit: int | None) -> str:
    """Return `limit` lines from the 1-based `line` on, their newlines kept.

    Empty if the text ends before (rules 274, 277).

    A line 0 is read as the first: some agents count so, and it cannot mean anything else.
    """
    start = 0
    for _ in range((line or 1) - 1):
        start = text.find("\n", start) + 1
        if not start:
            return ""
    if limit is None:
        return text[start:]
    end = start
    for _ in range(limit):
        end = text.find("\n", end) + 1
        if not end:
            return text[start:]
    return text[start:end]


def _is_crlf(content: bytes) -> bool:
    lines = content.count(b"\n")
    return lines > 0 and content.count(b"\r\n") == lines
