"""Answers `fs/*`: by the editor if it offers files, so that unsaved changes count, else from the disk.

The rules are the same in both cases, and so are the folders: only files below those of the session. Owns which of the
two is used; `client/files.py` reads and writes the disk.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.client.files import WorkspaceFiles, open_workspace
from dragoman.errors import INTERNAL_ERROR, INVALID_PARAMS, RequestError
from dragoman.policy import Request
from dragoman.policy.paths import is_below
from dragoman.schema import decode, encode, v1

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.proxy.guard.permissions import AsksEditor, GuardPermissions
    from dragoman.proxy.guard.session import GuardedSession
    from dragoman.workspace import Change, Workspace


class FileAccess(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was read or written for the agent. Digests are those of the contents; None for no file."""

    path: str
    operation: str
    before: str | None = None
    after: str | None = None
    added: int = 0
    removed: int = 0
    is_by_editor: bool = False


class GuardedFiles:
    """Text files that are read and written for the agent.

    Args:
        permissions: checked before every access.
        editor: reaches the editor.
        missing: what a read of a missing file is answered with, see `WorkspaceFiles`.
        check_limit: called with a path before it is written. Raises: RequestError if too many files were changed.
        on_access: called with each access that was carried out.
    """

    def __init__(
        self,
        *,
        permissions: GuardPermissions,
        editor: AsksEditor,
        missing: Any,
        check_limit: Callable[[str, GuardedSession], None],
        on_access: Callable[[FileAccess, GuardedSession], None],
    ) -> None:
        self.editor_reads = False
        self.editor_writes = False
        self._permissions = permissions
        self._editor = editor
        self._check_limit = check_limit
        self._on_access = on_access
        self._disk = WorkspaceFiles(permissions=permissions, missing=missing, open_workspace=open_workspace)

    async def read(self, request: v1.ReadTextFileRequest, session: GuardedSession) -> bytes:
        """Read a file, and return the encoded result."""
        _require_absolute(request.path)
        if self.editor_reads:
            place = _locate(request.path, session)
            await self._check_in_editor("read", place, session)
            path = place.path
            # Written again, so that the editor cannot read another path in it than the one that was judged.
            read = await self._editor.ask_editor("fs/read_text_file", encode(request), for_agent=True)
            result = bytes(read)
            text = decode(v1.ReadTextFileResponse, result).content
        else:
            path = request.path
            text = await self._disk.read_text_file(request, session)
            result = encode(v1.ReadTextFileResponse(text))
        access = FileAccess(path=path, operation="read", after=_digest(text), is_by_editor=self.editor_reads)
        self._on_access(access, session)
        return result

    async def write(self, request: v1.WriteTextFileRequest, session: GuardedSession) -> bytes:
        """Write a file, and return the encoded result."""
        _require_absolute(request.path)
        if self.editor_writes:
            place = _locate(request.path, session)
            change = await asyncio.to_thread(_change_of, place, request.content)
        else:
            change = await self._preview(self._workspace(session), request)
        self._check_limit(change.path, session)
        if self.editor_writes:
            await self._check_in_editor("edit", place, session, change)
            # The real path: a link that was put in its place since then is not followed by name.
            path = request.path if place.path == place.real else place.real
            written = encode(msgspec.structs.replace(request, path=path))
            result = bytes(await self._editor.ask_editor("fs/write_text_file", written, for_agent=True))
        else:
            await self._disk.write_text_file(request, session)
            result = encode(v1.WriteTextFileResponse())
        self._on_access(_written(change, request.content, is_by_editor=self.editor_writes), session)
        return result

    async def _check_in_editor(
        self, kind: str, place: _Place, session: GuardedSession, change: Change | None = None
    ) -> None:
        """Check what the editor is about to do for the agent.

        The file need not be on the disk, because the editor may not have saved it. Outside of the session's folders
        only a rule with an absolute path permits it; the disk would not be accessed there at all.
        """
        request = Request(
            agent="",
            kind=kind,
            title=f"{'Read' if kind == 'read' else 'Write'} {place.path}",
            paths=tuple(dict.fromkeys((place.path, place.real))),
            root=session.cwd,
            caution=""
            if change is None or change.links < 2
            else f"{change.path} has {change.links} names (hard links)",
        )
        if not place.is_inside and not self._permissions.is_named_by_rule(request, session):
            raise RequestError.invalid_params(
                f"{place.path} is outside of the session's folders, and no rule names it ({kind}:{place.path})",
                path="$.path",
            )
        await self._permissions.check(request, session, change=change)

    async def _preview(self, workspace: Workspace, request: v1.WriteTextFileRequest) -> Change:
        from dragoman.workspace import WorkspaceError

        try:
            return await asyncio.to_thread(workspace.preview, request.path, request.content)
        except WorkspaceError as error:
            raise _answer(error) from None

    def _workspace(self, session: GuardedSession) -> Workspace:
        from dragoman.workspace import WorkspaceError

        try:
            return self._disk.workspace_of(session)
        except WorkspaceError as error:
            raise _answer(error) from None


class _Place(msgspec.Struct, frozen=True):
    """A path that an agent named: in its normal form, with links resolved, and whether that is below the folders."""

    path: str
    real: str
    is_inside: bool


def _locate(path: str, session: GuardedSession) -> _Place:
    if "\0" in path:
        raise RequestError.invalid_params("The path contains a NUL", path="$.path")
    normal = os.path.normpath(path)
    # Not of the normal form: `link/..` is the folder that the link leads to.
    real = os.path.realpath(path)
    roots = [os.path.realpath(folder) for folder in session.folders]
    return _Place(normal, real, any(is_below(real, root) for root in roots))


def _change_of(place: _Place, text: str) -> Change:
    """Return what writing would change on the disk; a file that cannot be read there counts as new."""
    from dragoman.workspace import Change

    before, links = None, 1
    with suppress(OSError):
        descriptor = os.open(place.real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            links = status.st_nlink
            if stat.S_ISREG(status.st_mode) and status.st_size <= _COMPARED_BYTES:
                before = file.read()
    return Change(place.real, before, text.encode(errors="surrogatepass"), links=links)


def _written(change: Change, text: str, *, is_by_editor: bool) -> FileAccess:
    before = None if change.before is None else change.before.decode(errors="replace")
    added, removed = _count_lines(before or "", text)
    return FileAccess(
        path=change.path,
        operation="create" if before is None else "write",
        before=None if change.before is None else hashlib.sha256(change.before).hexdigest(),
        after=_digest(text),
        added=added,
        removed=removed,
        is_by_editor=is_by_editor,
    )


_COMPARED_BYTES: Final = 32 << 20  # no longer text can be written through the protocol
# Comparing long texts takes seconds, and this is a figure for a log.
_COMPARED_CHARACTERS: Final = 200_000


def _count_lines(before: str, after: str) -> tuple[int, int]:
    """Count the lines that were added and removed; of long texts, how many more or fewer there are."""
    if len(before) + len(after) > _COMPARED_CHARACTERS:
        more = after.count("\n") - before.count("\n")
        return max(0, more), max(0, -more)
    from collections import Counter

    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return (new - old).total(), (old - new).total()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _require_absolute(path: str) -> None:
    if not os.path.isabs(path):
        raise RequestError.invalid_params("The path must be absolute", path="$.path")


def _answer(error: Any) -> RequestError:
    """Return the error for the agent about a path that cannot be used."""
    code = INTERNAL_ERROR if error.kind in ("busy", "denied", "failed", "forgotten") else INVALID_PARAMS
    return RequestError(code, str(error), {"path": error.path, "kind": error.kind})
