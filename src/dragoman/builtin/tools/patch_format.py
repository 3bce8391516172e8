"""The patch format that some models are trained on: file sections with chunks that have no line numbers. Pure.

Owns reading a patch and applying the chunks of one file to its text. A chunk is searched from the end of the one before
it; lines named after `@@` narrow down where it is. Lines are compared exactly, then without white space at their ends,
then without it on both sides, then with plain punctuation; where they are not equal exactly, there must be one place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from dragoman.builtin.tools.edit_match import plain_punctuation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
_ADD: Final = "*** Add File: "
_DELETE: Final = "*** Delete File: "
_UPDATE: Final = "*** Update File: "
_MOVE: Final = "*** Move to: "
_END_OF_FILE: Final = "*** End of File"
_HEREDOC: Final = re.compile(r"""(?:apply_patch[ \t]+)?<<-?[ \t]*(['"]?)(\w+)\1[ \t]*""")
_COMPARED: Final[tuple[Callable[[str], str], ...]] = (
    str,
    str.rstrip,
    str.strip,
    lambda line: plain_punctuation(line.strip()),
)
_LINES_SHOWN: Final = 8


class PatchError(ValueError):
    """The patch cannot be read or applied. The message says where and why."""


class PatchChunk(Struct):
    """Lines to find and their replacement."""

    heads: list[str]
    """Lines after which the chunk has to be, outermost first."""
    old: list[str]
    new: list[str]
    is_at_end: bool = False


class FilePatch(Struct):
    """What a patch does with one file."""

    action: Literal["add", "delete", "update"]
    path: str
    text: str = ""
    """The content of a file that is added."""
    move_to: str | None = None
    chunks: list[PatchChunk] = []


def parse_patch(patch: str) -> list[FilePatch]:
    """Read a patch. Raises: PatchError, with the number of the line."""
    reader = _Reader(_body(patch))
    files: list[FilePatch] = []
    while (line := reader.line) is not None:
        if not line.strip():
            reader.next()
        elif line.startswith(_ADD):
            files.append(_read_add(reader, line.removeprefix(_ADD).strip()))
        elif line.startswith(_DELETE):
            files.append(FilePatch("delete", line.removeprefix(_DELETE).strip()))
            reader.next()
        elif line.startswith(_UPDATE):
            files.append(_read_update(reader, line.removeprefix(_UPDATE).strip()))
        else:
            raise reader.error("a file section has to begin here: *** Add File:, *** Delete File: or *** Update File:")
        if files and not files[-1].path:
            raise reader.error("the path is missing")
    if not files:
        raise PatchError("the patch names no file")
    return files


def apply_chunks(text: str, chunks: Sequence[PatchChunk], name: str) -> tuple[str, int]:
    """Return the text with the chunks applied, and the first line that changed. Raises: PatchError."""
    ending = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines[-1] == "":
        lines.pop()
    at, first = 0, 0
    for number, chunk in enumerate(chunks, 1):
        where = f"chunk {number} of {len(chunks)} in {name}: " if len(chunks) > 1 else f"{name}: "
        for head in chunk.heads:
            at = _find_head(lines, head, at, where) + 1
        start, old, new = _place(lines, chunk, at, where)
        lines[start : start + len(old)] = new
        same = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        first = first or start + same + 1
        at = start + len(new)
    return ending.join([*lines, ""]) if lines else "", first or 1


# Reading


class _Reader:
    """The lines of a patch, one at a time."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    @property
    def line(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def next(self) -> None:
        self._at += 1

    @property
    def ends_section(self) -> bool:
        """Whether only empty lines are left before the next section, or the end."""
        line = next((line for line in self._lines[self._at :] if line.strip()), None)
        return line is None or (line.startswith("*** ") and line.strip() != _END_OF_FILE)

    def error(self, why: str) -> PatchError:
        shown = "the end of the patch" if self.line is None else repr(self.line[:200])
        return PatchError(f"line {self._at + 2} of the patch: {why}; it is {shown}")


def _body(patch: str) -> list[str]:
    """Return the lines between the first and the last, without a here-document around them. Raises: PatchError."""
    lines = [line.removesuffix("\r") for line in patch.strip().split("\n")]
    heredoc = _HEREDOC.fullmatch(lines[0].strip())
    if heredoc and len(lines) > 2 and lines[-1].strip() == heredoc[2]:
        lines = lines[1:-1]
    elif lines[0].strip() == "apply_patch":
        lines = lines[1:]
    if not lines or lines[0].strip() != BEGIN:
        raise PatchError(f"the first line of a patch has to be {BEGIN!r}")
    if lines[-1].strip() != END:
        raise PatchError(f"the last line of a patch has to be {END!r}")
    return lines[1:-1]


def _read_add(reader: _Reader, path: str) -> FilePatch:
    reader.next()
    lines = []
    while (line := reader.line) is not None and line.startswith("+"):
        lines.append(line[1:])
        reader.next()
    if not lines:
        raise reader.error(f"a line of the new file {path} that begins with + has to be here")
    return FilePatch("add", path, "\n".join([*lines, ""]) if lines != [""] else "")


def _read_update(reader: _Reader, path: str) -> FilePatch:
    reader.next()
    file = FilePatch("update", path, chunks=[])
    if reader.line is not None and reader.line.startswith(_MOVE):
        file.move_to = reader.line.removeprefix(_MOVE).strip()
        reader.next()
    while not reader.ends_section:
        file.chunks.append(_read_chunk(reader, is_first=not file.chunks))
    if not file.chunks and file.move_to is None:
        raise reader.error(f"a change of {path} has to be here")
    return file


def _read_chunk(reader: _Reader, *, is_first: bool) -> PatchChunk:
    chunk = PatchChunk([], [], [])
    has_marker = False
    while (line := reader.line) is not None and (line.rstrip() == "@@" or line.startswith("@@ ")):
        has_marker = True
        if head := line[2:].strip():
            chunk.heads.append(head)
        reader.next()
    if not has_marker and not is_first:
        raise reader.error("@@ has to begin the next chunk, or a blank, - or + a line of this one")
    count = 0
    while (line := reader.line) is not None and (not line or line[0] in " -+"):
        if not line and reader.ends_section:
            break
        count += 1
        if not line or line[0] == " ":
            chunk.old.append(line[1:])
            chunk.new.append(line[1:])
        else:
            (chunk.old if line[0] == "-" else chunk.new).append(line[1:])
        reader.next()
    if reader.line is not None and reader.line.strip() == _END_OF_FILE:
        chunk.is_at_end = True
        reader.next()
    if not count:
        raise reader.error("a line that begins with a blank, - or + has to be here")
    return chunk


# Applying


def _find_head(lines: list[str], head: str, at: int, where: str) -> int:
    for compared in _COMPARED:
        wanted = compared(head)
        for number in range(at, len(lines)):
            if compared(lines[number]) == wanted:
                return number
    raise PatchError(f"{where}there is no line {head!r} after line {at}; nothing was changed")


def _place(lines: list[str], chunk: PatchChunk, at: int, where: str) -> tuple[int, list[str], list[str]]:
    """Return where the chunk is, and its old and new lines with the context lines as they are in the file."""
    old, new = chunk.old, chunk.new
    if not old:
        return (at if chunk.heads else len(lines)), old, new
    start = _find(lines, chunk, old, at, where)
    if start is None and not old[-1].strip():
        # An empty line at the end of a chunk is often only the end of the message.
        old = old[:-1]
        new = new[:-1] if new and not new[-1].strip() else new
        start = _find(lines, chunk, old, at, where) if old else None
    if start is None:
        shown = "\n".join(chunk.old[:_LINES_SHOWN])
        more = f"\n... {len(chunk.old) - _LINES_SHOWN} more lines" if len(chunk.old) > _LINES_SHOWN else ""
        after = f" after line {at}" if at else ""
        raise PatchError(f"{where}these lines are not there{after}, so nothing was changed:\n{shown}{more}")
    return start, old, _with_context_of(lines[start : start + len(old)], old, new)


def _find(lines: list[str], chunk: PatchChunk, old: list[str], at: int, where: str) -> int | None:
    last = len(lines) - len(old)
    for compared in _COMPARED:
        wanted = [compared(line) for line in old]
        have = [compared(line) for line in lines]
        if chunk.is_at_end and last >= at and have[last:] == wanted:
            return last
        found = [n for n in range(at, last + 1) if have[n] == wanted[0] and have[n : n + len(wanted)] == wanted]
        if len(found) > 1 and compared is not str:
            named = ", ".join(str(n + 1) for n in found[:_LINES_SHOWN])
            raise PatchError(
                f"{where}the lines occur {len(found)} times if white space and punctuation are ignored "
                f"(lines {named}); copy them exactly, or name a line above them after @@"
            )
        if found:
            return found[0]
    return None


def _with_context_of(have: list[str], old: list[str], new: list[str]) -> list[str]:
    """Return the new lines, with lines that were not to change as they are in the file."""
    import difflib

    if have == old:
        return new
    fitted: list[str] = []
    for tag, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        fitted += have[old_from:old_to] if tag == "equal" else new[new_from:new_to]
    return fitted
