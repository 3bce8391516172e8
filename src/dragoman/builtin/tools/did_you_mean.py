"""Hints for an edit whose `old` text is not in the file: the most similar lines, and how they differ.

Pure. Owns the hint, which should be short and correct rather than clever.
"""

from __future__ import annotations

import re
from typing import Final

_READ_AGAIN: Final = "Read the file again and copy the text exactly."
_NUMBERED: Final = re.compile(r"\s*\d+\t")
_LINES_SHOWN: Final = 12
_LINES_COMPARED: Final = 5000
_LETTERS_COMPARED: Final = 300
_LIKENESS: Final = 0.6


def hint_for(text: str, old: str, new: str) -> str:
    """Return one or two sentences on why `old` is not in `text`."""
    wanted = old.replace("\r\n", "\n").strip("\n").split("\n")
    if all(_NUMBERED.match(line) for line in wanted):
        return "It begins with line numbers, which are not part of the file: leave them and the tab out."
    text, new = text.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    lines = text.split("\n")
    at = _find_loosely(lines, wanted)
    if at is not None:
        return f"It is there with other white space:\n{_shown(lines, at, len(wanted))}\nCopy it exactly."
    if len(new.strip()) > 3 and new in text:
        line = text.count("\n", 0, text.find(new)) + 1
        return f"The new text is already there (line {line}), so this edit may have been made before."
    at = _find_similar(lines, wanted)
    if at is not None:
        return f"The most similar lines are:\n{_shown(lines, at, len(wanted))}\n{_READ_AGAIN}"
    return _READ_AGAIN


def _find_loosely(lines: list[str], wanted: list[str]) -> int | None:
    plain = [" ".join(line.split()) for line in lines]
    asked = [" ".join(line.split()) for line in wanted]
    if not any(asked):
        return None
    if len(asked) == 1:
        return next((number for number, line in enumerate(plain) if asked[0] in line), None)
    for number in range(len(plain) - len(asked) + 1):
        # `old` may begin and end in the middle of a line.
        if (
            plain[number].endswith(asked[0])
            and plain[number + len(asked) - 1].startswith(asked[-1])
            and plain[number + 1 : number + len(asked) - 1] == asked[1:-1]
        ):
            return number
    return None


def _find_similar(lines: list[str], wanted: list[str]) -> int | None:
    """Return where `wanted` would begin if its longest line were the most similar line of the file."""
    import difflib

    longest = max(range(len(wanted)), key=lambda number: len(wanted[number].strip()))
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[longest].strip()[:_LETTERS_COMPARED])
    best, best_at = _LIKENESS, None
    for number, line in enumerate(lines[:_LINES_COMPARED]):
        matcher.set_seq1(line.strip()[:_LETTERS_COMPARED])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (likeness := matcher.ratio()) > best:
            best, best_at = likeness, number
    return None if best_at is None else max(best_at - longest, 0)


def _shown(lines: list[str], first: int, count: int) -> str:
    end = min(first + min(count, _LINES_SHOWN), len(lines))
    return "\n".join(f"{number + 1}\t{lines[number][:_LETTERS_COMPARED]}" for number in range(first, end))
