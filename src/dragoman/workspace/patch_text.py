"""Patches in the form of git: text line by line, binary contents whole, with renames and modes.

Pure. `git apply` accepts what is made here. Names are relative to the folder that the patch is for.
"""

from __future__ import annotations

import zlib
from base64 import b85encode
from hashlib import sha1
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.workspace.hunks import find_hunks, group_hunks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CONTEXT: Final = 3
_NO_NEWLINE: Final = "\\ No newline at end of file\n"
_NO_BLOB: Final = "0" * 40
_LINE_BYTES: Final = 52  # of a binary patch


class PatchSide(NamedTuple):
    """A file on one side of a patch: its path, its mode as git writes it (`100644`), and its content."""

    name: str
    mode: str
    content: bytes


def file_patch(old: PatchSide | None, new: PatchSide | None) -> bytes:
    """Return the patch of one file; None stands for no file. Empty if both sides are the same."""
    if old is None or new is None:
        if old is None and new is None:
            return b""
    elif old == new:
        return b""
    elif old.mode[:3] != new.mode[:3]:  # a file that became a link, or the other way round
        return file_patch(old, None) + file_patch(None, new)
    before_name = _quoted(f"a/{(old or new).name}")  # type: ignore[union-attr]  # one is not None
    after_name = _quoted(f"b/{(new or old).name}")  # type: ignore[union-attr]
    lines = [f"diff --git {before_name} {after_name}\n", *_header(old, new)]
    before, after = b"" if old is None else old.content, b"" if new is None else new.content
    if b"\0" in before or b"\0" in after:
        lines += _binary(old, new)
    elif before != after:
        lines.append(f"--- {before_name if old is not None else '/dev/null'}{_end(old)}\n")
        lines.append(f"+++ {after_name if new is not None else '/dev/null'}{_end(new)}\n")
        lines += _unified(before, after)
    elif old is None or new is None:
        lines.append("index 0000000..e69de29\n" if old is None else "index e69de29..0000000\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def _header(old: PatchSide | None, new: PatchSide | None) -> Iterator[str]:
    if old is None:
        assert new is not None
        yield f"new file mode {new.mode}\n"
    elif new is None:
        yield f"deleted file mode {old.mode}\n"
    else:
        if old.mode != new.mode:
            yield f"old mode {old.mode}\nnew mode {new.mode}\n"
        if old.name != new.name:
            yield f"rename from {_quoted(old.name)}\nrename to {_quoted(new.name)}\n"


def _binary(old: PatchSide | None, new: PatchSide | None) -> Iterator[str]:
    names = [_NO_BLOB if side is None else _blob(side.content) for side in (old, new)]
    if names[0] == names[1]:
        return
    yield f"index {names[0]}..{names[1]}\nGIT binary patch\n"
    for side in (new, old):
        content = b"" if side is None else side.content
        yield f"literal {len(content)}\n"
        packed = zlib.compress(content)
        for start in range(0, len(packed), _LINE_BYTES):
            piece = packed[start : start + _LINE_BYTES]
            letter = chr(ord("A") + len(piece) - 1) if len(piece) <= 26 else chr(ord("a") + len(piece) - 27)
            yield letter + b85encode(piece, pad=True).decode("ascii") + "\n"
        yield "\n"


def _blob(content: bytes) -> str:
    return sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _end(side: PatchSide | None) -> str:
    # As git does: without the tab, what follows a space may be taken for a time.
    return "\t" if side is not None and " " in side.name else ""


def _quoted(name: str) -> str:
    """Return a name as git writes it: in C quotes if it has characters that would end it."""
    if not any(map(_is_special, name)):
        return name
    escaped = "".join(f"\\{ord(letter):03o}" if _is_special(letter) else letter for letter in name)
    return f'"{escaped}"'


def _is_special(letter: str) -> bool:
    return letter in '"\\' or ord(letter) < 0x20 or ord(letter) == 0x7F


def _unified(before: bytes, after: bytes) -> Iterator[str]:
    old = before.decode("utf-8", "surrogateescape").split("\n")
    last = old.pop()
    lines = [f"{line}\n" for line in old] + ([last] if last else [])
    for group in group_hunks(find_hunks(before, after), _CONTEXT):
        start = max(0, group[0].before_line - 1 - _CONTEXT)
        stop = min(len(lines), group[-1].before_end + _CONTEXT)
        shift = group[0].after_line - group[0].before_line
        grown = sum(len(hunk.after) - len(hunk.before) for hunk in group)
        yield f"@@ -{_range(start, stop)} +{_range(start + shift, stop + shift + grown)} @@\n"
        at = start
        for hunk in group:
            yield from _signed(" ", lines[at : hunk.before_line - 1])
            yield from _signed("-", hunk.before)
            yield from _signed("+", hunk.after)
            at = hunk.before_end
        yield from _signed(" ", lines[at:stop])


def _signed(sign: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line
        if not line.endswith("\n"):
            yield "\n" + _NO_NEWLINE


def _range(start: int, stop: int) -> str:
    count = stop - start
    return f"{start + (count > 0)},{count}"
