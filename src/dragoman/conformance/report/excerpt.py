"""Evidence for people: the frames that matter, one short line each.

Owns choosing and cutting; a whole frame is in the JSON report and in a recording. A frame that is too long for its line
is cut around the member that a finding is about, if the finding names one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.text.terminal import shorten
from dragoman.trace.entry import End, Exit, Frame, Stderr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.trace.entry import Entry

_ARROWS: Final = {"c2a": "->", "a2c": "<-"}
LINES: Final = 8
# A line is cut before it is decoded: a frame may be 34 MB.
_HEAD_BYTES: Final = 4096
_PATH: Final = re.compile(r"\$((?:\.[^\s.:\[\]]+|\[\d+\])+)")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def excerpt(
    evidence: Sequence[Entry], *, lines: int = LINES, width: int = 110, first: int = 0, about: str = ""
) -> list[str]:
    """Return the last lines that were exchanged; `->` went to the agent, `<-` came from it.

    Args:
        evidence: What was exchanged.
        lines: How many lines are shown at most.
        width: Of one line.
        first: The number of the first entry, shown as `#7`; 0 if the entries are not in a row, and then counted from 1.
        about: The finding. If it names a path such as `$.update.kind`, the last frame is cut around that.
    """
    path = found[1] if (found := _PATH.search(about)) else ""
    numbered = list(enumerate(evidence, max(first, 1)))
    last = max((number for number, entry in numbered if isinstance(entry, Frame)), default=0)
    texts = [
        f"#{number} {text}"
        for number, entry in numbered
        if (text := _text(entry, width, path if number == last else ""))
    ]
    left_out = len(texts) - lines
    head = [f"... {left_out} lines before"] if left_out > 0 else []
    return head + texts[-lines:]


def _text(entry: Entry, width: int, path: str) -> str:
    if isinstance(entry, Frame):
        text = _around(entry.data, path, width)
        return f"{_ARROWS[entry.dir]} {shorten(text, width)}" if text.strip() else ""
    if isinstance(entry, Stderr):
        return f"!! {shorten(entry.text, width)}" if entry.text.strip() else ""
    if isinstance(entry, End):
        return f"{_ARROWS[entry.dir]} (end)"
    if isinstance(entry, Exit):
        return f"(the program ended: {f'code {entry.code}' if entry.code is not None else f'signal {entry.signal}'})"
    return ""


def _around(data: bytes, path: str, width: int) -> str:
    """Return the part of a frame that has the member at `path`; its beginning without a path or such a member."""
    place = place_of(data, path) if path else 0
    start = 0 if place < width // 2 else place - width // 3
    cut = "..." if start else ""
    # A cut through a character leaves bytes that do not decode.
    return cut + data[start : start + _HEAD_BYTES].decode(errors="replace").lstrip("\ufffd")


def place_of(data: bytes, path: str) -> int:
    """Return where the member at a path such as `.update.kind` begins in a message.

    Its nearest parent if it is not there.
    """
    try:
        members = _decode_members(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return 0
    for name in ("params", "result", "error"):
        if name in members:
            place = _member(data, 0, name, bytes(members[name]))
            return _descend(bytes(members[name]), _STEP.findall(path), place)
    return 0


def _descend(data: bytes, steps: list[tuple[str, str]], place: int) -> int:
    if not steps:
        return place
    (name, index), *rest = steps
    try:
        if name:
            inner = bytes(_decode_members(data)[name])
            offset = _member(data, 0, name, inner)
        else:
            items = [bytes(item) for item in _decode_items(data)]
            inner, offset = items[int(index)], 1
            for item in items[: int(index) + 1]:
                offset = data.index(item, offset)
                offset += len(item) if item is not inner else 0
    except (msgspec.MsgspecError, ValueError, LookupError, RecursionError):
        return place
    return _descend(inner, rest, place + offset)


def _member(data: bytes, start: int, name: str, value: bytes) -> int:
    """Return where the value of a member begins."""
    pattern = re.compile(re.escape(msgspec.json.encode(name)) + rb"\s*:\s*" + re.escape(value))
    found = pattern.search(data, start)
    return found.end() - len(value) if found is not None else 0
