"""The service for `fs/*`, from the workspace of each session: its folder and its additional directories.

Owns which permission is checked before a file is touched, and which error an agent gets. Reading, writing and staying
below the roots belong to `dragoman.workspace`, which is loaded with the first file that an agent wants; the decision
belongs to the `permissions` that are passed in.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakKeyDictionary, WeakValueDictionary

from dragoman.errors import INTERNAL_ERROR, INVALID_PARAMS, NOT_FOUND, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.client.services import ChecksPermission
    from dragoman.client.session import Session
    from dragoman.policy import Request
    from dragoman.schema import v1
    from dragoman.workspace import Change, Workspace, WorkspaceError

# Reading this much from the page cache takes 50 µs, no longer than passing it to a thread and back.
_INLINE_BYTES: Final = 256 * 1024
# Failures of this side. The others are invalid params: the agent can correct them.
_INTERNAL_KINDS: Final = frozenset({"busy", "denied", "failed", "forgotten"})


def open_workspace(session: Session) -> Workspace:
    """Return the files of a session: below its folder and its additional directories (rule 281)."""
    from dragoman.workspace import Workspace

    return Workspace((session.cwd, *session.additional_directories))


def turn_label(session: Session) -> str:
    """Return the label under which the journal keeps the changes of a session's latest turn."""
    return str(len(session.state.turns) - 1) if session.state.turns else ""


class WorkspaceFiles:
    """The service that reads and writes text files for agents, below the roots of the session that asks.

    Args:
        permissions: checked before every read and write, usually `ClientPermissions`. None permits everything below
            the roots.
        missing: "empty" answers a read of a missing file with an empty text, for agents that cannot create a file
            otherwise.
        open_workspace: opens the workspace of a session.
    """

    def __init__(
        self,
        *,
        permissions: ChecksPermission | None,
        missing: Literal["error", "empty"] = "error",
        open_workspace: Callable[[Session], Workspace] = open_workspace,
    ) -> None:
        self._permissions = permissions
        self._missing = missing
        self._open_workspace = open_workspace
        self._workspaces: WeakKeyDictionary[Session, Workspace] = WeakKeyDictionary()
        self._queues: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def workspace_of(self, session: Session) -> Workspace:
        """Return the files and the journal of a session, the same object for as long as the session object lives.

        Raises:
            WorkspaceError: one of the session's folders does not exist.
        """
        found = self._workspaces.get(session)
        if found is None:
            found = self._workspaces[session] = self._open_workspace(session)
        return found

    async def read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> str:
        from dragoman.workspace import WorkspaceError

        try:
            opened = self.workspace_of(session).open_text(request.path)
        except WorkspaceError as error:
            if error.kind == "missing" and self._missing == "empty":
                return ""
            raise _answer(error) from None
        if self._permissions is not None:
            try:
                # Both names, so that a link cannot evade a rule. What is read is what was judged.
                paths = dict.fromkeys((opened.path, opened.real_path))
                await self._permissions.check(self._request("read", tuple(paths), session), session)
            except BaseException:
                opened.close()
                raise
        line, limit = request.line or None, request.limit
        window = (line, limit if isinstance(limit, int) else None)
        try:
            if opened.size_bytes <= _INLINE_BYTES:
                return opened.read(*window)
            return await asyncio.to_thread(opened.read, *window)
        except WorkspaceError as error:
            raise _answer(error) from None

    async def write_text_file(self, request: v1.WriteTextFileRequest, session: Session) -> None:
        from dragoman.workspace import WorkspaceError

        try:
            workspace = self.workspace_of(session)
            path = workspace.locate(request.path)
            # In order of arrival: the last of two writes is the one that stays.
            async with self._queues.setdefault(path, asyncio.Lock()):
                await self._write(workspace, path, request.content, session)
        except WorkspaceError as error:
            raise _answer(error) from None

    async def _write(self, workspace: Workspace, path: str, text: str, session: Session) -> None:
        """Write in a thread, because writing waits for the disk."""
        label = turn_label(session)
        if self._permissions is None:
            await asyncio.to_thread(workspace.write_text, path, text, label=label)
            return
        change = await asyncio.to_thread(workspace.preview, path, text)
        # Both names, so that a link cannot lead around a rule.
        paths = tuple(dict.fromkeys((path, change.path)))
        request = self._request("edit", paths, session, caution=_caution(change))
        await self._permissions.check(request, session, change=change)
        # The permission is for this change of this file: a link that was put there since is refused.
        await asyncio.to_thread(
            workspace.write_text, change.path, text, label=label, expected=change.before, follow_links=False
        )

    def _request(self, kind: str, paths: tuple[str, ...], session: Session, *, caution: str = "") -> Request:
        from dragoman.policy import Request

        verb = "Read" if kind == "read" else "Write"
        return Request(
            agent="",
            kind=kind,
            title=f"{verb} {paths[0]}",
            paths=paths,
            root=self.workspace_of(session).roots[0],
            home=os.path.expanduser("~"),
            caution=caution,
        )


def _caution(change: Change) -> str:
    if change.links > 1:
        return f"{change.path} is a hard link: the same file has {change.links} names, some maybe outside the project"
    return ""


def _answer(error: WorkspaceError) -> RequestError:
    """Return the error for the agent.

    That is -32002 for a missing file (rule 280), invalid params or an internal error otherwise.
    """
    data: dict[str, Any] = {"path": error.path, "kind": error.kind}
    if error.kind == "missing":
        return RequestError(NOT_FOUND, f"Resource not found: {error.path}", data)
    return RequestError(INTERNAL_ERROR if error.kind in _INTERNAL_KINDS else INVALID_PARAMS, str(error), data)
