"""The `codex` program as an agent: threads are sessions, and one program serves all of them.

Owns the program (started with the first session, started again after a crash) and which session each thread is. It is
not needed to answer `initialize`, so an editor gets that answer at once; what speaks to it is loaded when it is used.
`turn.py` runs prompts.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from dragoman._version import __version__
from dragoman.adapters.adapter import Adapter
from dragoman.adapters.codex.messages import CodexEnded, CodexQuestion, CodexRefused, Report
from dragoman.adapters.values import AdapterError, WrappedSessionInfo, WrappedSessionPage
from dragoman.errors import RequestError
from dragoman.text.terminal import sentence

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.codex.app_server import AppServer
    from dragoman.adapters.codex.choices import CodexModel
    from dragoman.adapters.codex.thread import CodexThread
    from dragoman.adapters.context import PromptContext
    from dragoman.adapters.session import AdapterSession
    from dragoman.adapters.values import Setting
    from dragoman.agent.handlers import Accepts, McpKind
    from dragoman.uistream.messages import UIMessage

_log = logging.getLogger("dragoman.adapters")

_PAGE: Final = 50
_TITLE_LETTERS: Final = 80
_CLOSE_SECONDS: Final = 2.0  # for the end of one session; the program itself goes on
# Words of the errors about a thread that does not exist; they have no code of their own.
_UNKNOWN: Final = ("no rollout found", "invalid thread id", "invalid session id", "not found")
_LOGIN: Final = (
    "Codex is not logged in. Run `codex login` in a terminal, or `codex login --with-api-key` to use a key, "
    "then try again"
)


class CodexAdapter(Adapter):
    """The installed program `codex`, by `codex app-server`.

    Args:
        program: where it is; by default the variable CODEX_PATH, or `codex` on PATH.
        config: settings of Codex forevery session, as in its `config.toml`.
    """

    name = "codex"
    title = "Codex"
    version = __version__
    accepts: Sequence[Accepts] = ("embedded_context", "image")
    takes_mcp_servers = True
    mcp: tuple[McpKind, ...] = ("http",)
    cleanup_seconds = 12.0  # more than `turn.INTERRUPT_SECONDS`, for the end of the program after that

    def __init__(self, program: str | None = None, *, config: Mapping[str, Any] | None = None) -> None:
        self._program = program
        self._config = dict(config or {})
        self._server: AppServer | None = None
        self._models: tuple[CodexModel, ...] = ()
        self._starting = asyncio.Lock()
        self._threads: dict[str, CodexThread] = {}
        """Threads by id; those of sub-agents have the thread that they belong to."""
        self._opening = 0
        self._early: list[Report | CodexQuestion] = []
        """Messages about threads that are being opened; some come before the answer that names the thread."""

    # Turns

    async def run(self, ctx: PromptContext) -> AsyncIterator[Yielded]:
        from dragoman.adapters.codex.choices import turn_params
        from dragoman.adapters.codex.prompts import request_of
        from dragoman.adapters.codex.turn import CodexTurn

        thread = await self._opened_thread(ctx.session)
        method, params = request_of(ctx.blocks, thread.id)
        if method == "turn/start":
            params |= turn_params(thread.wanted, thread.current)
            thread.current = thread.wanted
        turn = thread.turn = CodexTurn(thread, ctx)
        try:
            await turn.start(method, params)
            await self._name(ctx)
            async for chunk in turn.chunks():
                yield chunk
        except (asyncio.CancelledError, GeneratorExit):
            await turn.interrupt()
            raise
        finally:
            thread.turn = None
            await turn.close()

    async def steer(self, session: AdapterSession, text: str) -> bool:
        from dragoman.adapters.codex.prompts import text_input

        thread: CodexThread = session.state
        if thread.turn is None or thread.turn.id is None:
            return False
        params = {"threadId": thread.id, "expectedTurnId": thread.turn.id, "input": [text_input(text)]}
        try:
            await thread.server.request("turn/steer", params)
        except CodexRefused as error:  # the turn has just ended, or is one that cannot be steered
            _log.debug("codex refused to be steered: %s", error)
            return False
        return True

    async def _name(self, ctx: PromptContext) -> None:
        """Show a title for the session after its first prompt; Codex lists it under the same words."""
        title = sentence(ctx.text)[:_TITLE_LETTERS].strip()
        if ctx.session.title is None and title:
            await ctx.session.rename(title)

    # Sessions

    async def open(self, session: AdapterSession) -> None:
        if session.how == "new":
            await self._open_thread(session, "thread/start", {})
            session.id = session.state.id
        else:
            await self._open_thread(session, "thread/resume", {"threadId": session.id, "excludeTurns": True})

    async def fork(self, session: AdapterSession, source_id: str) -> None:
        await self._open_thread(session, "thread/fork", {"threadId": source_id, "excludeTurns": True})
        session.id = session.state.id

    async def close_session(self, session: AdapterSession) -> None:
        thread: CodexThread | None = session.state
        if thread is None:
            return
        session.state = None
        for thread_id in [id for id, owner in self._threads.items() if owner is thread]:
            del self._threads[thread_id]
        await thread.close()
        if not thread.server.is_running:
            return
        try:
            # Commands in the background belong to the session; no client sees them after it.
            await thread.server.request("thread/backgroundTerminals/clean", {"threadId": thread.id}, _CLOSE_SECONDS)
            await thread.server.request("thread/unsubscribe", {"threadId": thread.id}, _CLOSE_SECONDS)
        except (AdapterError, TimeoutError) as error:
            _log.debug("a thread of codex was not closed: %s", error)

    async def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    async def sessions(self, cwd: str | None, cursor: str | None) -> WrappedSessionPage:
        params: dict[str, Any] = {"limit": _PAGE, "sortKey": "updated_at", "modelProviders": []}
        if cwd is not None:
            params["cwd"] = cwd
        if cursor is not None:
            params["cursor"] = cursor
        try:
            page = await (await self._running()).request("thread/list", params)
        except CodexRefused as error:
            if cursor is None:
                raise
            raise RequestError.invalid_params(str(error), path="$.cursor") from error
        rows = page.get("data")
        found = [_info(row) for row in (rows if isinstance(rows, list) else ()) if isinstance(row, dict)]
        following = page.get("nextCursor")
        return WrappedSessionPage(tuple(found), following if isinstance(following, str) else None)

    async def history(self, session: AdapterSession) -> AsyncIterator[UIMessage]:
        from dragoman.adapters.codex.history import messages_of

        thread: CodexThread = session.state
        async for turn in _turns(thread):
            for message in messages_of(turn):
                yield message

    async def delete(self, session_id: str) -> None:
        server = await self._running()
        try:
            await server.request("thread/delete", {"threadId": session_id})
        except CodexRefused as refused:
            if _is_unknown(refused):
                return
            # Codex keeps a thread that a fork was made of; archived, it is listed no more.
            try:
                await server.request("thread/archive", {"threadId": session_id})
            except CodexRefused as error:
                if not _is_unknown(error):
                    raise AdapterError(f"Codex did not delete the session: {refused}") from error

    # Settings

    def settings(self, session: AdapterSession) -> Sequence[Setting]:
        from dragoman.adapters.codex.choices import settings_of

        thread: CodexThread = session.state
        return settings_of(thread.wanted, thread.models)

    async def choose(self, session: AdapterSession, setting_id: str, value: str | bool) -> None:
        from dragoman.adapters.codex.choices import chosen

        thread: CodexThread = session.state
        thread.wanted = chosen(thread.wanted, thread.models, setting_id, value, thread.configured)

    # The program

    async def _open_thread(self, session: AdapterSession, method: str, params: dict[str, Any]) -> None:
        """Open a thread for a session, as its `state`. Raises: AdapterError, RequestError."""
        from dragoman.adapters.codex.prompts import COMMANDS, mcp_config
        from dragoman.adapters.codex.thread import CodexThread

        server = await self._running()
        params = {**params, "cwd": session.cwd}
        config = dict(self._config)
        servers = mcp_config(session.mcp_servers)
        if servers:
            own = config.get("mcp_servers")
            config["mcp_servers"] = {**own, **servers} if isinstance(own, dict) else servers
        if config:
            params["config"] = config
        if len(session.roots) > 1:
            params["runtimeWorkspaceRoots"] = [str(root) for root in session.roots]
        self._opening += 1
        try:
            result = await server.request(method, params)
        except CodexRefused as error:
            if "threadId" in params and _is_unknown(error):
                raise RequestError.not_found("Session not found", {"sessionId": params["threadId"]}) from error
            raise AdapterError(f"Codex did not open the session: {error}") from error
        finally:
            self._opening -= 1
        wanted = session.state.wanted if isinstance(session.state, CodexThread) else None
        thread = CodexThread(session, server, result, self._models, wanted)
        session.state = thread
        session.title = session.title or thread.name or _preview(result.get("thread"))
        session.commands = COMMANDS
        self._threads[thread.id] = thread
        early, self._early = self._early, []
        for message in early:
            self._deliver(message)

    async def _opened_thread(self, session: AdapterSession) -> CodexThread:
        """Return the thread of a session; after a crash it is opened again. Raises: AdapterError, RequestError."""
        thread: CodexThread = session.state
        if thread.server.is_running:
            return thread
        try:
            await self._open_thread(session, "thread/resume", {"threadId": thread.id, "excludeTurns": True})
        except RequestError:
            # Codex writes a thread down with its first prompt, so there is nothing to lose yet.
            await self._open_thread(session, "thread/start", {})
        session.state.notes = thread.notes
        reopened: CodexThread = session.state
        return reopened

    async def _running(self) -> AppServer:
        """Return the program, started if it does not run. Raises: AdapterError."""
        from dragoman.adapters.codex.app_server import AppServer
        from dragoman.adapters.codex.choices import models_of
        from dragoman.adapters.codex.program import find_program

        async with self._starting:
            if self._server is not None and self._server.is_running:
                return self._server
            if self._server is not None:
                await self._server.close()
                self._server = None
            program, env = (self._program, {}) if self._program else find_program()
            server = await AppServer.start([program, "app-server"], env, self._deliver, self._ended)
            try:
                account, models = await asyncio.gather(_asked(server, "account/read"), _asked(server, "model/list"))
                if account.get("requiresOpenaiAuth") is True and account.get("account") is None:
                    raise AdapterError(_LOGIN)
            except BaseException:
                await server.close()
                raise
            self._models = models_of(models)
            self._server = server
            return server

    def _deliver(self, message: Report | CodexQuestion) -> None:
        """Pass a message to the thread that it is about."""
        params = message.params
        about = params.get("thread")
        if isinstance(about, dict):  # `thread/started`: that of a sub-agent names the thread that started it
            parent = self._threads.get(str(about.get("parentThreadId")))
            if parent is not None:
                self._threads.setdefault(str(about.get("id")), parent)
            return
        item = params.get("item")
        owner = self._threads.get(str(params.get("threadId")))
        children = item.get("receiverThreadIds") if isinstance(item, dict) else None
        if owner is not None and isinstance(children, list):
            for child in children:
                self._threads.setdefault(str(child), owner)
        if owner is not None:
            owner.deliver(message)
        elif self._opening and params.get("threadId") is not None:
            self._early.append(message)
        elif isinstance(message, CodexQuestion):
            if self._server is not None:
                self._server.refuse(message.id, "the session of this question is not open")
        elif params.get("threadId") is None:
            for thread in set(self._threads.values()):
                thread.deliver(message)

    def _ended(self, reason: CodexEnded) -> None:
        for thread in set(self._threads.values()):
            thread.end(reason)


async def _asked(server: AppServer, method: str) -> dict[str, Any]:
    """Return the answer to a request that an older version may not know."""
    try:
        return await server.request(method, {})
    except CodexRefused as error:
        _log.debug("codex does not answer %s: %s", method, error)
        return {}


async def _turns(thread: CodexThread) -> AsyncIterator[dict[str, Any]]:
    """Yield the turns of a thread, the oldest first, with all items."""
    params: dict[str, Any] = {"threadId": thread.id, "limit": _PAGE, "sortDirection": "asc", "itemsView": "full"}
    while True:
        try:
            page = await thread.server.request("thread/turns/list", params)
        except CodexRefused as error:
            if "cursor" in params:
                raise
            _log.debug("codex has no pages of turns: %s", error)
            try:
                whole = await thread.server.request("thread/read", {"threadId": thread.id, "includeTurns": True})
            except CodexRefused as refused:  # a thread without a first prompt
                _log.debug("codex has no history: %s", refused)
                return
            read = whole.get("thread")
            page = {"data": read.get("turns") if isinstance(read, dict) else None}
        rows = page.get("data")
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict):
                yield row
        params["cursor"] = page.get("nextCursor")
        if not isinstance(params["cursor"], str):
            return


def _info(row: dict[str, Any]) -> WrappedSessionInfo:
    changed = row.get("updatedAt")
    when = datetime.fromtimestamp(changed, UTC).isoformat() if isinstance(changed, (int, float)) else ""
    title = row.get("name") or _preview(row) or ""
    return WrappedSessionInfo(str(row.get("id")), str(row.get("cwd")), sentence(str(title)), when)


def _preview(thread: Any) -> str | None:
    """Return the first words of a thread, which Codex lists it under."""
    text = thread.get("preview") if isinstance(thread, dict) else None
    return (sentence(text)[:_TITLE_LETTERS].strip() or None) if isinstance(text, str) else None


def _is_unknown(error: CodexRefused) -> bool:
    return any(words in str(error) for words in _UNKNOWN)
