"""Changed files as elements of a page: their changes with the colours of the code, and a tree that leads to them. Pure.

Bounded for any text: after so many characters of a page, changes have no more colours, and no marks within lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.view.code import code_elements, code_lines
from dragoman.view.diffs import COMPARED_COLUMNS, changed_parts, marked_runs
from dragoman.view.elements import make, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dragoman.view.blocks import DiffHunk, DiffPiece
    from dragoman.view.code import CodeRun
    from dragoman.view.elements import Element, ElementChild

# To colour that many takes about a second and a half.
_COLOURED: Final = 1_500_000
_MARKED: Final = (
    6_000_000  # pairs of characters that are compared to find what differs within lines: at most three seconds
)
_KINDS: Final = {"+": "added", "-": "removed"}
_DEEPEST: Final = 12  # folders inside each other
_MOST_FILES: Final = 500
_MOST_LINKS: Final = 9  # to changes of one file


class LinkedChange(Struct, frozen=True):
    """A row of the tree: a file, and the anchors of its changes."""

    path: str
    added: int
    removed: int
    anchors: tuple[str, ...]
    what: str = ""


class DiffElements:
    """The changes on one page as elements, and how much of them may still get colours."""

    def __init__(self) -> None:
        self._coloured = _COLOURED
        self._marked = _MARKED

    def of(self, piece: DiffPiece, anchor: str, what: str = "") -> Element:
        """Return a change, with its place on the page and what its lines do not say."""
        lines: list[ElementChild] = []
        for number, hunk in enumerate(piece.hunks):
            if number:
                lines.append(make("span", "gap", "⋯\n"))
            lines += self._hunk(hunk, piece.path)
        if piece.left_out:
            lines.append(make("span", "gap", f"… {piece.left_out} more lines\n"))
        words = ", ".join(word for word in ("new file" if piece.is_new else "", what) if word)
        head = make("div", "path", piece.path, " ", figures(piece.added, piece.removed, words))
        return make("div", {"class": "diff", "id": anchor}, head, *([make("pre", "", *lines)] if lines else []))

    def _hunk(self, hunk: DiffHunk, path: str) -> Iterable[Element]:
        texts = [shown(line.text.rstrip("\n")) for line in hunk.lines]
        signs = [line.sign for line in hunk.lines]
        size = sum(map(len, texts))
        colours: dict[int, Sequence[CodeRun]] = {}
        marks: dict[int, list[tuple[int, int]]] = {}
        if size <= self._coloured:
            self._coloured -= size
            colours = _colours(signs, texts, path)
        lengths = [len(text) for sign, text in zip(signs, texts, strict=True) if sign != " "]
        pairs = sum(length**2 for length in lengths if length <= COMPARED_COLUMNS) // 2
        if "+" in signs and "-" in signs and pairs <= self._marked:
            self._marked -= pairs
            marks = changed_parts(signs, texts)
        for index, (sign, text) in enumerate(zip(signs, texts, strict=True)):
            runs: Sequence[CodeRun] = colours.get(index) or [(text, "")]
            if index in marks:
                runs = marked_runs(runs, _whole_words(text, marks[index]), _changed)
            yield make("span", _KINDS.get(sign, "same"), sign, *code_elements(runs), "\n")


def figures(added: int, removed: int, words: str = "") -> Element:
    """Return how many lines a change has, and more words about it."""
    inner: list[ElementChild] = [make("span", "plus", f"+{added}"), " ", make("span", "minus", f"-{removed}")]
    if words:
        inner += [" ", make("span", "aside", words)]
    return make("span", "figures", *inner)


def file_tree(files: Sequence[LinkedChange]) -> Element:
    """Return the files as folders inside each other, each file with a link to its changes."""
    root: _Folder = {}
    for file in files[:_MOST_FILES]:
        folder = root
        *names, last = _segments(file.path)
        for name in names:
            inner = folder.setdefault(f"{name}/", {})
            assert isinstance(inner, dict)  # the name of a file has no slash
            folder = inner
        known = folder.get(last)
        folder[last] = file if not isinstance(known, LinkedChange) else _joined(known, file)
    left = len(files) - _MOST_FILES
    more = [make("p", "aside", f"… {left} more files")] if left > 0 else []
    return make("div", "tree", make("ul", "", *_rows(root)), *more)


# "name/" -> what is in a folder, "name" -> a file
_Folder = dict[str, "_Folder | LinkedChange"]


def _segments(path: str) -> list[str]:
    """Return the names of a path; an absolute one begins with a slash, and what is too deep stays one name."""
    lead = "/" if path.startswith("/") else ""
    names = [name for name in path.split("/") if name] or [path or "(no name)"]
    names[0] = f"{lead}{names[0]}" if names[0] != path else path
    deep = names[_DEEPEST:]
    return [*names[:_DEEPEST], "∕".join(deep)] if deep else names


def _joined(one: LinkedChange, other: LinkedChange) -> LinkedChange:
    anchors = one.anchors + other.anchors
    return LinkedChange(one.path, one.added + other.added, one.removed + other.removed, anchors, one.what or other.what)


def _rows(folder: Mapping[str, _Folder | LinkedChange]) -> Iterable[Element]:
    # Folders first, each in the order of their names.
    for name, inner in sorted(folder.items(), key=lambda item: (isinstance(item[1], LinkedChange), item[0])):
        if isinstance(inner, LinkedChange):
            yield _file(name, inner)
            continue
        label = name
        while len(inner) == 1 and isinstance(only := next(iter(inner.values())), dict):
            label, inner = label + next(iter(inner)), only
        yield make("li", "", make("details", {"open": ""}, make("summary", "", label), make("ul", "", *_rows(inner))))


def _file(name: str, file: LinkedChange) -> Element:
    first, *others = file.anchors[:_MOST_LINKS]
    inner: list[ElementChild] = [make("a", {"class": "file", "href": f"#{first}"}, name)]
    inner.append(figures(file.added, file.removed, file.what))
    inner += [make("a", {"class": "again", "href": f"#{anchor}"}, str(n)) for n, anchor in enumerate(others, 2)]
    return make("li", "", *inner)


def _colours(signs: Sequence[str], texts: Sequence[str], path: str) -> dict[int, Sequence[CodeRun]]:
    """Return the runs of lines by their index, of each side of the change as one text."""
    colours: dict[int, Sequence[CodeRun]] = {}
    for other in "+-":
        places = [index for index, sign in enumerate(signs) if sign != other]
        runs = code_lines(path, [texts[index] for index in places])
        if runs is not None and len(runs) == len(places):
            colours |= dict(zip(places, runs, strict=True))
    return colours


def _whole_words(text: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the places widened to the words that they touch: letters marked here and there are hard to read."""
    words: list[tuple[int, int]] = []
    for first, last in places:
        while first and _is_in_word(text, first):
            first -= 1
        while last < len(text) and _is_in_word(text, last):
            last += 1
        if words and first <= words[-1][1]:
            first, last = words[-1][0], max(last, words.pop()[1])
        words.append((first, last))
    return words


def _is_in_word(text: str, at: int) -> bool:
    return all(letter.isalnum() or letter == "_" for letter in text[at - 1 : at + 1])


def _changed(style: str) -> str:
    return f"{style} changed".strip()
