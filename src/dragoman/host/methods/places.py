"""Folders in which a client may open a session, and files that it can name in a prompt.

A client never sees a folder outside those of its visitor, and a folder that it may not see is answered like one that
does not exist. Nothing here opens a file; everything that looks at the disk runs in a thread, with limits.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import RequestError
from dragoman.host.methods.params import find_session, read_params
from dragoman.policy.paths import is_below
from dragoman.workspace.file_index import MOST_SHOWN, FileIndex, ranked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host, Visitor
    from dragoman.rpc import Call

KEPT: Final = "files"
_MOST_CHILDREN: Final = 500
_MOST_RECENT: Final = 20
_LOOKED_AT: Final = 256  # sessions, for the folders that were used last
_MOST_INDEXES: Final = 16  # of one connection, each about 5 MB at most


class FileIndexes:
    """The lists of files that one connection asked for, the last used ones."""

    def __init__(self) -> None:
        self._by_folder: dict[str, FileIndex] = {}

    def find(self, folder: str) -> FileIndex:
        """Return the list of a folder, which may still have to be made."""
        index = self._by_folder.pop(folder, None) or FileIndex(folder)
        self._by_folder[folder] = index
        while len(self._by_folder) > _MOST_INDEXES:
            self._by_folder.pop(next(iter(self._by_folder))).close()
        return index

    def close(self) -> None:
        for index in self._by_folder.values():
            index.close()


async def find_files(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the files and folders of a session that match what was typed, the best first."""
    params = read_params(call.params)
    session = await find_session(host, client, params)
    folder, query = params.get("cwd") or session.record.cwd, params.get("query", "")
    if folder not in (session.record.cwd, *session.directories):
        raise RequestError.not_found("the session has no such folder")
    if not isinstance(query, str):
        raise RequestError.invalid_params("query must be a text", path="$.query")
    indexes: FileIndexes = client.kept.setdefault(KEPT, FileIndexes())
    index = indexes.find(folder)
    paths = await index.made()
    found = await asyncio.to_thread(ranked, query, [(path, path) for path in paths])
    files = [{"path": path, "uri": Path(folder, path).as_uri()} for path in found[:MOST_SHOWN]]
    return {"files": files, "isCut": index.is_cut}


async def list_folders(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the folders that a client may use, those that it used last, and what is in one of them."""
    path = read_params(call.params).get("path")
    if path is not None and not (isinstance(path, str) and os.path.isabs(path) and "\0" not in path):
        raise RequestError.invalid_params("path must be absolute", path="$.path")
    visitor = client.visitor
    page = await host.log.page(visitor.principal, limit=_LOOKED_AT)
    used: dict[str, dict[str, Any]] = {}
    for record in page.records:
        row = used.setdefault(record.cwd, {"path": record.cwd, "usedAt": int(record.updated_at * 1000), "sessions": 0})
        row["sessions"] += 1
    return await asyncio.to_thread(_look, visitor, used.values(), path)


def _look(visitor: Visitor, used: Iterable[dict[str, Any]], path: str | None) -> dict[str, Any]:
    from dragoman.boundary import boundary_of

    roots = [os.path.expanduser("~")] if visitor.folders is None else list(visitor.folders)
    recent = [row for row in used if _is_open(row["path"], visitor) and boundary_of(row["path"]) is None]
    answer: dict[str, Any] = {
        "folders": [{"path": root, "isAllowed": True} for root in roots if os.path.isdir(root)],
        "recent": recent[:_MOST_RECENT],
    }
    if path is None:
        return answer
    place = os.path.normpath(path)
    if not _is_open(place, visitor):
        raise RequestError.not_found("there is no such folder")
    children, is_cut = _children(place, visitor)
    above = os.path.dirname(place)
    answer |= {"path": place, "parent": above if above != place and _is_open(above, visitor) else None}
    answer["children"] = children
    if is_cut:
        answer["isCut"] = True
    return answer


def _is_open(path: str, visitor: Visitor) -> bool:
    """Whether a folder exists and is one that the visitor may use; where links lead to counts."""
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        return False
    return visitor.folders is None or any(is_below(real, os.path.realpath(folder)) for folder in visitor.folders)


def _children(folder: str, visitor: Visitor) -> tuple[list[dict[str, Any]], bool]:
    """Return the folders in a folder by name, and whether some were left out."""
    try:
        names = sorted(os.listdir(folder), key=lambda name: (name.casefold(), name))
    except OSError:
        raise RequestError.not_found("there is no such folder") from None
    found: list[dict[str, Any]] = []
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith(".") or not name.isprintable() or not _is_open(path, visitor):
            continue
        if len(found) == _MOST_CHILDREN:
            return found, True
        found.append({"name": name, "path": path, "isProject": os.path.lexists(os.path.join(path, ".git"))})
    return found, False
