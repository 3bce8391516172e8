"""Output too long for the model: it gets the beginning and the end, and a file with all of it that it can read.

Owns how an output is cut, and the files. Does not depend on any tool; each has its own limit.
"""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import ToolContext


class OutputLimit(Struct, frozen=True):
    """How much of an output the model is given at once."""

    size_bytes: int
    lines: int | None = None
    head_share: float = 0.4
    """The share of the beginning; the rest is for the end."""


# The end of a command's output has the error and the summary; the beginning only says what ran.
COMMAND_LIMIT: Final = OutputLimit(30 * 1024, 2000, head_share=0.2)
PAGE_LIMIT: Final = OutputLimit(50 * 1024, head_share=0.8)
MCP_LIMIT: Final = OutputLimit(100 * 1024)


class Fitted(Struct, frozen=True):
    """A text within the limit, and the path of the whole text if it was longer."""

    text: str
    is_truncated: bool = False
    path: str | None = None


async def fit(text: str, context: ToolContext, limit: OutputLimit) -> Fitted:
    """Return the text if it is within the limit, otherwise its two ends and the path of a file with all of it."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit.size_bytes and not _has_too_many_lines(data, limit):
        return Fitted(data.decode())
    head, tail = _two_ends(data, limit)
    left_out = len(data) - len(head.encode()) - len(tail.encode())
    lines = data.count(b"\n") - head.count("\n") - tail.count("\n")
    what = f"{left_out} bytes in {lines} lines left out" if lines > 1 else f"{left_out} bytes left out"
    try:
        path = await asyncio.to_thread(keep_output, data, context.overflow_dir, context.tool_call_id)
    except OSError as error:
        note = f"[... {what}; they could not be kept: {error.strerror or error} ...]"
        return Fitted(f"{head}\n{note}\n{tail}", True)
    note = f"[... {what}; all of it is in {path}, look there with grep or read ...]"
    return Fitted(f"{head}\n{note}\n{tail}", True, path)


def _has_too_many_lines(data: bytes, limit: OutputLimit) -> bool:
    return limit.lines is not None and data.removesuffix(b"\n").count(b"\n") >= limit.lines


def _two_ends(data: bytes, limit: OutputLimit) -> tuple[str, str]:
    head_bytes = int(limit.size_bytes * limit.head_share)
    if limit.lines is None or not _has_too_many_lines(data, limit):
        return ends(data, head_bytes, limit.size_bytes - head_bytes)
    lines = data.removesuffix(b"\n").split(b"\n")
    head_lines = int(limit.lines * limit.head_share)
    head, tail = b"\n".join(lines[:head_lines]), b"\n".join(lines[head_lines - limit.lines :])
    # Both ends may still have too many bytes.
    return ends(head, head_bytes, 0)[0], ends(tail, 0, limit.size_bytes - head_bytes)[1]


def ends(data: bytes, head_bytes: int, tail_bytes: int) -> tuple[str, str]:
    """Return the beginning and the end of a text, cut between lines where possible."""
    head = data[:head_bytes]
    if len(head) < len(data) and (cut := head.rfind(b"\n")) > head_bytes // 2:
        head = head[:cut]
    tail = data[-tail_bytes:] if tail_bytes else b""
    if len(tail) < len(data) and 0 <= (cut := tail.find(b"\n")) < tail_bytes // 2:
        tail = tail[cut + 1 :]
    return head.decode("utf-8", "ignore"), tail.decode("utf-8", "ignore")


def keep_output(data: bytes, folder: str, name: str) -> str:
    """Write a file that only the user can read, and return its path. Raises: OSError."""
    for place in (os.path.dirname(folder), folder):
        os.makedirs(place, mode=0o700, exist_ok=True)
    plain = re.sub(r"[^\w.-]", "_", name).strip(".")[:100] or "output"
    path = os.path.join(folder, f"{plain}.txt")
    # Output may contain secrets, and a link that was placed here before must not be followed.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    return path
