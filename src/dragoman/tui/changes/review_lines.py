"""The review of a turn as lines: the files on the left, the hunks of the chosen one on the right.

Every name and line of a file is spelled out before it becomes a cell. Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from dragoman.snapshots.session_turns import BY
from dragoman.text.terminal import cells, fit
from dragoman.text.visible import label, spelled
from dragoman.tui.changes.review_model import MOST_LINES, unified
from dragoman.view.rails import by_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.tui.changes.review_model import DiffRow, ReviewModel, ReviewRow
    from dragoman.view.rails import Glyphs, RailLine, Run, Style

SIDES_FROM: Final = 120
"""Columns from which on both sides are shown next to each other by default."""
_NARROW: Final = 60
_STATES: Final[dict[str, Style]] = {"kept": "good", "reverted": "warn", "open": "bold", "decided": "good"}


def summary_of(model: ReviewModel) -> str:
    """Return the turn and how far its review is, in one line."""
    counts = model.counts
    files = f"{len(model.files)} file{'s' if len(model.files) != 1 else ''}"
    states = " ".join(f"{counts[word]} {word}" for word in ("kept", "reverted", "open") if counts[word])
    hunks = f"{counts['hunks']} hunk{'s' if counts['hunks'] != 1 else ''}"
    return f"turn {model.turn} of {len(model.session_turns.turns)} · {files}, {hunks}{f' · {states}' if states else ''}"


def review_body(
    model: ReviewModel, width: int, height: int, glyphs: Glyphs, *, has_sides: bool, shift: int = 0, scroll: int = 0
) -> list[RailLine]:
    """Return exactly `height` lines: the list and the hunks, next to each other if there is room."""
    if not model.files:
        text = "nothing changed in this turn"
        return _filled([((f"  {text}", "dim"),), *_notes(model, width)], width, height)
    has_list = width >= _NARROW and not (has_sides and width < SIDES_FROM)
    left = min(60, width // 2) if has_list else 0
    right = width - left - (2 if has_list else 0)
    hunks = _hunks(model, right, height, glyphs, has_sides=has_sides, shift=shift, scroll=scroll)
    if not has_list:
        return hunks
    names = _files(model, left, height, glyphs)
    return [(*name, (f"{glyphs.agent} ", "dim"), *hunk) for name, hunk in zip(names, hunks, strict=True)]


def _files(model: ReviewModel, width: int, height: int, glyphs: Glyphs) -> list[RailLine]:
    notes = [*_attribution(model, width), *_notes(model, width)]
    room = max(3, height - 1 - min(len(notes), height // 2))
    start = min(max(0, model.at - room // 2), max(0, len(model.files) - room))
    lines: list[RailLine] = []
    for at, row in enumerate(model.files[start : start + room], start):
        lines.append(_file(row, width, glyphs, is_chosen=at == model.at))
    if model.left_out:
        lines[-1] = ((fit(f" … {model.left_out} more files", width), "dim"),)
    lines.append(((" " * width, ""),))
    return _filled([*lines, *notes[: height - len(lines)]], width, height)


def _file(row: ReviewRow, width: int, glyphs: Glyphs, *, is_chosen: bool) -> RailLine:
    state = row.state
    end = f" {fit(row.counts, 9)} {fit(state, 8)} "
    name = label(row.name, 500)
    room = max(4, width - 1 - cells(end))
    if cells(name) > room:
        name = "…" + _tail(name, room - 1)  # the end of a path says more than its beginning
    style: Style = "bold" if is_chosen else ""
    word = state.rpartition(" ")[2]
    return (
        (glyphs.you if is_chosen else " ", "user"),
        (fit(name, room), style),
        (f" {fit(row.counts, 9)} ", "dim"),
        (f"{fit(state, 8)} ", _STATES.get(word, "")),
    )


def _tail(text: str, width: int) -> str:
    tail, used = "", 0
    for letter in reversed(text):
        used += cells(letter)
        if used > width:
            break
        tail = letter + tail
    return tail


def _attribution(model: ReviewModel, width: int) -> list[RailLine]:
    by = Counter(row.file.change.by for row in model.files)
    lines: list[RailLine] = [((fit(f" by the agent: {by['agent']}   during the turn: {by['turn']}", width), "dim"),)]
    row = model.row
    if row is not None:
        who = BY[row.file.change.by]
        words = f"({label(row.name, 200)}: {who if who != 'during the turn' else 'by a command, the agent or you'})"
        lines += [((fit(f" {line}", width), "dim"),) for line in by_words(words, width - 2)]
    return lines


def _notes(model: ReviewModel, width: int) -> list[RailLine]:
    notes = [line for note in model.notes[:20] for line in by_words(f"! {label(note, 500)}", max(10, width - 2))]
    return [((fit(f" {line}", width), "warn"),) for line in notes]


def _hunks(
    model: ReviewModel, width: int, height: int, glyphs: Glyphs, *, has_sides: bool, shift: int, scroll: int
) -> list[RailLine]:
    row = model.row
    if row is None or row.rows is None:
        return _filled([((fit(" reading...", width), "dim"),)], width, height)
    rows: Sequence[DiffRow] = row.rows if has_sides else unified(row.rows)
    is_cut = len(row.rows) > MOST_LINES
    heads = [at for at, line in enumerate(rows) if line.head]
    top = heads[model.hunk] if model.hunk < len(heads) else 0
    # The chosen hunk begins at the top, but nothing is scrolled for less than a page.
    start = max(0, min(top + scroll, len(rows) - height))
    lines = []
    for line in rows[start : start + height]:
        if line.head:
            lines.append(_head(row, line, width, glyphs, is_chosen=line.hunk == model.hunk))
        elif has_sides:
            lines.append(_pair(line, width, shift, glyphs))
        else:
            lines.append(_line(line, width, shift))
    if is_cut and start + height >= len(rows) and lines:
        lines[-1] = ((fit(" … more lines: e opens the file", width), "warn"),)
    return _filled(lines, width, height)


def _head(row: ReviewRow, line: DiffRow, width: int, glyphs: Glyphs, *, is_chosen: bool) -> RailLine:
    mark = glyphs.you if is_chosen else " "
    if not row.file.hunks:
        text = f"{label(line.head, width)} · {row.state}"
        return ((mark, "user"), (fit(text, width - 1), "bold" if is_chosen else "code"))
    state = row.hunk_state(line.hunk)
    text = f"@@ {line.head} @@ hunk {line.hunk + 1} of {len(row.file.hunks)} · {state}"
    return ((mark, "user"), (fit(text, width - 1), "bold" if is_chosen else "code"))


def _line(line: DiffRow, width: int, shift: int) -> RailLine:
    if line.is_same and line.new is not None:
        return ((_numbered(" ", line.new, width, shift), ""),)
    if line.new is not None:
        return ((_numbered("+", line.new, width, shift), "added"),)
    assert line.old is not None
    return ((_numbered("-", line.old, width, shift), "removed"),)


def _pair(line: DiffRow, width: int, shift: int, glyphs: Glyphs) -> RailLine:
    half = (width - 2) // 2
    sides: list[Run] = []
    for side, sign, style in ((line.old, "-", "removed"), (line.new, "+", "added")):
        if side is None:
            sides.append((" " * half, ""))
        else:
            shown: Style = "" if line.is_same else style
            sides.append((_numbered(" " if line.is_same else sign, side, half, shift), shown))
    return (sides[0], (f"{glyphs.agent} ", "dim"), sides[1], (" " * (width - 2 * half - 2), ""))


def _numbered(sign: str, line: tuple[int, str], width: int, shift: int) -> str:
    number, text = line
    return fit(f" {sign} {number:>4}  {spelled(text[: shift + 2_000])[shift:]}", width)


def _filled(lines: Sequence[RailLine], width: int, height: int) -> list[RailLine]:
    blank: RailLine = ((" " * width, ""),)
    return [*lines[:height], *[blank] * (height - len(lines))]
