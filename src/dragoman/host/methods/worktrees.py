"""Worktrees of a project: which there are, merging one into its project, and discarding it.

`session/new` makes one (`_meta.dragoman.worktree`, `make_for` below). A client sees the worktrees of projects that lie
in its folders. None is merged or removed while a session works in it.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import RequestError
from dragoman.host.clients.admission import admit_folder
from dragoman.host.methods.params import read_params, text_member
from dragoman.policy.paths import is_below
from dragoman.worktrees import (
    Worktree,
    WorktreeError,
    apply_merge,
    changes_of,
    discard_worktree,
    find_worktree,
    list_worktrees,
    make_worktree,
    plan_merge,
    project_of,
)
from dragoman.worktrees.worktree import worktree_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host, Visitor
    from dragoman.rpc import Call

_LOOKED_AT: Final = 256  # sessions, whose projects are looked at if the client names no folder


async def list_all(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the worktrees of the project of a folder; of all projects that have sessions, if none is named."""
    params = read_params(call.params)
    records = (await host.log.page(client.visitor.principal, limit=_LOOKED_AT)).records
    cwd = params.get("cwd")
    folders = {record.cwd for record in records} if cwd is None else {admit_folder(str(cwd), client.visitor)}
    found = await asyncio.to_thread(_rows, folders, client.visitor)
    for row in found:
        inside = [record.id for record in records if is_below(record.cwd, row["path"])]
        row.update({"sessionId": inside[0]} if inside else {})
    return {"worktrees": found}


async def merge(host: Host, client: HostConnection, call: Call) -> object:
    """Write what was changed in a worktree into its project: all of it, or nothing if something is in conflict."""
    worktree = await _named(client, read_params(call.params))
    async with host.alone_in(worktree.folder):
        _require_quiet(host, worktree)

        def run() -> dict[str, Any]:
            plan = plan_merge(worktree, changes_of(worktree))
            conflicts = [{"path": item.path, "why": item.reason} for item in plan.conflicts]
            if not conflicts:
                apply_merge(plan)
            left = [{"path": item.path, "why": item.reason} for item in plan.left]
            merged = [] if conflicts else [item.path for item in plan.writes]
            return {"merged": merged, "conflicts": conflicts, "left": left}

        return await _in_thread(run)


async def discard(host: Host, client: HostConnection, call: Call) -> object:
    """Remove a worktree with everything in it; its project keeps what it has."""
    worktree = await _named(client, read_params(call.params))
    async with host.alone_in(worktree.folder):
        _require_quiet(host, worktree)
        for session in host.live_sessions():
            if is_below(session.record.cwd, worktree.folder):
                await session.agent.end()  # an idle process would work in a folder that is gone
        await _in_thread(lambda: discard_worktree(worktree))
    return {}


class MadeWorktree:
    """A worktree for a session that is being opened."""

    def __init__(self, worktree: Worktree, cwd: str, notes: list[str], *, is_new: bool) -> None:
        self.worktree = worktree
        self.cwd = worktree.inside(cwd)
        self.notes = notes
        self._is_new = is_new

    @property
    def members(self) -> dict[str, str]:
        """What its client is answered."""
        return {"name": self.worktree.name, "project": self.worktree.project, "path": self.worktree.folder}

    async def give_up(self) -> None:
        """Remove it again if it was made for a session that could not be opened."""
        if self._is_new:
            with suppress(WorktreeError):
                await asyncio.to_thread(discard_worktree, self.worktree)


async def make_for(found: object, cwd: str, visitor: Visitor) -> MadeWorktree:
    """Make the worktree that `session/new` asks for, in an admitted folder.

    Raises:
        RequestError: it cannot be made, or would copy files that the visitor may not see.
    """
    name = found.get("name") if isinstance(found, dict) else None
    if not isinstance(name, str):
        raise RequestError.invalid_params("name must be a text", path="$._meta.dragoman.worktree.name")
    notes: list[str] = []

    def run() -> MadeWorktree:
        project = project_of(cwd)
        admit_folder(project, visitor)
        is_known = find_worktree(project, name) is not None
        return MadeWorktree(make_worktree(cwd, name, notes.append), cwd, notes, is_new=not is_known)

    made: MadeWorktree = await _in_thread(run)
    if not await asyncio.to_thread(os.path.isdir, made.cwd):
        await made.give_up()
        raise RequestError.invalid_params(f"{cwd} is not in the worktree: git does not have it", path="$.cwd")
    return made


async def _named(client: HostConnection, params: dict[str, Any]) -> Worktree:
    cwd, name = admit_folder(text_member(params, "cwd"), client.visitor), text_member(params, "name")

    def run() -> Worktree | None:
        return find_worktree(admit_folder(project_of(cwd), client.visitor), name)

    found: Worktree | None = await _in_thread(run)
    if found is None:
        raise RequestError.not_found("there is no such worktree")
    return found


def _require_quiet(host: Host, worktree: Worktree) -> None:
    busy = [session for session in host.live_sessions() if session.is_busy]
    if any(is_below(session.record.cwd, worktree.folder) for session in busy):
        raise RequestError(-32603, "a session works in it; stop its turn first", {"reason": "running"})


async def _in_thread(run: Any) -> Any:
    try:
        return await asyncio.to_thread(run)
    except (WorktreeError, OSError) as error:
        raise RequestError(-32603, str(error), {"reason": "worktree"}) from None


def _rows(folders: Iterable[str], visitor: Visitor) -> list[dict[str, Any]]:
    projects = set()
    for folder in folders:
        with suppress(OSError, WorktreeError, RequestError):
            outer = worktree_at(folder)
            projects.add(admit_folder(project_of(folder) if outer is None else outer.project, visitor))
    rows = []
    for worktree in sorted(
        (found for project in projects for found in list_worktrees(project)), key=lambda found: found.created_at
    ):
        row: dict[str, Any] = {
            "name": worktree.name,
            "project": worktree.project,
            "path": worktree.folder,
            "createdAt": int(datetime.fromisoformat(worktree.created_at).timestamp() * 1000),
            "isCopy": worktree.kind == "copy",
        }
        with suppress(WorktreeError, OSError):
            changes = [change for change in changes_of(worktree) if change.aside is None]
            row["files"] = len(changes)
        rows.append(row)
    return rows
