"""Evidence for people: the frames that matter, one short line each.

Owns choosing and cutting; a whole frame is in the JSON report and in a recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import shorten
from dragoman.trace.entry import End, Exit, Frame, Stderr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.trace.entry import Entry

_ARROWS: Final = {"c2a": "->", "a2c": "<-"}
LINES: Final = 8
# A line is cut before it is decoded: a frame may be 34 MB.
_HEAD_BYTES: Final = 4096


def excerpt(evidence: Sequence[Entry], *, lines: int = LINES, width: int = 110) -> list[str]:
    """The last lines that were exchanged; `->` went to the agent, `<-` came from it."""
    shown = [entry for entry in evidence if _text(entry, width)]
    left_out = len(shown) - lines
    head = [f"... {left_out} lines before"] if left_out > 0 else []
    return head + [_text(entry, width) for entry in shown[-lines:]]


def _text(entry: Entry, width: int) -> str:
    if isinstance(entry, Frame):
        text = entry.data[:_HEAD_BYTES].decode(errors="replace")
        return f"{_ARROWS[entry.dir]} {shorten(text, width)}" if text.strip() else ""
    if isinstance(entry, Stderr):
        return f"!! {shorten(entry.text, width)}" if entry.text.strip() else ""
    if isinstance(entry, End):
        return f"{_ARROWS[entry.dir]} (end)"
    if isinstance(entry, Exit):
        return f"(the program ended: {f'code {entry.code}' if entry.code is not None else f'signal {entry.signal}'})"
    return ""
