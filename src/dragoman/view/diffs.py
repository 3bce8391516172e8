"""The difference of two texts as hunks, for any size of text; the same of a git patch; and what changed within lines.

Owns the bounds: what is equal at both ends is cut off first, and texts that are still too long to compare line by line
are shown as removed and added as a whole.
"""

from __future__ import annotations

import re
from contextlib import suppress
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.view.blocks import DiffHunk, DiffLine, DiffPiece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dragoman.view.blocks import DiffLine as Line

CONTEXT: Final = 3
# Lines on both sides that are compared. The matcher is quadratic in the worst case: this many take a tenth of a second.
_COMPARED: Final = 4_000
_SHOWN: Final = 2_000  # lines of one change: more than is read in a conversation
COMPARED_COLUMNS: Final = 400  # of a line: the comparison is quadratic
_ALIKE: Final = 0.4  # of two lines that are one line before and after
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPED: Final = re.compile(r"\\([0-3][0-7]{2}|[abtnvfr\"\\])")
_LETTERS: Final = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


def diff_piece(path: str, old: str | None, new: str, *, most: int = _SHOWN) -> DiffPiece:
    """Return the change from `old` (None: a new file) to `new`, with at most so many lines."""
    before, after = _lines(old or ""), _lines(new)
    hunks: list[DiffHunk] = []
    added = removed = shown = left_out = 0
    for hunk in _hunks(before, after):
        added += sum(line.sign == "+" for line in hunk.lines)
        removed += sum(line.sign == "-" for line in hunk.lines)
        room = max(0, most - shown)
        shown += len(hunk.lines)
        left_out += max(0, len(hunk.lines) - room)
        if room:
            hunks.append(DiffHunk(hunk.old_line, hunk.new_line, hunk.lines[:room]))
    return DiffPiece(path, old is None, added, removed, tuple(hunks), left_out)


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffHunk]:
    start, stop = _equal_ends(before, after)
    old, new = before[start : len(before) - stop], after[start : len(after) - stop]
    if not old and not new:
        return
    # The context is part of the compared texts, so that it is in the hunks.
    lead, tail = before[max(0, start - CONTEXT) : start], before[len(before) - stop :][:CONTEXT]
    first = start - len(lead) + 1
    if len(old) + len(new) > _COMPARED:
        lines = [*_signed(" ", lead), *_signed("-", old), *_signed("+", new), *_signed(" ", tail)]
        yield DiffHunk(first, first, tuple(lines))
        return
    old, new = [*lead, *old, *tail], [*lead, *new, *tail]
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        lines = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += _signed(" ", old[i1:i2])
            else:
                lines += [*_signed("-", old[i1:i2]), *_signed("+", new[j1:j2])]
        yield DiffHunk(first + group[0][1], first + group[0][3], tuple(lines))


def _equal_ends(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """Count how many lines are equal at the beginning, and how many of the rest at the end."""
    most = min(len(before), len(after))
    start = next((n for n in range(most) if before[n] != after[n]), most)
    rest = most - start
    stop = next((n for n in range(rest) if before[-1 - n] != after[-1 - n]), rest)
    return start, stop


def _signed(sign: str, lines: Sequence[str]) -> list[Line]:
    return [DiffLine(sign, line) for line in lines]


class PatchedFile(Struct, frozen=True):
    """The change of one file in a patch."""

    piece: DiffPiece
    what: str
    """What the lines do not say, such as `deleted`, `renamed from a.py`, `binary`, `mode 100644 to 100755`."""


def read_patched_files(patch: str, *, most: int = _SHOWN, most_chars: int = 400_000) -> list[PatchedFile]:
    """Return the files of a git patch, with at most so many lines of each and so many characters of all.

    What is left out is counted. A hunk says how many lines it has, whatever they look like.
    """
    files: list[_PatchReader] = []
    room = most_chars
    old = new = 0
    for line in patch.split("\n"):
        if files and (old > 0 or new > 0):
            sign = line[:1] or " "
            if sign != "\\":
                old, new = old - (sign != "+"), new - (sign != "-")
                room -= files[-1].take(sign if sign in "+-" else " ", line[1:], most, room)
        elif line.startswith("diff --git "):
            files.append(_PatchReader(line[11:]))
        elif files and (found := _HUNK.match(line)):
            old, new = int(found[2] or 1), int(found[4] or 1)
            files[-1].begin(int(found[1]), int(found[3]))
        elif files:
            files[-1].head(line)
    return [file.result() for file in files]


class _PatchReader:
    """The part of a patch about one file, read line by line."""

    def __init__(self, names: str) -> None:
        # Both names are the same unless the file was renamed, and then lines of their own have them.
        self._path = _unquoted(names[: len(names) // 2], "a/")
        self._words: list[str] = []
        self._mode = ""
        self._added = self._removed = self._shown = self._left_out = 0
        self._hunks: list[tuple[int, int, list[Line]]] = []

    def head(self, line: str) -> None:
        """Take a line above the hunks."""
        word, _, rest = line.partition(" ")
        if line.startswith(("new file", "deleted file")):
            self._words.append(word)
        elif line.startswith("rename from "):
            self._words.append(f"renamed from {_unquoted(line[12:])}")
        elif line.startswith("rename to "):
            self._path = _unquoted(line[10:])
        elif line.startswith("old mode "):
            self._mode = rest[5:]
        elif line.startswith("new mode "):
            self._words.append(f"mode {self._mode} to {rest[5:]}")
        elif line == "GIT binary patch" or word == "Binary":
            self._words.append("binary")
        elif word in ("---", "+++") and rest != "/dev/null":
            self._path = _unquoted(rest.partition("\t")[0], "a/" if word == "---" else "b/")

    def begin(self, old_line: int, new_line: int) -> None:
        """Begin a hunk."""
        self._hunks.append((old_line, new_line, []))

    def take(self, sign: str, text: str, most: int, room: int) -> int:
        """Take a line of a hunk; return how many characters of it are kept."""
        self._added, self._removed = self._added + (sign == "+"), self._removed + (sign == "-")
        if self._shown >= most or room <= 0:
            self._left_out += 1
            return 0
        self._shown += 1
        kept = text.removesuffix("\r") if len(text) <= room else f"{text[:room]}…"
        self._hunks[-1][2].append(DiffLine(sign, kept))
        return len(kept) + 1

    def result(self) -> PatchedFile:
        """Return what was read."""
        hunks = tuple(DiffHunk(old, new, tuple(lines)) for old, new, lines in self._hunks if lines)
        is_new = "new" in self._words
        piece = DiffPiece(self._path, is_new, self._added, self._removed, hunks, self._left_out)
        return PatchedFile(piece, ", ".join(word for word in self._words if word != "new"))


def _unquoted(name: str, side: str = "") -> str:
    """Return a name of a patch as it is: git writes some in C quotes, and most with a letter for the side."""
    if name[:1] == '"' and name[-1:] == '"' and len(name) > 1:
        name = _ESCAPED.sub(lambda found: _LETTERS.get(found[1]) or chr(int(found[1], 8)), name[1:-1])
        with suppress(UnicodeError):  # octal numbers are bytes
            name = name.encode("latin-1").decode()
    return name.removeprefix(side)


def changed_parts(signs: Sequence[str], texts: Sequence[str]) -> dict[int, list[tuple[int, int]]]:
    """Find where lines differ from the line that they replace: index -> places in its text."""
    parts_of: dict[int, list[tuple[int, int]]] = {}
    at = 0
    while at < len(signs):
        old = at
        while at < len(signs) and signs[at] == "-":
            at += 1
        new = at
        while at < len(signs) and signs[at] == "+":
            at += 1
        # Only groups with as many lines before and after: otherwise it is not known which replaces which.
        if new > old and at - new == new - old:
            for first, second in zip(range(old, new), range(new, at), strict=True):
                parts_of |= _compared(first, second, texts)
        at = max(at, old + 1)
    return parts_of


def _compared(first: int, second: int, texts: Sequence[str]) -> dict[int, list[tuple[int, int]]]:
    before, after = texts[first], texts[second]
    if max(len(before), len(after)) > COMPARED_COLUMNS or before.strip() == after.strip():
        return {}
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.quick_ratio() < _ALIKE or matcher.ratio() < _ALIKE:
        return {}
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return {
        first: [(i1, i2) for _, i1, i2, _, _ in changes if i2 > i1],
        second: [(j1, j2) for _, _, _, j1, j2 in changes if j2 > j1],
    }


def marked_runs(
    runs: Sequence[tuple[str, str]], places: Sequence[tuple[int, int]], mark: Callable[[str], str]
) -> list[tuple[str, str]]:
    """Return the runs of a line with the style `mark` makes of theirs between places."""
    marked: list[tuple[str, str]] = []
    at = 0
    for text, style in runs:
        start = at
        at += len(text)
        done = start
        for first, last in places:
            first, last = max(first, done), min(last, at)
            if first >= last:
                continue
            if first > done:
                marked.append((text[done - start : first - start], style))
            marked.append((text[first - start : last - start], mark(style)))
            done = last
        if done < at:
            marked.append((text[done - start :], style))
    return marked
