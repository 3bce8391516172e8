"""Answers `fs/*` of an agent: the host from its own disk, or the client that the session is delegated to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from dragoman.client.services import ReadsFiles, WritesFiles
from dragoman.errors import RequestError
from dragoman.host.working.delegation import ClientAway
from dragoman.schema import decode, encode, v1

if TYPE_CHECKING:
    from dragoman.client import Session
    from dragoman.host.session import HostedSession
    from dragoman.host.working.delegation import Delegate


class LocalFiles(ReadsFiles, WritesFiles, Protocol):
    """Files that can be read and written."""


class ServedFiles:
    """The files of one session."""

    def __init__(self, hosted: HostedSession, local: LocalFiles) -> None:
        self._hosted = hosted
        self._local = local

    async def read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> str | v1.ReadTextFileResponse:
        delegate = self._hosted.delegate
        if delegate is not None and delegate.kind.reads_files:
            found = await self._delegated(delegate, "fs/read_text_file", request)
            if found is not None:
                answer: v1.ReadTextFileResponse = decode(v1.ReadTextFileResponse, msgspec.json.encode(found))
                return answer
        return await self._local.read_text_file(request, session)

    async def write_text_file(self, request: v1.WriteTextFileRequest, session: Session) -> None:
        delegate = self._hosted.delegate
        if delegate is not None and delegate.kind.writes_files:
            found = await self._delegated(delegate, "fs/write_text_file", request)
            if found is not None:
                return
        await self._local.write_text_file(request, session)

    async def _delegated(self, delegate: Delegate, method: str, request: object) -> dict[str, Any] | None:
        """The client's answer; None if the host has to serve the same files.

        Raises:
            RequestError: the client refused, or is away and on another machine.
        """
        params: dict[str, Any] = msgspec.json.decode(encode(request))
        params.pop("sessionId", None)
        try:
            return await delegate.request(method, params) or {}
        except ClientAway as error:
            if not delegate.is_local:
                raise RequestError.internal_error(f"{error}, and its files are on another machine") from None
        if not delegate.was_reported:
            delegate.was_reported = True
            self._hosted.notice("The client is away: files are read from disk, without its unsaved text.")
        return None
