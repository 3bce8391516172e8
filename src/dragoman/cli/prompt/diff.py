"""The change of one file as coloured unified hunks.

Complete and literal: no line is cut and hidden characters are named, so that the user can read exactly what would be
written. Pure; the caller decides how much of it is shown, and `dragoman.workspace` finds the differences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.text.colour import BOLD, CYAN, GREEN, RED
from dragoman.text.visible import quoted, spelled, wrapped
from dragoman.workspace.hunks import find_hunks, group_hunks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.text.colour import Painter
    from dragoman.workspace.hunks import Hunk

_CONTEXT: Final = 3
_LINES: Final = 20_000  # more than is ever read, and drawn within a moment
_STYLES: Final = {"+": GREEN, "-": RED, "@": CYAN}


class DiffView(NamedTuple):
    """A change, ready to be shown."""

    path: str
    added: int
    removed: int
    lines: list[str]

    @property
    def figures(self) -> str:
        return f"+{self.added} -{self.removed}"


def view_diff(path: str, old: str | None, new: str, *, paint: Painter, width: int, is_whole: bool = True) -> DiffView:
    """Return the change from `old` (None: a new file) to `new`, in lines of at most `width` columns.

    Args:
        is_whole: both are known to be whole files. Otherwise they may be pieces, whose ends say nothing about the file.
    """
    hunks = find_hunks(None if old is None else _bytes(old), _bytes(new))
    note = " (new file)" if old is None else " (emptied)" if old and not new else ""
    lines = [paint(piece, BOLD) for piece in wrapped(quoted(path) + note, width)]
    for sign, text in _unified((old or "").split("\n"), hunks, _ending(old, new, is_whole=is_whole)):
        style = _STYLES.get(sign)
        body = text if sign in "@\\" else sign + spelled(text)
        lines += [paint(piece, style) if style else piece for piece in wrapped(body, width)]
        if len(lines) >= _LINES:
            lines.append(f"… the rest of the change is not shown: it is longer than {_LINES} lines")
            break
    return DiffView(path, sum(len(hunk.after) for hunk in hunks), sum(len(hunk.before) for hunk in hunks), lines)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _ending(old: str | None, new: str, *, is_whole: bool) -> str:
    """Return the line after a last line without a newline; nothing if it may be the end of a piece on both sides."""
    if is_whole:
        return "\\ no newline at the end of the file"
    differs = bool(old) and bool(new) and (old or "").endswith("\n") != new.endswith("\n")
    return "\\ no newline at the end of this piece" if differs else ""


def _unified(before: Sequence[str], hunks: Sequence[Hunk], ending: str) -> Iterator[tuple[str, str]]:
    """Yield signs and lines. If all lines of a file end with CR LF, the CR is left out."""
    with_return = [line.endswith("\r") for line in before[:-1]]
    with_return += [line.endswith("\r\n") for hunk in hunks for line in hunk.after]
    end = "\r" if with_return and all(with_return) else ""
    last = len(before) - (before[-1] == "")  # lines there are
    for group in group_hunks(hunks, _CONTEXT):
        start = max(0, group[0].before_line - 1 - _CONTEXT)
        stop = min(last, group[-1].before_end + _CONTEXT)
        shift = group[0].after_line - group[0].before_line
        grown = sum(len(hunk.after) - len(hunk.before) for hunk in group)
        yield "@", f"@@ -{_range(start, stop)} +{_range(start + shift, stop + shift + grown)} @@"
        at = start
        for hunk in group:
            for line in before[at : hunk.before_line - 1]:
                yield " ", line.removesuffix(end)
            yield from _signed("-", hunk.before, end, ending)
            yield from _signed("+", hunk.after, end, ending)
            at = hunk.before_end
        for line in before[at:stop]:
            yield " ", line.removesuffix(end)


def _range(start: int, stop: int) -> str:
    count = stop - start
    return f"{start + 1}" if count == 1 else f"{start + (count > 0)},{count}"


def _signed(sign: str, lines: Sequence[str], end: str, ending: str) -> Iterator[tuple[str, str]]:
    for line in lines:
        text = line.removesuffix("\n")
        yield sign, text.removesuffix(end)
        if text == line and ending:
            yield "\\", ending
