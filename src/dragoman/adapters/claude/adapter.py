"""Claude Code as an adapter: sessions, settings, and prompts, each session with a program of its own.

Owns what is the same for all sessions. `live_session.py` runs one, `transcripts.py` reads those that Claude keeps; both
are loaded when they are needed, because an editor waits for the answer to `initialize`.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from dragoman._version import __version__
from dragoman.adapters.adapter import Adapter
from dragoman.adapters.values import AdapterError, WrappedSessionPage
from dragoman.errors import RequestError
from dragoman.text.terminal import sentence

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.claude.live_session import ClaudeSession
    from dragoman.adapters.claude.transcripts import ClaudeTranscripts
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
    def _transcripts(self) -> ClaudeTranscripts:
        from dragoman.adapters.claude.transcripts import ClaudeTranscripts

        return ClaudeTranscripts(self._env)

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
            session.id = _new_id()
            await self._start(session, None)
            return
        from dragoman.adapters.claude.transcripts import read_info

        info = await asyncio.to_thread(read_info, await self._stored(session.id, session.cwd))
        session.title = None if info is None else info.title or None
        await self._start(session, session.id)

    async def fork(self, session: AdapterSession, source_id: str) -> None:
        await self._stored(source_id, session.cwd)
        session.id = _new_id()
        await self._start(session, source_id)

    async def close_session(self, session: AdapterSession) -> None:
        live: ClaudeSession | None = session.state
        session.state = None
        if live is not None:
            await live.close()

    async def sessions(self, cwd: str | None, cursor: str | None) -> WrappedSessionPage:
        found = await asyncio.to_thread(self._transcripts.list, cwd)
        begin = 0
        if cursor is not None:
            if all(session.id != cursor for session in found):
                raise RequestError.invalid_params("The cursor is not one of this agent's", path="$.cursor")
            begin = [session.id for session in found].index(cursor) + 1
        page = tuple(found[begin : begin + _PAGE])
        has_more = begin + _PAGE < len(found)
        return WrappedSessionPage(page, page[-1].id if has_more else None)

    async def history(self, session: AdapterSession) -> AsyncIterator[UIMessage]:
        from dragoman.adapters.claude.transcripts import read_history

        path = await self._stored(session.id, session.cwd)
        try:
            messages = await asyncio.to_thread(read_history, path)
        except OSError as error:
            raise AdapterError(f"the session's file cannot be read: {error}") from error
        for message in messages:
            yield message

    async def delete(self, session_id: str) -> None:
        await asyncio.to_thread(self._transcripts.delete, session_id)

    # Settings

    def settings(self, session: AdapterSession) -> Sequence[Setting]:
        return _live(session).choices.settings()

    async def choose(self, session: AdapterSession, setting_id: str, value: str | bool) -> None:
        await _live(session).choose(setting_id, str(value))

    async def _start(self, session: AdapterSession, source_id: str | None) -> None:
        """Start the program for a session: a new one, or one that goes on from `source_id`."""
        from dragoman.adapters.claude.live_session import ClaudeSession
        from dragoman.adapters.claude.program import ClaudeStart, find_program

        program = await asyncio.to_thread(find_program, self._program)
        live = ClaudeSession(session, program, self._arguments, self._env)
        await live.start(ClaudeStart(session.id, source_id))
        session.state = live

    async def _stored(self, session_id: str, cwd: str) -> Path:
        """Return the file of a session. Raises: RequestError for one that this folder does not have."""
        path = await asyncio.to_thread(self._transcripts.find, session_id, cwd)
        if path is not None:
            return path
        folder = await asyncio.to_thread(self._transcripts.folder_of, session_id)
        where = "" if folder is None else f" in {cwd}; it belongs to the folder {folder}"
        raise RequestError.not_found(f"Session not found{where}", {"sessionId": session_id})


def _live(session: AdapterSession) -> ClaudeSession:
    live: ClaudeSession | None = session.state
    if live is None:
        raise AdapterError("the session is closed; open it again")
    return live


def _new_id() -> str:
    from uuid import uuid4

    return str(uuid4())
