"""Breaking text and styled runs into lines of a known width. Counts columns of a terminal, not characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.text.terminal import cells, clip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dragoman.view.rails.values import Glyphs, RailLine, Run


def by_words(text: str, width: int) -> Iterator[str]:
    """Break a line between words; a word that is too long is broken where it has to be."""
    width = max(4, width)
    if cells(text) <= width:
        yield text
        return
    line = text[: len(text) - len(text.lstrip(" "))][: width // 2]
    for word in text.split():
        if line.strip() and cells(line) + cells(word) + 1 > width:
            yield line
            line = ""
        line = f"{line} {word}" if line.strip() else line + word
        while cells(line) > width:
            *full, line = broken(line, width)
            yield from full
    yield line


def broken(text: str, width: int) -> Sequence[str]:
    """Break a line at a width, whatever is there; a tab reaches to the next column that is a multiple of four."""
    text = text.expandtabs(4)
    width = max(4, width)
    if cells(text) <= width:
        return [text]
    if text.isascii():
        return [text[at : at + width] for at in range(0, len(text), width)]
    lines, line, used = [], "", 0
    for letter in text:
        wide = cells(letter)
        if used + wide > width:
            lines.append(line)
            line, used = "", 0
        line += letter
        used += wide
    return [*lines, line]


def wrapped_runs(runs: Iterable[Run], width: int) -> list[list[Run]]:
    """Break runs between words into lines; one line break in a text is a line break."""
    width = max(4, width)
    lines: list[list[Run]] = [[]]
    used = 0
    space = False  # one that stands before the next word, if that is on the same line
    for text, style in runs:
        for number, piece in enumerate(text.split("\n")):
            if number:
                lines.append([])
                used, space = 0, False
            words = piece.split(" ")
            for index, word in enumerate(words):
                if index:
                    space = space or used > 0
                if not word:
                    continue
                wide = cells(word)
                # A run may begin within a word: then there is no space, and the word stays whole if it can.
                if used and used + space + wide > width:
                    lines.append([])
                    used, space = 0, False
                if wide > width:
                    *full, word = broken(word, width)
                    for head in full:
                        lines[-1].append((head, style))
                        lines.append([])
                    wide = cells(word)
                _add(lines[-1], f" {word}" if space else word, style)
                used += space + wide
                space = False
    return lines


def _add(line: list[Run], text: str, style: str) -> None:
    if line and line[-1][1] == style:
        line[-1] = (line[-1][0] + text, style)
    else:
        line.append((text, style))


def broken_runs(runs: Sequence[Run], width: int) -> list[list[Run]]:
    """Break runs at a width, whatever is there: for code and output, whose spaces count."""
    if sum(cells(text) for text, _ in runs) <= max(4, width):
        return [list(runs)]
    lines: list[list[Run]] = [[]]
    room = width = max(4, width)
    for text, style in runs:
        start = 0
        for end in _breaks(text, room, width):
            if end > start:
                lines[-1].append((text[start:end], style))
            lines.append([])
            start, room = end, width
        if start < len(text):
            lines[-1].append((text[start:], style))
            room -= cells(text[start:])
    return lines


def _breaks(text: str, room: int, width: int) -> Iterator[int]:
    """Yield where a text is broken whose first line has so much room: in one pass, since a line may have a megabyte."""
    if text.isascii():
        yield from range(room, len(text), width)
        return
    for index, letter in enumerate(text):
        wide = cells(letter)
        if wide > room:
            yield index
            room = width
        room -= wide


def fitted(line: RailLine, width: int, glyphs: Glyphs) -> RailLine:
    """Cut a line that is too wide after all; where there are only ASCII glyphs, the mark of a cut is one, too."""
    if sum(cells(text) for text, _ in line) > width:
        left, kept = width, []
        for text, style in line:
            shown = clip(text, left) if cells(text) > left else text
            left -= cells(shown)
            kept.append((shown, style))
            if left <= 0:
                break
        line = tuple(kept)
    if glyphs.cut != "…" and any("…" in text for text, _ in line):
        line = tuple((text.replace("…", glyphs.cut), style) for text, style in line)
    return line
