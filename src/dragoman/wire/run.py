"""A run of lines of one kind, decoded each in a single pass.

Owns the shortcut for the message that makes up nearly all traffic: envelope and params are decoded together, instead
of skipping the params first. Does not know which message that is; the decoder it is given refuses every other one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from dragoman.wire.bounds import is_utf8
from dragoman.wire.ndjson import Frame

T = TypeVar("T")

# Up to this size the depth of a line is left to the interpreter's own guard, a RecursionError: finding out that a
# line is flat takes as long as decoding it. A larger one ends the run, and `read_message` checks its limits.
RUN_LINE_BYTES: Final = 16 * 1024
# The same for lines that are looked at together: one read of a pipe and what was left of the one before.
RUN_BLOCK_BYTES: Final = 128 * 1024


def decode_run(frames: Sequence[Frame], decode: Callable[[bytes], T], start: int = 0) -> list[T]:
    """Decode the frames from `start` on, up to the first that `decode` refuses or that is too large to go unchecked.

    `decode` belongs to a `msgspec.json.Decoder`. Its `decode_lines` would not do: that takes a message spread over
    two lines, and two messages on one line, and telling these apart afterwards costs what it saves.
    """
    run: list[T] = []
    rest: Sequence[Any] = frames[start:] if start else frames
    take = run.append
    try:
        if len(rest) == 1 and isinstance(rest[0], bytes) and len(rest[0]) <= RUN_LINE_BYTES and rest[0].isascii():
            take(decode(rest[0]))  # as below, without making one text of many lines
        elif _is_plain(rest):
            for frame in rest:
                take(decode(frame))
        else:
            for frame in islice(rest, _unchecked(rest)):
                take(decode(frame))
    except (msgspec.DecodeError, RecursionError):
        pass  # the frame at which the run stopped is read again by `read_message`, which finds what is wrong with it
    return run


def _is_plain(frames: Sequence[Any]) -> bool:
    """Whether all of it is ASCII and short, by one look at the whole; one at each line costs a quarter of the run."""
    try:
        text = b"".join(frames)
    except TypeError:  # one is not a line
        return False
    return len(text) <= RUN_BLOCK_BYTES and text.isascii()


def _unchecked(frames: Sequence[Any]) -> int:
    """Return how many frames from the first on may be decoded without further checks."""
    for index, frame in enumerate(frames):
        if not isinstance(frame, bytes) or len(frame) > RUN_LINE_BYTES:
            return index
        if not frame.isascii() and not is_utf8(frame):
            return index
    return len(frames)
