"""Names for rows that sort by the time they were made.

Owns the form: a prefix, twelve hex digits of time and counter, fourteen random characters. Two made by one program
never collide and never sort the wrong way round, even when the clock stands still or goes back.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Final, Literal

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_LENGTH: Final = 14
_TICKS_PER_MS: Final = (
    64  # names made in one millisecond before the next one is borrowed; twelve digits last until 2109
)

_lock = threading.Lock()
_last = 0


def new_id(prefix: Literal["ses", "msg", "prt"]) -> str:
    """A name that sorts after every one this program made before."""
    global _last
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1_000_000 * _TICKS_PER_MS)
        tick = _last
    # 256 is no multiple of 62, so some characters are a little likelier; 80 bits are left all the same.
    tail = "".join(_ALPHABET[byte % 62] for byte in os.urandom(_RANDOM_LENGTH))
    return f"{prefix}_{tick:012x}{tail}"
