"""Changes of files as lines with a rail: unified, or side by side where there are columns enough.

What changed within a line is marked by reverse video, which shows without colour. Long changes are cut unless the view
is open; of very long ones only a summary is shown.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.text.terminal import cells, clip, size
from dragoman.text.visible import spelled
from dragoman.view.diffs import changed_parts, marked_runs
from dragoman.view.rails.markdown import highlighted, joined
from dragoman.view.rails.values import SIDE_BY_SIDE_COLUMNS
from dragoman.view.rails.wrapping import broken_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.view.blocks import DiffHunk, DiffPiece
    from dragoman.view.rails.values import RailLine, RailView, Run

_DIFF_LINES: Final = 40
_MOST_LINES: Final = 5_000
_SUMMARY_LINES: Final = 50_000
_STYLES: Final = {"+": "added", "-": "removed"}


class _Row(NamedTuple):
    """One line of a change, with its number in the file that has it."""

    sign: str
    number: int
    runs: Sequence[Run]


def diff_lines(piece: DiffPiece, view: RailView) -> Iterator[RailLine]:
    """Yield a change with line numbers and signs; long ones are cut unless the view is open."""
    rail = (f"{view.glyphs.agent} ", "")
    changed = piece.added + piece.removed
    if changed > _SUMMARY_LINES:
        text = f"{size(piece.added)} lines added, {size(piece.removed)} removed: too long to be shown here"
        yield (rail, ("   ", ""), (f"{text}, Ctrl+O opens the pager", "dim"))
        return
    limit = _MOST_LINES if view.is_open else _DIFF_LINES
    is_side_by_side = view.is_side_by_side and view.width >= SIDE_BY_SIDE_COLUMNS and piece.added > 0 < piece.removed
    left, shown = piece.left_out, 0
    for number, hunk in enumerate(piece.hunks):
        room = limit - shown
        left += max(0, len(hunk.lines) - max(0, room))
        if room <= 0:
            continue
        if number:
            yield (rail, (f"{view.glyphs.dot * 3:>6}", "dim"))
        rows = hunk_rows(hunk, piece.path, view)[:room]
        shown += len(rows)
        yield from _side_by_side(rows, view) if is_side_by_side else _unified(rows, view)
    if left:
        yield (rail, ("   ", ""), (f"… {left} more lines, {'Ctrl+O opens the pager' if view.is_open else 'Enter or Ctrl+T to read'}", "dim"))  # fmt: skip # noqa: E501


def _unified(rows: Sequence[_Row], view: RailView) -> Iterator[RailLine]:
    for row in rows:
        style = _STYLES.get(row.sign, "")
        head = ((f"{view.glyphs.agent} ", ""), (f"{row.number:>6} {row.sign} ", style))
        first, *others = broken_runs(row.runs, view.width - 11)
        yield (*head, *first)
        for other in others:
            yield (head[0], (" " * 9, ""), *other)


def _side_by_side(rows: Sequence[_Row], view: RailView) -> Iterator[RailLine]:
    """Yield the old lines at the left, the new ones at the right; an unchanged line stands on both sides."""
    width = (view.width - 2 - 3) // 2
    for left, right in _pairs(rows):
        yield (
            (f"{view.glyphs.agent} ", ""),
            *_half(left, width),
            (f" {view.glyphs.pipe} ", "dim"),
            *_half(right, width),
        )


def _pairs(rows: Sequence[_Row]) -> Iterator[tuple[_Row | None, _Row | None]]:
    old: list[_Row] = []
    new: list[_Row] = []
    for row in rows:
        if row.sign == " " or (row.sign == "-" and new):
            yield from zip_longest(old, new)
            old, new = [], []
        if row.sign == " ":
            yield row, row
        else:
            (old if row.sign == "-" else new).append(row)
    yield from zip_longest(old, new)


def _half(row: _Row | None, width: int) -> Iterator[Run]:
    if row is None:
        yield " " * width, ""
        return
    head = f"{row.number:>5} {row.sign} "
    yield head, _STYLES.get(row.sign, "")
    left = width - len(head)
    for text, style in row.runs:
        shown = clip(text, left) if cells(text) > left else text
        yield shown, style
        left -= cells(shown)
        if left <= 0:
            break
    if left > 0:
        yield " " * left, ""


def hunk_rows(hunk: DiffHunk, path: str, view: RailView) -> list[_Row]:
    """Yield the lines of a hunk with their numbers; hidden characters are spelled out, changed parts marked."""
    texts = [spelled(line.text.rstrip("\n")) for line in hunk.lines]
    signs = [line.sign for line in hunk.lines]
    marks = changed_parts(signs, texts)
    colours = _colours(signs, texts, path, view)
    rows, old, new = [], hunk.old_line, hunk.new_line
    for index, (sign, text) in enumerate(zip(signs, texts, strict=True)):
        number = old if sign == "-" else new
        old, new = old + (sign != "+"), new + (sign != "-")
        runs = colours.get(index) or [(text, _STYLES.get(sign, ""))]
        rows.append(_Row(sign, number, marked_runs(runs, marks[index], _changed) if index in marks else runs))
    return rows


def _colours(signs: Sequence[str], texts: Sequence[str], path: str, view: RailView) -> dict[int, Sequence[Run]]:
    """Return the runs of lines by their index, of each side of the change as one text."""
    colours: dict[int, Sequence[Run]] = {}
    for other in "+-":
        places = [index for index, sign in enumerate(signs) if sign != other]
        runs = highlighted([texts[index] for index in places], path.rpartition("/")[2], view)
        if runs is not None:
            colours |= dict(zip(places, runs, strict=True))
    return colours


def _changed(style: str) -> str:
    return joined(style, "changed")
