"""Output too long for the model: it gets the beginning and the end, and a file with all of it that it can read.

Owns the size limit and the files. Does not depend on any tool.
"""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from dragoman.builtin.tools.tool import ToolContext

LIMIT_BYTES: Final = 200 * 1024
# The beginning and the end of a long output are the most useful to a model: the first error, the summary.
_HEAD_BYTES: Final = 24 * 1024
_TAIL_BYTES: Final = 40 * 1024


class Fitted(Struct, frozen=True):
    """A text within the limit, and the path of the whole text if it was longer."""

    text: str
    is_truncated: bool = False
    path: str | None = None


async def fit(text: str, context: ToolContext) -> Fitted:
    """Return the text if it is within the limit, otherwise its two ends and the path of a file with all of it."""
    data = text.encode("utf-8", "replace")
    if len(data) <= LIMIT_BYTES:
        return Fitted(data.decode())
    head, tail = ends(data)
    left_out = len(data) - len(head.encode()) - len(tail.encode())
    try:
        path = await asyncio.to_thread(_keep, data, context.overflow_dir, context.tool_call_id)
    except OSError as error:
        note = f"[... {left_out} bytes left out; they could not be kept: {error.strerror or error} ...]"
        return Fitted(f"{head}\n{note}\n{tail}", True)
    note = f"[... {left_out} bytes left out; all of it is in {path}, look there with grep or read ...]"
    return Fitted(f"{head}\n{note}\n{tail}", True, path)


def ends(data: bytes, head_bytes: int = _HEAD_BYTES, tail_bytes: int = _TAIL_BYTES) -> tuple[str, str]:
    """Return the beginning and the end of a long text, cut between lines where possible."""
    head = data[:head_bytes]
    if (cut := head.rfind(b"\n")) > head_bytes // 2:
        head = head[:cut]
    tail = data[-tail_bytes:] if tail_bytes else b""
    if 0 <= (cut := tail.find(b"\n")) < tail_bytes // 2:
        tail = tail[cut + 1 :]
    return head.decode("utf-8", "ignore"), tail.decode("utf-8", "ignore")


def _keep(data: bytes, folder: str, name: str) -> str:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    plain = re.sub(r"[^\w.-]", "_", name).strip(".")[:100] or "output"
    path = os.path.join(folder, f"{plain}.txt")
    # Output may contain secrets, and a link that was placed here before must not be followed.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    return path
