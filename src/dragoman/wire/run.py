"""Decodes a run of lines of one kind, each in a single pass.

Owns the shortcut for the message that makes up nearly all traffic: envelope and params are decoded together, instead
of skipping the params first. Does not know which message that is; the decoder it is given refuses every other one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, TypeVar

import msgspec

from dragoman.wire.bounds import is_utf8
from dragoman.wire.ndjson import Frame

T = TypeVar("T")

# Up to this size the depth of a line is left to the interpreter's own guard, a RecursionError: finding out that a
# line is flat takes as long as decoding it. A larger one ends the run, and `read_message` checks its limits.
RUN_LINE_BYTES: Final = 16 * 1024


def decode_run(frames: Sequence[Frame], decode: Callable[[bytes], T], start: int = 0) -> list[T]:
    """The frames from `start` on, up to the first that `decode` refuses or that is too large to go unchecked.

    `decode` belongs to a `msgspec.json.Decoder`. Its `decode_lines` would not do: that takes a message spread over
    two lines, and two messages on one line, and telling these apart afterwards costs what it saves.
    """
    run: list[T] = []
    try:
        for frame in islice(frames, start, None):
            if not isinstance(frame, bytes) or len(frame) > RUN_LINE_BYTES:
                break
            if not frame.isascii() and not is_utf8(frame):
                break
            run.append(decode(frame))
    except (msgspec.DecodeError, RecursionError):
        pass  # the frame at which the run stopped is read again, by whoever can say what is wrong with it
    return run
