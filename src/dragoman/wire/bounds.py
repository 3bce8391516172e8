"""Limits of a line that are checked before it is decoded: UTF-8, depth, number of values.

Owns the limits that are not about length, and checks them without parsing.
Does not know JSON-RPC; a line that is not JSON at all is refused by the decoder later.
"""

from __future__ import annotations

from codecs import utf_8_decode
from itertools import accumulate
from typing import Final

from dragoman.errors import INVALID_REQUEST, PARSE_ERROR

# The deepest recorded message has 9 levels; Rust peers (serde_json) read no more than 128. The decoder itself stops
# between 990 and 10,000 levels, depending on the Python version and on how deep the caller's stack is: 256 makes the
# answer the same everywhere and leaves room for code that walks a value with a few frames per level.
DEPTH_LIMIT: Final = 256

# A value costs 2 bytes on the wire and up to 100 in memory: 32 MiB of `[],[],` would become more than a gigabyte of
# lists. A million values stay near 100 MB; the largest recorded message has 315.
NODE_LIMIT: Final = 1_000_000

# Every level and every value needs two bytes, so a shorter line cannot break these limits and needs no look.
SHORT_BYTES: Final = 2 * DEPTH_LIMIT
_FEW_NODES_BYTES: Final = 2 * NODE_LIMIT

# Counting brackets costs 0.6 ns a byte, hopping from one to the next 0.1 us a bracket. Hopping wins in prose of any
# length and loses in short code; from here on it wins in most of what agents send.
_HOP_BYTES: Final = 4 * 1024

# Text is decoded in pieces of this size to be checked: a whole line would cost up to 4 times its size in memory.
_UTF8_PIECE_BYTES: Final = 64 * 1024

_NOT_STRUCTURE: Final = bytes(byte for byte in range(256) if byte not in b'"[]{},')
_STEPS: Final = bytes(1 if byte in b"[{" else 255 for byte in range(256))


def find_fault(line: bytes) -> tuple[int, str] | None:
    """Return the error code and the sentence for a line that must not be decoded; None if it may be."""
    if not line.isascii() and not is_utf8(line):
        return PARSE_ERROR, "the line is not valid UTF-8"
    size_bytes = len(line)
    if size_bytes <= SHORT_BYTES:
        return None
    may_be_deep = _has_many_openers(line)
    if may_be_deep or (size_bytes > _FEW_NODES_BYTES and line.count(b",") >= NODE_LIMIT - DEPTH_LIMIT):
        return _measure(line)
    return None


def is_utf8(line: bytes) -> bool:
    """Whether the bytes are UTF-8, surrogates excluded (rule 1). The decoder does not look at what it skips."""
    done, size_bytes = 0, len(line)
    try:
        if size_bytes <= _UTF8_PIECE_BYTES:
            line.decode()
            return True
        view = memoryview(line)
        while done < size_bytes:
            end = done + _UTF8_PIECE_BYTES
            done += utf_8_decode(view[done:end], "strict", end >= size_bytes)[1]
    except UnicodeDecodeError:
        return False
    return True


def _has_many_openers(line: bytes) -> bool:
    """Whether there are enough brackets, in strings or not, to nest deeper than the limit."""
    if len(line) < _HOP_BYTES:
        return line.count(b"[") + line.count(b"{") > DEPTH_LIMIT
    left = DEPTH_LIMIT
    for opener in (b"[", b"{"):
        at = line.find(opener)
        while at >= 0:
            if not left:
                return True
            left -= 1
            at = line.find(opener, at + 1)
    return False


def _measure(line: bytes) -> tuple[int, str] | None:
    """Count values and levels exactly, strings left out; linear, and bounded by NODE_LIMIT for the slow part."""
    if b"\\" in line:
        # A run of backslashes starts with an escape, so pairs come off first and what is left before a quote
        # escapes it. Afterwards every quote opens or closes a string.
        line = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = line.translate(None, _NOT_STRUCTURE)
    # Two quotes a string, one key a value: more quotes than this are too many values without looking further.
    if marks.count(b'"') <= 4 * NODE_LIMIT:
        marks = b"".join(marks.split(b'"')[::2])
        brackets = marks.translate(None, b",")
        if 1 + len(marks) - len(brackets) // 2 <= NODE_LIMIT:
            levels = accumulate(memoryview(brackets.translate(_STEPS)).cast("b"))
            if max(levels, default=0) > DEPTH_LIMIT:
                return PARSE_ERROR, f"the line nests deeper than {DEPTH_LIMIT} levels"
            return None
    return INVALID_REQUEST, f"the line holds more than {NODE_LIMIT} values"
