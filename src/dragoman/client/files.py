"""`fs/*` answered from the workspace of each session: its folder and its additional directories.

Owns what is asked before a file is touched, and which error an agent gets. What a file is and how it is kept below the
roots is the workspace's business; who may do what is decided by the consent it is given.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from dragoman.errors import INTERNAL_ERROR, INVALID_PARAMS, NOT_FOUND, RequestError
from dragoman.workspace import Workspace, WorkspaceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.client.session import Session
    from dragoman.policy import Request
    from dragoman.schema import v1
    from dragoman.workspace import Change

# Reading this much from the page cache takes 50 µs, no more than handing it to a thread and back does.
_INLINE_BYTES: Final = 256 * 1024
# The caller can do something about these; the rest is this side's trouble.
_OUR_TROUBLE: Final = frozenset({"busy", "denied", "failed", "forgotten"})


class ChecksFirst(Protocol):
    """Decides whether something may be done, asking a person where the rules say so."""

    async def check(self, request: Request, session: Session, *, change: Change | None = None) -> None:
        """Returns if it may be done. `change` is what a person can be shown.

        Raises:
            RequestError: it may not; the agent gets this answer.
        """


def open_workspace(session: Session) -> Workspace:
    """The files of a session: below its folder and its additional directories (rule 281)."""
    return Workspace((session.cwd, *session.additional_directories))


def turn_label(session: Session) -> str:
    """The name under which the journal keeps what the latest turn of a session changed."""
    return str(len(session.state.turns) - 1) if session.state.turns else ""


class WorkspaceFiles:
    """Reads and writes text files for agents, below the roots of the session that asks.

    `consent` is asked before every read and write; None means that the program vouches for whatever the agent does
    below the roots. `missing="empty"` answers a read of a missing file with an empty text, for agents that cannot
    create a file otherwise.
    """

    def __init__(
        self,
        *,
        consent: ChecksFirst | None,
        missing: Literal["error", "empty"] = "error",
        open_workspace: Callable[[Session], Workspace] = open_workspace,
    ) -> None:
        self._consent = consent
        self._missing = missing
        self._open_workspace = open_workspace
        self._workspaces: WeakKeyDictionary[Session, Workspace] = WeakKeyDictionary()
        self._queues: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def workspace_of(self, session: Session) -> Workspace:
        """The files and the journal of a session; the same as long as the session object lives.

        Raises:
            WorkspaceError: one of the session's folders does not exist.
        """
        found = self._workspaces.get(session)
        if found is None:
            found = self._workspaces[session] = self._open_workspace(session)
        return found

    async def read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> str:
        try:
            opened = self.workspace_of(session).open_text(request.path)
        except WorkspaceError as error:
            if error.kind == "missing" and self._missing == "empty":
                return ""
            raise _answer(error) from None
        if self._consent is not None:
            try:
                # Both names, so that a link cannot lead around a rule. What is read is what was judged.
                paths = dict.fromkeys((opened.path, opened.real_path))
                await self._consent.check(self._request("read", tuple(paths), session), session)
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
        try:
            workspace = self.workspace_of(session)
            path = workspace.locate(request.path)
            # In the order they came: the last of two writes is the one that stays.
            async with self._queues.setdefault(path, asyncio.Lock()):
                await self._write(workspace, path, request.content, session)
        except WorkspaceError as error:
            raise _answer(error) from None

    async def _write(self, workspace: Workspace, path: str, text: str, session: Session) -> None:
        """In threads, because the disk is waited for."""
        label = turn_label(session)
        if self._consent is None:
            await asyncio.to_thread(workspace.write_text, path, text, label=label)
            return
        change = await asyncio.to_thread(workspace.preview, path, text)
        # Both names, so that a link cannot lead around a rule.
        paths = tuple(dict.fromkeys((path, change.path)))
        await self._consent.check(
            self._request("edit", paths, session, caution=_caution(change)), session, change=change
        )
        # The file that was checked and no other: a link that was put there since is refused.
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
        return (
            f"{change.path} is a hard link: the same file has {change.links} names, some maybe outside of the project"
        )
    return ""


def _answer(error: WorkspaceError) -> RequestError:
    """The answer an agent gets: a missing file is -32002 (rule 280), what it can mend is invalid, the rest is ours."""
    data: dict[str, Any] = {"path": error.path, "kind": error.kind}
    if error.kind == "missing":
        return RequestError(NOT_FOUND, f"Resource not found: {error.path}", data)
    return RequestError(INTERNAL_ERROR if error.kind in _OUR_TROUBLE else INVALID_PARAMS, str(error), data)
