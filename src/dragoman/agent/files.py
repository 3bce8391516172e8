"""Text files: the client's when it offers them, the local disk otherwise.

Owns that choice and the local side of it. A relative path is made absolute against the session's folder first. Does
not check which paths may be used. Loaded with the first file of a turn: most agents start without it.
"""

from __future__ import annotations

import asyncio
import os
from itertools import islice
from typing import TYPE_CHECKING

from dragoman.agent.client import ClientError
from dragoman.errors import INTERNAL_ERROR, NOT_FOUND, LocalProtocolError
from dragoman.schema import UNSET, v1

if TYPE_CHECKING:
    from dragoman.agent.session import AgentSession


async def read_file(session: AgentSession, path: str | os.PathLike[str], line: int | None, limit: int | None) -> str:
    """Read the text of a file, or the `limit` lines from the 1-based `line` on (rules 272, 273, 274)."""
    if (line is not None and line < 1) or (limit is not None and limit < 0):
        raise LocalProtocolError(f"line {line} limit {limit}: lines are counted from 1 and a limit is not negative")
    where = session.path(path)
    if session.client.offers("fs.readTextFile"):
        request = v1.ReadTextFileRequest(
            session.id, where, UNSET if line is None else line, UNSET if limit is None else limit
        )
        answer = await session.client._ask("fs/read_text_file", request, v1.ReadTextFileResponse)
        return answer.content
    try:
        return await asyncio.to_thread(_read, where, line, limit)
    except (OSError, ValueError) as error:
        raise _refusal(where, error) from error


async def write_file(session: AgentSession, path: str | os.PathLike[str], text: str) -> None:
    """Write a whole file, which may be new."""
    where = session.path(path)
    if session.client.offers("fs.writeTextFile"):
        request = v1.WriteTextFileRequest(session.id, where, text)
        await session.client._ask("fs/write_text_file", request, v1.WriteTextFileResponse)
        return
    try:
        await asyncio.to_thread(_write, where, text)
    except (OSError, ValueError) as error:
        raise _refusal(where, error) from error


def _read(path: str, line: int | None, limit: int | None) -> str:
    # newline="\n": a line ends there and nowhere else, and every character comes back as it stands in the file.
    with open(path, encoding="utf-8", newline="\n") as file:
        if line is None and limit is None:
            return file.read()
        start = (line or 1) - 1
        return "".join(islice(file, start, None if limit is None else start + limit))


def _write(path: str, text: str) -> None:
    from dragoman.workspace.atomic import replace_file  # most agents write through the client and never need it

    replace_file(path, text.encode())


def _refusal(path: str, error: OSError | ValueError) -> ClientError:
    if isinstance(error, FileNotFoundError):
        return ClientError(NOT_FOUND, "Resource not found", {"path": path})
    why = "not UTF-8 text" if isinstance(error, UnicodeError) else getattr(error, "strerror", None) or "not a path"
    return ClientError(INTERNAL_ERROR, f"{path}: {why}", {"path": path})
