"""The text that an edit replaces, found exactly, or up to a few harmless differences. Pure.

Owns the order of the attempts and how the new text is fitted to the file: line ends, pasted line numbers, indentation,
escapes, punctuation, white space at both ends of lines. Each attempt accepts a text only if it is found; the first that
finds a place decides, so that a text found twice stays ambiguous. None accepts text that is only similar: out of date
texts are similar too, and such an edit would be wrong without a sign of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# The number and separator that `read` and other agents' tools put before each line.
_NUMBER: Final = re.compile(r"[ ]*(\d+)(?:\t|→|: |\| )")
_NUMBERED_BLANK: Final = re.compile(r"[ ]*(\d+)(?:\t|→|:|\|)?[ ]*")
_ESCAPE: Final = re.compile(r"""\\([ntr"'`\\$])""")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r"}
# One character each, so that places in the translated text are places in the file.
_PUNCTUATION: Final = str.maketrans(
    {**dict.fromkeys("‘’‚‛′", "'"), **dict.fromkeys("“”„‟″«»", '"'), **dict.fromkeys("‐‑‒–—―−", "-")}
    | dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " ")
)


class Replacement(Struct, frozen=True):
    """One place of the file, from `start` to `stop`, and the text that it gets."""

    start: int
    stop: int
    new: str


class EditMatch(Struct, frozen=True):
    """Where `old` was found. `ignored` names what differed, and is empty for an exact match."""

    places: tuple[Replacement, ...]
    ignored: str = ""
    is_repeatable: bool = True
    """Whether replacing every place is safe."""


def match_edit(text: str, old: str, new: str) -> EditMatch | None:
    """Return where `old` is and what replaces it there, None if it is nowhere.

    Overlapping places are all returned: they are ambiguous too. Line ends of `new` are not yet those of the file.
    """
    attempts: tuple[Callable[[str, str, str], EditMatch | None], ...] = (
        *(_exactly, _by_lines, _without_numbers, _by_indentation, _unescaped, _by_punctuation, _by_stripped_lines),
    )
    for attempt in attempts:
        match = attempt(text, old, new)
        if match is not None:
            return match
    return None


def plain_punctuation(text: str) -> str:
    """Return the text with typographic quotes, dashes and spaces as plain ones, character by character."""
    return text.translate(_PUNCTUATION)


def find(text: str, old: str) -> list[tuple[int, int]]:
    """Return the places of `old`, with any line ends. Overlapping places are included."""
    spots: list[tuple[int, int]] = []
    if "\n" not in old or "\r" not in text + old:
        start = text.find(old)
        while start >= 0:
            spots.append((start, start + len(old)))
            start = text.find(old, start + 1)
        return spots
    # A line end is never the second half of a CRLF: that would leave its first half behind.
    pattern = re.compile(r"(?:\r\n|(?<!\r)\n)".join(re.escape(line) for line in old.replace("\r\n", "\n").split("\n")))
    start = 0
    while found := pattern.search(text, start):
        spots.append(found.span())
        start = found.start() + 1
    return spots


def _exactly(text: str, old: str, new: str) -> EditMatch | None:
    spots = find(text, old)
    return EditMatch(tuple(Replacement(*spot, new) for spot in spots)) if spots else None


# Attempts that compare whole lines


class _Lines:
    """The lines of a file without their ends, and where each begins."""

    def __init__(self, text: str) -> None:
        self.lines: list[str] = []
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._text = text
        at = 0
        for raw in text.split("\n"):
            line = raw.removesuffix("\r")
            self.lines.append(line)
            self._starts.append(at)
            self._stops.append(at + len(line))
            at += len(raw) + 1

    def place(self, first: int, count: int, *, with_end: bool) -> tuple[int, int]:
        """Return the span of `count` lines, with the end of the last one if there is one and it is wanted."""
        last = first + count - 1
        stop = self._stops[last]
        if with_end and last + 1 < len(self._starts):
            stop = self._starts[last + 1]
        return self._starts[first], stop

    def windows(self, wanted: list[str], plain: Callable[[str], str]) -> Iterator[int]:
        """Yield where lines begin that equal `wanted` after `plain` was applied to both."""
        asked = [plain(line) for line in wanted]
        if not any(asked):
            return
        have = [plain(line) for line in self.lines]
        for first in range(len(have) - len(asked) + 1):
            if have[first] == asked[0] and have[first : first + len(asked)] == asked:
                yield first


def _wanted(old: str) -> tuple[list[str], bool]:
    """Return the lines of `old`, and whether the end of the last one belongs to it."""
    lines = [line.removesuffix("\r") for line in old.split("\n")]
    if len(lines) > 1 and not lines[-1]:
        return lines[:-1], True
    return lines, False


def _in_lines(
    text: str,
    old: str,
    plain: Callable[[str], str],
    fitted: Callable[[list[str], list[str]], str | None],
    ignored: str,
    *,
    is_repeatable: bool,
) -> EditMatch | None:
    """Match whole lines. `fitted` gets the lines of the file and of `old`; None refuses the place."""
    file = _Lines(text)
    wanted, with_end = _wanted(old)
    places = []
    for first in file.windows(wanted, plain):
        new = fitted(file.lines[first : first + len(wanted)], wanted)
        if new is not None:
            places.append(Replacement(*file.place(first, len(wanted), with_end=with_end), new))
    return EditMatch(tuple(places), ignored, is_repeatable) if places else None


def _by_lines(text: str, old: str, new: str) -> EditMatch | None:
    return _in_lines(text, old, str.rstrip, lambda *_: new, "white space at line ends", is_repeatable=True)


def _without_numbers(text: str, old: str, new: str) -> EditMatch | None:
    plain_old = _unnumbered(old)
    if plain_old is None:
        return None
    plain_new = _unnumbered(new)
    if plain_new is None:
        plain_new = new
        if any(_NUMBER.match(line) for line in new.split("\n")):
            return None  # some lines with a number and some without: which are meant cannot be known
    match = _exactly(text, plain_old, plain_new) or _by_lines(text, plain_old, plain_new)
    return None if match is None else EditMatch(match.places, "pasted line numbers", is_repeatable=False)


def _unnumbered(pasted: str) -> str | None:
    """Return the text without the number at the beginning of each line; None unless each has one and they count up."""
    lines, with_end = _wanted(pasted)
    plain: list[str] = []
    before: int | None = None
    for line in lines:
        found = _NUMBER.match(line)
        number = found or _NUMBERED_BLANK.fullmatch(line)
        if number is None or (before is not None and int(number[1]) != before + 1):
            return None
        before = int(number[1])
        plain.append(line[found.end() :] if found else "")
    return "\n".join(plain) + ("\n" if with_end else "")


def _by_indentation(text: str, old: str, new: str) -> EditMatch | None:
    def fitted(have: list[str], wanted: list[str]) -> str | None:
        shift = common_shift(wanted, have)
        return None if shift is None else shifted(new, shift)

    return _in_lines(text, old, str.strip, fitted, "indentation", is_repeatable=True)


def _by_stripped_lines(text: str, old: str, new: str) -> EditMatch | None:
    def fitted(have: list[str], wanted: list[str]) -> str:
        return Reindenter(wanted, have).apply(new)

    return _in_lines(text, old, str.strip, fitted, "white space at both ends of lines", is_repeatable=False)


# Attempts that compare other characters


def _unescaped(text: str, old: str, new: str) -> EditMatch | None:
    plain_old = _ESCAPE.sub(_character, old)
    if plain_old == old:
        return None
    plain_new = _ESCAPE.sub(_character, new)
    match = _exactly(text, plain_old, plain_new) or _by_lines(text, plain_old, plain_new)
    return None if match is None else EditMatch(match.places, "escapes", is_repeatable=False)


def _character(escape: re.Match[str]) -> str:
    return _ESCAPED.get(escape[1], escape[1])


def _by_punctuation(text: str, old: str, new: str) -> EditMatch | None:
    plain_text, plain_old = plain_punctuation(text), plain_punctuation(old)
    if plain_text == text and plain_old == old:
        return None
    match = _exactly(plain_text, plain_old, "") or _by_lines(plain_text, plain_old, "")
    if match is None:
        return None
    places = tuple(
        Replacement(place.start, place.stop, _in_style_of(text[place.start : place.stop], old, new))
        for place in match.places
    )
    return EditMatch(places, "typographic punctuation", is_repeatable=False)


def _in_style_of(have: str, old: str, new: str) -> str:
    """Return `new` with the characters of the file wherever `old` has one other character for each of them."""
    style: dict[str, set[str]] = {}
    for wanted, there in zip(_wanted(old)[0], _wanted(have)[0], strict=False):
        for one, other in zip(wanted, there, strict=False):
            style.setdefault(one, set()).add(other)
    return new.translate({ord(one): other.pop() for one, other in style.items() if len(other) == 1})


class Shift(Struct, frozen=True):
    """White space to remove from, or to add to, the beginning of each line."""

    remove: str = ""
    add: str = ""


def indentation_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def common_shift(from_lines: Sequence[str], to_lines: Sequence[str]) -> Shift | None:
    """Return the one shift that makes each line of the first the line of the second, None if there is none.

    Blank lines and white space at the end do not count.
    """
    shift: Shift | None = None
    for one, other in zip(from_lines, to_lines, strict=True):
        if not one.strip():
            continue
        here, there = indentation_of(one), indentation_of(other)
        if there.endswith(here):
            found = Shift(add=there[: len(there) - len(here)])
        elif here.endswith(there):
            found = Shift(remove=here[: len(here) - len(there)])
        else:
            return None
        if shift is not None and found != shift:
            return None
        shift = found
    return shift


def shifted(text: str, shift: Shift) -> str | None:
    """Return the text with each line shifted; None if a line has less white space than would be removed."""
    lines = []
    for line in text.split("\n"):
        if not line.strip():
            lines.append(line)
        elif line.startswith(shift.remove):
            lines.append(shift.add + line[len(shift.remove) :])
        else:
            return None
    return "\n".join(lines)


class Reindenter:
    """The indentation of a file for new lines, learned from lines that occur in both.

    Args:
        wanted: lines as the author of the new text believes them to be.
        have: the same lines as they are in the file.
    """

    def __init__(self, wanted: Sequence[str], have: Sequence[str]) -> None:
        self._exact: dict[str, str] = {}
        self._stripped: dict[str, str | None] = {}
        """None for lines that the file has with several indentations."""
        self._indents: dict[str, str] = {}
        for one, other in zip(wanted, have, strict=True):
            if one.strip():
                self._exact.setdefault(one.rstrip(), other)
                if self._stripped.setdefault(one.strip(), other) != other:
                    self._stripped[one.strip()] = None
                self._indents.setdefault(indentation_of(one), indentation_of(other))
        self._unit = self._blanks_per_tab()

    def apply(self, text: str) -> str:
        """Return the text with each line indented as the file does."""
        lines = []
        indents = dict(self._indents)
        for line in text.split("\n"):
            if not line.strip():
                lines.append(line)
                continue
            same = self._exact.get(line.rstrip()) or self._stripped.get(line.strip())
            if same is not None:
                # Lines that follow have the indentation that is used here.
                indents[indentation_of(line)] = indentation_of(same)
                lines.append(same)
            else:
                lines.append(self._indent(indentation_of(line), indents) + line.lstrip())
        return "\n".join(lines)

    def _indent(self, indent: str, indents: dict[str, str]) -> str:
        if indent in indents:
            return indents[indent]
        # The deepest known indentation that this one goes on from, and the rest in the file's own characters.
        known = max((other for other in indents if indent.startswith(other)), key=len, default=None)
        if known is not None:
            return indents[known] + self._in_units(indent[len(known) :])
        return self._in_units(indent)

    def _in_units(self, rest: str) -> str:
        if self._unit and not rest.strip(" "):
            return "\t" * (len(rest) // self._unit) + " " * (len(rest) % self._unit)
        return rest

    def _blanks_per_tab(self) -> int:
        """Return how many blanks stand for one tab of the file; 0 if it has no tabs where the text has blanks."""
        for here, there in self._indents.items():
            if here and there and not here.strip(" ") and not there.strip("\t") and len(here) % len(there) == 0:
                return len(here) // len(there)
        return 0
