"""The agent of a run, kept after its result so that a caller can look at what it left running (`--hold`).

Loaded for `--hold` only.
"""

from __future__ import annotations

import asyncio
import sys


async def wait_for_stdin() -> None:
    """Return when stdin has something to read or has ended; at once if it is a file, which is always readable."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(sys.stdin.fileno(), readable.set)
    except (OSError, ValueError):  # a regular file cannot be waited for; stdin may be closed
        return
    try:
        await readable.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
