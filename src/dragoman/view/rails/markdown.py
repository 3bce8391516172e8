"""Markdown of a message as lines with a rail, written again only where it still grows.

The text is cut into parts at blank lines, headings and code fences. A part that is closed is final: its lines are kept.
Where a part ends is decided by whole lines only, so that the lines of a text do not depend on the pieces in which it
came. What a part means is up to `prose`, which every writer of Markdown shares.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import cells, plain
from dragoman.view.prose import prose
from dragoman.view.rails.wrapping import broken_runs, fitted, wrapped_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dragoman.view.elements import Element, ElementChild
    from dragoman.view.rails.values import RailLine, RailView, Run

_FENCE: Final = re.compile(r"( {0,3})(`{3,}|~{3,})\s{0,40}([^\s`]{0,40})[^`]*")
_INNER_FENCE: Final = re.compile(r"\s+(`{3,}|~{3,})")
_HEADING: Final = re.compile(r" {0,3}#{1,6}\s")
_ITEM: Final = re.compile(r" {0,8}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_BLANK_LINES: Final = re.compile(r"(?:[^\S\n]*\n)+")
_HIGHLIGHTED_LINES: Final = 5_000
_HIGHLIGHTED_COLUMNS: Final = 2_000
_STYLES: Final = {"strong": "bold", "em": "italic", "del": "strike"}


class MarkdownLines:
    """The lines of one text that grows at its end."""

    def __init__(self, rail: str, view: RailView) -> None:
        self._lead: Run = (f"{rail} ", "")
        self._view = view
        self._width = view.width - 2
        self._seen = ""  # the closed part of the text
        self._done: list[RailLine] = []
        self._code: list[RailLine] = []  # of the open fence: its whole lines
        self._code_at = 0

    def feed(self, text: str) -> list[RailLine]:
        """Return the lines of the whole text so far."""
        if not text.startswith(self._seen):
            self._seen, self._done = "", []
            self._code, self._code_at = [], 0
        rest = text[len(self._seen) :]
        if blank := _BLANK_LINES.match(rest):
            self._seen, rest = self._seen + blank[0], rest[blank.end() :]
        still_open: list[RailLine] = []
        for part, is_closed, size in parts_of(rest):
            is_fence = not still_open and _FENCE.fullmatch(part[0]) is not None
            lines = self._fenced(part, is_closed=is_closed) if is_fence else self._part(part)
            if not is_closed:
                still_open += lines
                continue
            self._done += lines
            self._seen += rest[:size]
            rest = rest[size:]
            self._code, self._code_at = [], 0
        return self._trimmed([*self._done, *still_open])

    def _trimmed(self, lines: list[RailLine]) -> list[RailLine]:
        end = len(lines)
        while end and lines[end - 1] == (self._lead,):
            end -= 1
        return lines[:end]

    def _part(self, part: Sequence[str]) -> list[RailLine]:
        blanks = len(part) - len("\n".join(part).rstrip().split("\n"))
        rows = rows_of(prose("\n".join(map(plain, part))), self._width, self._view)
        return [self._line(row) for row in rows] + [(self._lead,)] * (blanks > 0)

    def _line(self, row: Sequence[Run]) -> RailLine:
        return fitted((self._lead, *row), self._view.width, self._view.glyphs)

    def _fenced(self, part: Sequence[str], *, is_closed: bool) -> list[RailLine]:
        """Write a code block. While it is open, each of its lines is written once."""
        opening = _FENCE.fullmatch(part[0])
        assert opening is not None
        body = list(part[1:])
        end = next((index for index, line in enumerate(body) if _closes(line, opening[2])), None)
        has_blank = end is not None and len(body) > end + 1
        is_shut = is_closed or end is not None
        body = body[:end]
        language = plain(opening[3])
        head: list[RailLine] = [self._line([(f"  {language}", "dim")])] if language else []
        runs = highlighted(body, language, self._view) if is_shut else None
        if runs is None:
            whole = len(body) if is_shut else max(0, len(body) - 1)  # the last line may still grow
            for line in body[self._code_at : whole]:
                self._code += self._code_lines([(plain(line), "code")])
            self._code_at = whole
            lines = [*self._code]
            for line in body[whole:]:
                lines += self._code_lines([(plain(line), "code")])
        else:
            lines = [wrapped for line in runs for wrapped in self._code_lines(line)]
        return [*head, *lines, *([(self._lead,)] if has_blank else [])]

    def _code_lines(self, runs: Sequence[Run]) -> list[RailLine]:
        spread = [(text.expandtabs(4), style) for text, style in runs]
        return [self._line([("  ", ""), *row]) for row in broken_runs(spread, self._width - 2)]


def parts_of(text: str) -> Iterator[tuple[list[str], bool, int]]:
    """Yield the parts of a text: their lines, whether they are closed, and how many characters they take."""
    lines = text.split("\n")
    splitter = _Splitter()
    for line in lines[:-1]:
        yield from splitter.take(line)
    for part in splitter.rest(lines[-1]):
        yield part, False, 0


class _Splitter:
    """The search for the ends of parts in whole lines."""

    def __init__(self) -> None:
        self._part: list[str] = []
        self._fence = ""  # that ends the code block which the part is
        self._inner = ""  # the same, of a code block in a list
        self._is_list = False

    def take(self, line: str) -> Iterator[tuple[list[str], bool, int]]:
        """Yield the parts that this line closes."""
        if self._fence:
            self._part.append(line)
            if _closes(line, self._fence):
                self._fence = ""
                self._is_list = False
                self._is_closed = True
            return
        if self._inner:
            self._part.append(line)
            if _closes(line, self._inner):
                self._inner = ""
            return
        if not line.strip():
            if self._part:
                self._part.append(line)
            return
        if self._part and self._ends_before(line):
            yield self._close()
        if not self._part:
            self._begin(line)
        elif self._is_list and (inner := _INNER_FENCE.match(line)):
            self._inner = inner[1]
        self._part.append(line)

    def rest(self, last: str) -> Iterator[list[str]]:
        """Yield the open part, with a last line that may still grow: as it is now, it may be a part of its own."""
        is_inside = bool(self._fence or self._inner)
        if self._part and not is_inside and last.strip() and self._ends_before(last):
            yield self._part
            yield [last]
        elif last or self._part:
            yield [*self._part, last]

    def _begin(self, line: str) -> None:
        fence = _FENCE.fullmatch(line)
        self._fence = fence[2] if fence else ""
        self._is_list = _ITEM.match(line) is not None
        self._is_closed = _HEADING.match(line) is not None

    def _ends_before(self, line: str) -> bool:
        if self._is_closed or (_FENCE.fullmatch(line) and not (self._is_list and line.startswith(" "))):
            return True
        if _HEADING.match(line):
            return True
        if self._part[-1].strip():
            return False
        return not (self._is_list and (line.startswith("  ") or _ITEM.match(line)))

    def _close(self) -> tuple[list[str], bool, int]:
        part, self._part = self._part, []
        return part, True, sum(len(line) + 1 for line in part)

    _is_closed = False


def _closes(line: str, fence: str) -> bool:
    end = line.strip()
    return end.startswith(fence) and not end.strip(fence[0])


def highlighted(lines: Sequence[str], name: str, view: RailView) -> Sequence[Sequence[Run]] | None:
    """Return the runs of code, if it is short enough and its language is known; one list for each line."""
    if not name or not lines or len(lines) > _HIGHLIGHTED_LINES:
        return None
    if any(len(line) > _HIGHLIGHTED_COLUMNS for line in lines):
        return None
    found = view.highlight(name, "\n".join(map(plain, lines)))
    return found if found is not None and len(found) == len(lines) else None


# Elements


def rows_of(elements: Iterable[ElementChild], width: int, view: RailView) -> list[list[Run]]:
    """Return elements as lines without a rail."""
    rows: list[list[Run]] = []
    for element in elements:
        if isinstance(element, str):
            rows += wrapped_runs([(element, "")], width)
            continue
        rows += _rows(element, max(8, width), view)
    return rows


def _rows(element: Element, width: int, view: RailView) -> list[list[Run]]:
    match element.tag:
        case "p":
            return wrapped_runs(runs_of(element.children), width)
        case "h3" | "h4" | "h5" | "h6":
            style = "heading" if element.tag in ("h3", "h4") else "bold"
            return wrapped_runs(runs_of(element.children, style), width)
        case "hr":
            return [[(view.glyphs.rule * min(width, 40), "dim")]]
        case "pre":
            text = "".join(_texts(element.children))
            return [
                [("  ", ""), *row]
                for line in text.split("\n")
                for row in broken_runs([(line.expandtabs(4), "code")], width - 2)
            ]
        case "blockquote":
            inner = rows_of(element.children, width - 2, view)
            return [[(f"{view.glyphs.quote} ", "dim"), *row] for row in inner]
        case "ul" | "ol":
            return _list(element, width, view)
        case "table":
            return _table(element, width, view)
    return wrapped_runs(runs_of((element,)), width)


def _list(element: Element, width: int, view: RailView) -> list[list[Run]]:
    rows: list[list[Run]] = []
    number = int(element.attributes.get("start", "1")) if element.tag == "ol" else None
    for item in element.children:
        if isinstance(item, str):
            continue
        mark = f"{view.glyphs.bullet} " if number is None else f"{number}. "
        number = None if number is None else number + 1
        inline = [child for child in item.children if isinstance(child, str) or child.tag in _INLINE]
        blocks = [child for child in item.children if not isinstance(child, str) and child.tag not in _INLINE]
        inner = wrapped_runs(runs_of(inline), width - len(mark)) if inline else []
        inner += rows_of(blocks, width - len(mark), view)
        for index, row in enumerate(inner or [[]]):
            rows.append([(mark if index == 0 else " " * len(mark), ""), *row])
    return rows


_INLINE: Final = frozenset({"a", "code", "del", "em", "span", "strong", "br"})


def _table(element: Element, width: int, view: RailView) -> list[list[Run]]:
    """Write a table in columns if it fits, otherwise each cell on a line of its own, behind its column's name."""
    lines = [row for part in element.children if not isinstance(part, str) for row in part.children]
    grid = [
        [runs_of(cell.children, "bold" if number == 0 else "") for cell in row.children if not isinstance(cell, str)]
        for number, row in enumerate(lines)
        if not isinstance(row, str)
    ]
    if not grid or not grid[0]:
        return []
    columns = len(grid[0])
    widths = [max((_width(row[index]) for row in grid if index < len(row)), default=0) for index in range(columns)]
    if sum(widths) + 3 * (columns - 1) > width:
        return _records(grid, width)
    pipe, cross, rule = view.glyphs.pipe, view.glyphs.cross, view.glyphs.rule
    rows: list[list[Run]] = []
    for number, row in enumerate(grid):
        line: list[Run] = []
        for index in range(columns):
            cell = row[index] if index < len(row) else []
            line += [(f" {pipe} ", "dim")] if index else []
            line += [*cell, (" " * (widths[index] - _width(cell)), "")]
        rows.append(line)
        if number == 0:
            rows.append([(f"{rule}{cross}{rule}".join(rule * count for count in widths), "dim")])
    return rows


def _records(grid: list[list[list[Run]]], width: int) -> list[list[Run]]:
    rows: list[list[Run]] = []
    for number, row in enumerate(grid[1:]):
        if number:
            rows.append([])
        for name, cell in zip(grid[0], row, strict=False):
            first, *others = wrapped_runs([*name, (": ", "bold"), *cell], width)
            rows += [first, *([("  ", ""), *line] for line in others)]
    return rows


def _width(runs: Iterable[Run]) -> int:
    return sum(cells(text) for text, _ in runs)


def runs_of(children: Iterable[ElementChild], style: str = "") -> list[Run]:
    """Return inline elements as runs. The ticks of code stay, and a link shows where it leads."""
    runs: list[Run] = []
    for child in children:
        if isinstance(child, str):
            runs.append((child.replace("\t", " "), style))
        elif child.tag == "code":
            runs.append((f"`{''.join(_texts(child.children))}`".replace("\t", " "), joined(style, "code")))
        elif child.tag == "a":
            text, target = "".join(_texts(child.children)), child.attributes.get("href", "")
            runs += runs_of(child.children, joined(style, "link"))
            if text != target:
                runs.append((f" ({target})", joined(style, "dim")))
        elif child.tag == "br":
            runs.append(("\n", style))
        else:
            runs += runs_of(child.children, joined(style, _STYLES.get(child.tag, "")))
    return runs


def joined(first: str, second: str) -> str:
    """Join two styles."""
    return f"{first}+{second}" if first and second else first or second


def _texts(children: Iterable[ElementChild]) -> Iterator[str]:
    for child in children:
        if isinstance(child, str):
            yield child
        else:
            yield from _texts(child.children)
