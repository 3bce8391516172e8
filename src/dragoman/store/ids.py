"""Ids for rows that sort by the time of their creation.

Owns the format: a prefix, twelve hex digits of time and counter, fourteen random characters. Ids made by one program
never collide and always sort in the order of their creation, even if the clock stops or goes back.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Final, Literal

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_LENGTH: Final = 14
# Ids per millisecond before the counter runs into the next one. With 64 the twelve digits last until 2109.
_TICKS_PER_MS: Final = 64

_lock = threading.Lock()
_last = 0


def new_id(prefix: Literal["ses", "msg", "prt"]) -> str:
    """Return an id that sorts after every id this program made before."""
    global _last
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1_000_000 * _TICKS_PER_MS)
        tick = _last
    # 256 is not a multiple of 62, so some characters are slightly more likely; about 80 bits of randomness remain.
    tail = "".join(_ALPHABET[byte % 62] for byte in os.urandom(_RANDOM_LENGTH))
    return f"{prefix}_{tick:012x}{tail}"
