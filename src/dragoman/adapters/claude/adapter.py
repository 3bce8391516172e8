"""Claude Code as an adapter: sessions, settings, and prompts, each session with a program of its own.

Owns what is the same for all sessions. `live_session.py` runs one, `transcripts.py` reads those that Claude keeps.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from dragoman._version import __version__
from dragoman.adapters.adapter import Adapter
from dragoman.adapters.claude.live_session import ClaudeSession
from dragoman.adapters.claude.program import ClaudeStart, find_program
from dragoman.adapters.claude.transcripts import (
    delete_transcript,
    find_transcript,
    is_session_id,
    list_transcripts,
    other_folder,
    projects_folder,
    read_history,
    title_of_transcript,
)
from dragoman.adapters.values import AdapterError, WrappedSessionPage
from dragoman.errors import RequestError
from dragoman.text.terminal import sentence

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.context import PromptContext
    from dragoman.adapters.session import AdapterSession
    from dragoman.adapters.values import Setting
    from dragoman.uistream.messages import UIMessage

_PAGE: Final = 50
_TITLE_LETTERS: Final = 80


class ClaudeAdapter(Adapter):
    """The installed program `claude`.

    Args:
        program: its path or name; by default `claude`, which is looked for when a session is opened.
        arguments: further arguments of its command line.
        env: variables added to its environment; None as a value removes one.
    """

    name = "claude"
    title = "Claude Code"
    version = __version__
    accepts = ("image", "embedded_context")
    takes_mcp_servers = True
    mcp = ("http", "sse")

    def __init__(
        self,
        program: str | os.PathLike[str] | None = None,
        *,
        arguments: Sequence[str] = (),
        env: Mapping[str, str | None] | None = None,
    ) -> None:
        self._program = program
        self._arguments = tuple(arguments)
        self._env = dict(env or {})

    @property
    def _projects(self) -> Path:
        return projects_folder(self._env)

    # Turns

    async def run(self, ctx: PromptContext) -> AsyncIterator[Yielded]:
        live = _live(ctx.session)
        async with aclosing(live.prompt(ctx)) as items:
            async for item in items:
                yield item
        title = sentence(ctx.text)[:_TITLE_LETTERS].strip()
        if ctx.session.title is None and title:
            await ctx.session.rename(title)

    async def steer(self, session: AdapterSession, text: str) -> bool:
        return await _live(session).steer(text)

    # Sessions

    async def open(self, session: AdapterSession) -> None:
        if session.how == "new":
            session.id = str(uuid.uuid4())
            await self._start(session, ClaudeStart(session.id))
            return
        path = await self._stored(session.id, session.cwd)
        session.title = await asyncio.to_thread(title_of_transcript, path)
        await self._start(session, ClaudeStart(session.id, session.id))

    async def fork(self, session: AdapterSession, source_id: str) -> None:
        await self._stored(source_id, session.cwd)
        session.id = str(uuid.uuid4())
        await self._start(session, ClaudeStart(session.id, source_id))

    async def close_session(self, session: AdapterSession) -> None:
        live, session.state = session.state, None
        if isinstance(live, ClaudeSession):
            await live.close()

    async def sessions(self, cwd: str | None, cursor: str | None) -> WrappedSessionPage:
        found = await asyncio.to_thread(list_transcripts, self._projects, cwd)
        begin = 0
        if cursor is not None:
            if not is_session_id(cursor):
                raise RequestError.invalid_params("The cursor is not one of this agent's", path="$.cursor")
            begin = next((at + 1 for at, each in enumerate(found) if each.id == cursor), len(found))
        page = tuple(found[begin : begin + _PAGE])
        has_more = begin + _PAGE < len(found)
        return WrappedSessionPage(page, page[-1].id if has_more else None)

    async def history(self, session: AdapterSession) -> AsyncIterator[UIMessage]:
        path = await asyncio.to_thread(find_transcript, self._projects, session.id, session.cwd)
        try:
            messages = [] if path is None else await asyncio.to_thread(read_history, path)
        except OSError as error:
            raise AdapterError(f"the session's file cannot be read: {error}") from error
        for message in messages:
            yield message

    async def delete(self, session_id: str) -> None:
        await asyncio.to_thread(delete_transcript, self._projects, session_id)

    # Settings

    def settings(self, session: AdapterSession) -> Sequence[Setting]:
        return _live(session).choices.settings()

    async def choose(self, session: AdapterSession, setting_id: str, value: str | bool) -> None:
        await _live(session).choose(setting_id, str(value))

    async def _start(self, session: AdapterSession, start: ClaudeStart) -> None:
        program = await asyncio.to_thread(find_program, self._program)
        live = ClaudeSession(session, program, self._arguments, self._env)
        await live.start(start)
        session.state = live

    async def _stored(self, session_id: str, cwd: str) -> Path:
        """The file of a session. Raises: RequestError for one that this folder does not have."""
        path = await asyncio.to_thread(find_transcript, self._projects, session_id, cwd)
        if path is not None:
            return path
        folder = await asyncio.to_thread(other_folder, self._projects, session_id)
        where = "" if folder is None else f" in {cwd}; it belongs to the folder {folder}"
        raise RequestError.not_found(f"Session not found{where}", {"sessionId": session_id})


def _live(session: AdapterSession) -> ClaudeSession:
    live = session.state
    if not isinstance(live, ClaudeSession):
        raise AdapterError("the session is closed; open it again")
    return live
