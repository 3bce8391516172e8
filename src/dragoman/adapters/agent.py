"""An adapter as an ACP agent: handlers that turn clients' requests into sessions and turns of the adapter.

Owns the handlers, which of them are registered (what the adapter has is what clients are offered), the open sessions
and the store. `turn.py` runs prompts, `adapter.py` is what adapters implement.
"""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import UNSET

from dragoman.adapters.adapter import has_feature, keeps_sessions
from dragoman.adapters.values import AdapterError, config_options_of, modes_of
from dragoman.agent import Agent
from dragoman.agent.cancellation import complete
from dragoman.agent.sessions import require_folders
from dragoman.errors import DragomanError, RequestError, StoreError
from dragoman.schema import Unknown, v1

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from dragoman.adapters.adapter import Adapter
    from dragoman.adapters.session import AdapterSession, How
    from dragoman.agent import AgentSession, Context, Turn
    from dragoman.rpc import Observer, Transport
    from dragoman.store.sessions import SessionRow, Store
    from dragoman.store.temporary import TemporaryStore

_log = logging.getLogger("dragoman.adapters")

T = TypeVar("T")

STEER: Final = "_dragoman/steer"
FORK: Final = "session/fork"
_KEY: Final = "adapter"
_TITLE_LETTERS: Final = 80
# Updates of the past that are sent before others get a turn.
_TOGETHER: Final = 64


class AdapterAgent(Agent):
    """An agent that serves an adapter. `run()` it on stdio, or `serve()` it like any agent.

    Args:
        adapter: what answers the prompts.
        store: the file that keeps the sessions, for adapters without sessions of their own. By default one below the
            user's data folder, named after the adapter. False: sessions are not kept, and end with the agent.
    """

    def __init__(self, adapter: Adapter, *, store: str | Path | bool = True) -> None:
        title = adapter.title
        own_meta: dict[str, Any] = {"adapter": type(adapter).__name__}
        if has_feature(adapter, "steer"):
            own_meta["steer"] = STEER
        super().__init__(
            adapter.name,
            version=adapter.version,
            title=title,
            unstable=(FORK,) if has_feature(adapter, "fork") else False,
            overlapping_prompts="queue",
            meta={"dragoman": own_meta},
            error_details=True,
        )
        self.adapter = adapter
        self._file = _store_file(adapter.name, store)
        self._store: Store | None = None
        self._temporary: TemporaryStore | None = None
        self._notice: v1.Notice | None = None
        self._opening = asyncio.Lock()
        self._sessions: dict[str, AdapterSession] = {}
        self._connections = 0
        self._register(keeps=store is not False)

    def _register(self, *, keeps: bool) -> None:
        adapter = self.adapter
        self.new_session(mcp=tuple(adapter.mcp), additional_directories=True)(self._new)
        self.prompt(accepts=tuple(adapter.accepts))(self._prompt)
        self.close_session(self._close)
        owns = keeps_sessions(adapter)
        if has_feature(adapter, "history") or (keeps and not owns):
            self.load_session(self._load)
            self.resume_session(self._resume)
        if has_feature(adapter, "sessions") or (keeps and not owns):
            self.list_sessions(self._list)
        if has_feature(adapter, "delete") or (keeps and not owns):
            self.delete_session(self._delete)
        if has_feature(adapter, "settings"):
            self.set_mode(self._set_mode)
            self.set_config_option(self._set_option)
        if has_feature(adapter, "steer"):
            self.request(STEER)(self._steer)
        if has_feature(adapter, "fork"):
            self.fork_session(self._fork)

    # Sessions

    async def _new(self, params: v1.NewSessionRequest, session: AgentSession) -> v1.NewSessionResponse:
        require_folders(params)
        own = await self._open(session, session.id, "new")
        return v1.NewSessionResponse(own.id, modes_of(own.settings), config_options_of(own.settings))

    async def _fork(self, params: v1.ForkSessionRequest, session: AgentSession) -> v1.ForkSessionResponse:
        own = await self._open(session, session.id, "fork", source_id=params.session_id)
        return v1.ForkSessionResponse(own.id, modes_of(own.settings), config_options_of(own.settings))

    async def _load(self, params: v1.LoadSessionRequest, session: AgentSession) -> v1.LoadSessionResponse:
        own = await self._open(session, params.session_id, "load")
        await self._repeat(own, session)
        return v1.LoadSessionResponse(modes_of(own.settings), config_options_of(own.settings))

    async def _resume(self, params: v1.ResumeSessionRequest, session: AgentSession) -> v1.ResumeSessionResponse:
        own = await self._open(session, params.session_id, "resume")
        return v1.ResumeSessionResponse(modes_of(own.settings), config_options_of(own.settings))

    async def _open(
        self, session: AgentSession, session_id: str, how: How, *, source_id: str | None = None
    ) -> AdapterSession:
        from dragoman.adapters.session import AdapterSession

        store = None if keeps_sessions(self.adapter) else await self._opened_store()
        row = None if store is None else await self._row(store, session, session_id, how)
        known = self._sessions.get(session_id)
        if known is not None and known.running is not None:
            raise RequestError.invalid_request("A prompt is running in this session")
        if known is not None:
            await self._end(known)
        own = AdapterSession(session, session_id if row is None else row.id, how, store)
        if row is not None:
            own.metadata, own.title = dict(row.metadata), row.title
        await _reported(self.adapter.open(own) if source_id is None else self.adapter.fork(own, source_id))
        if has_feature(self.adapter, "settings"):
            own.settings = tuple(self.adapter.settings(own))
        self._sessions[own.id] = own
        session.extra[_KEY] = own
        self._greet(own, session)
        return own

    async def _row(self, store: Store, session: AgentSession, session_id: str, how: How) -> SessionRow:
        """Return the stored session, a new one for `session/new`. Raises: RequestError."""
        from dragoman.adapters.recover import end_left_turn
        from dragoman.store.ids import new_id
        from dragoman.store.sessions import SessionRow

        if how == "new":
            row = SessionRow(new_id("ses"), self.adapter.name, session.cwd, session.additional_directories)
            return await _reported(store.create_session(row))
        found = await _reported(store.session(session_id))
        if found is None:
            raise RequestError.not_found("Session not found", {"sessionId": session_id})
        await _reported(end_left_turn(store, session_id))
        return found

    def _greet(self, adapter_session: AdapterSession, session: AgentSession) -> None:
        """Send what the client is shown once the session is open."""
        from dragoman.adapters.shown import form_of

        if adapter_session.commands:
            listed = [v1.AvailableCommand(name, description) for name, description in adapter_session.commands]
            session.update_when_open(v1.AvailableCommandsUpdate(listed))
        notices = [self._notice] if self._notice is not None else []
        self._notice = None
        if adapter_session.mcp_servers and not self.adapter.takes_mcp_servers:
            names = ", ".join(server.name for server in adapter_session.mcp_servers if not isinstance(server, Unknown))
            notices.append(v1.Notice("warning", "MCP servers are not used", f"{self.info.name} cannot use: {names}"))
        for notice in notices:
            session.update_when_open(form_of(session, notice))

    async def _repeat(self, adapter_session: AdapterSession, session: AgentSession) -> None:
        """Show the history (rule 107)."""
        from dragoman.adapters.shown import stored_updates
        from dragoman.adapters.turn import read_messages

        updates: list[v1.SessionUpdate] = []
        if has_feature(self.adapter, "history"):
            async for message in self.adapter.history(adapter_session):
                updates += stored_updates(message, session.client)
                if len(updates) >= _TOGETHER:
                    await session.update_all(updates)
                    updates.clear()
        elif self._store is not None:
            for message in await _reported(read_messages(adapter_session, self._store)):
                updates += stored_updates(message, session.client)
                if len(updates) >= _TOGETHER:
                    await session.update_all(updates)
                    updates.clear()
        if adapter_session.title:
            updates.append(v1.SessionInfoUpdate(title=adapter_session.title))
        await session.update_all(updates)

    async def _list(self, params: v1.ListSessionsRequest, context: Context) -> v1.ListSessionsResponse:
        cwd, cursor = params.cwd or None, params.cursor or None
        if has_feature(self.adapter, "sessions"):
            found = await _reported(self.adapter.sessions(cwd, cursor))
            rows = [
                v1.SessionInfo(session.id, session.cwd, UNSET, session.title or UNSET, session.updated_at)
                for session in found.sessions
            ]
            return v1.ListSessionsResponse(rows, found.next_cursor or UNSET)
        store = await self._opened_store()
        try:
            page = await store.sessions(cwd=cwd, cursor=cursor)
        except StoreError as error:
            if cursor:
                raise RequestError.invalid_params(str(error), path="$.cursor") from error
            raise RequestError.internal_error(str(error)) from error
        rows = [
            v1.SessionInfo(row.id, row.cwd, list(row.directories) or UNSET, row.title or UNSET, row.updated_at)
            for row in page.sessions
        ]
        return v1.ListSessionsResponse(rows, page.next_cursor or UNSET)

    async def _delete(self, params: v1.DeleteSessionRequest, context: Context) -> None:
        known = self._sessions.get(params.session_id)
        if known is not None:
            await self._end(known)
        if has_feature(self.adapter, "delete"):
            await _reported(self.adapter.delete(params.session_id))
        if not keeps_sessions(self.adapter):
            await _reported((await self._opened_store()).delete_session(params.session_id))

    async def _close(self, params: v1.CloseSessionRequest, session: AgentSession) -> None:
        own = session.extra.get(_KEY)
        if own is not None:
            await self._end(own)

    async def _end(self, adapter_session: AdapterSession) -> None:
        if self._sessions.get(adapter_session.id) is adapter_session:
            del self._sessions[adapter_session.id]
        if adapter_session.running is not None:
            adapter_session.running.cancel()
            await asyncio.wait({adapter_session.running}, timeout=1)
        await _reported(self.adapter.close_session(adapter_session))

    # Settings

    async def _set_mode(self, params: v1.SetSessionModeRequest, session: AgentSession) -> None:
        own = _adapter_session(session)
        setting = next((setting for setting in own.settings if setting.category == "mode"), None)
        if setting is not None:
            await self._choose(own, setting.id, params.mode_id)

    async def _set_option(
        self, params: v1.SetSessionConfigOptionRequest, session: AgentSession
    ) -> v1.SetSessionConfigOptionResponse:
        own = _adapter_session(session)
        await self._choose(own, params.config_id, params.value)
        return v1.SetSessionConfigOptionResponse(config_options_of(own.settings) or [])

    async def _choose(self, adapter_session: AdapterSession, setting_id: str, value: str | bool) -> None:
        await _reported(self.adapter.choose(adapter_session, setting_id, value))
        adapter_session._set(setting_id, value)
        settings = tuple(self.adapter.settings(adapter_session))
        if settings != adapter_session.settings:  # the choice has changed others
            await adapter_session.offer(settings)

    # Turns

    async def _prompt(self, turn: Turn) -> v1.PromptResponse:
        from dragoman.adapters.turn import explained, run_turn

        own = _adapter_session(turn.session)
        _check_prompt(turn.prompt)
        store = None if keeps_sessions(self.adapter) else self._store
        outcome = await _reported(run_turn(self.adapter, own, turn, store))
        if store is not None and own.title is None:
            await self._settle_title(own, turn)
        if outcome.error is not None:
            raise RequestError.internal_error(explained(self.adapter, outcome.error)) from outcome.error
        return v1.PromptResponse(outcome.stop_reason)

    async def _settle_title(self, adapter_session: AdapterSession, turn: Turn) -> None:
        from dragoman.text.terminal import sentence

        title = sentence(turn.text)[:_TITLE_LETTERS].strip()
        if title:
            await _reported(adapter_session.rename(title))

    async def _steer(self, params: Any, context: Context) -> dict[str, bool]:
        """Pass text to a running turn: `{"sessionId", "text"}` -> `{"accepted"}`."""
        given = params if isinstance(params, dict) else {}
        session_id, text = given.get("sessionId", given.get("session_id")), given.get("text")
        if not isinstance(text, str) or not text:
            raise RequestError.invalid_params("text must be a non-empty string", path="$.text")
        own = self._sessions.get(str(session_id))
        if own is None:
            raise RequestError.not_found("Session not found", {"sessionId": session_id})
        if own.running is None:
            return {"accepted": False}
        return {"accepted": await _reported(self.adapter.steer(own, text))}

    # The store and the connections

    async def _opened_store(self) -> Store:
        """Return the session store, opened when first needed. Raises: RequestError."""
        from dragoman.store.database import StoreUnwritable
        from dragoman.store.sessions import Store
        from dragoman.store.temporary import TemporaryStore

        async with self._opening:
            if self._store is None and self._file is not None:
                try:
                    self._store = await Store.open(self._file)
                except StoreUnwritable as error:
                    _log.warning("sessions are not stored: %s", error)
                    self._notice = v1.Notice("warning", "Sessions are not stored", f"They end with the agent: {error}")
                except StoreError as error:
                    raise RequestError.internal_error(str(error)) from error
            if self._store is None:
                self._temporary = await _reported(TemporaryStore.open())
                self._store = self._temporary.store
            return self._store

    async def _serve_connection(self, transport: Transport, observers: Sequence[Observer]) -> None:
        self._connections += 1
        try:
            await super()._serve_connection(transport, observers)
        finally:
            # Nothing of a connection outlives the task that served it.
            if await complete(asyncio.ensure_future(self._disconnected())):
                raise asyncio.CancelledError

    async def _disconnected(self) -> None:
        """Close the sessions of a connection that has ended, and everything else with the last one."""
        self._connections -= 1
        leaving = [own for own in self._sessions.values() if not own.is_connected]
        for failure in await asyncio.gather(*(self._end(own) for own in leaving), return_exceptions=True):
            if failure is not None:
                _log.warning("a session was not closed: %s", failure)
        if self._connections:
            return
        await self.adapter.close()
        store: Store | TemporaryStore | None = self._temporary or self._store
        self._store = self._temporary = None
        if store is not None:
            await store.close()


def _adapter_session(session: AgentSession) -> AdapterSession:
    own: AdapterSession | None = session.extra.get(_KEY)
    if own is None:
        raise RequestError.not_found("Session not found", {"sessionId": session.id})
    return own


async def _reported(work: Awaitable[T]) -> T:
    """Return the result of work of the adapter or the store. Raises: RequestError with the text for the user."""
    try:
        return await work
    except RequestError:
        raise
    except (AdapterError, StoreError) as error:
        raise RequestError.internal_error(str(error)) from error
    except DragomanError as error:
        raise RequestError.internal_error(str(error)) from error


def _store_file(name: str, store: str | Path | bool) -> Path | None:
    from dragoman.settings.places import data_dir

    if store is False:
        return None
    if store is not True:
        return Path(store)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "wrapped"
    return data_dir() / "wrapped" / f"{safe}.db"


def _check_prompt(blocks: Sequence[v1.ContentBlock]) -> None:
    """Raises: RequestError -32602 for a prompt that would be answered without a part of it, or is empty."""
    for index, block in enumerate(blocks):
        if isinstance(block, Unknown):
            why = f"A block of the type {block.tag!r} cannot be read; send text, image, resource_link or resource"
            raise RequestError.invalid_params(why, path=f"$.prompt[{index}].type")
    if not any(not isinstance(block, v1.TextContent) or block.text.strip() for block in blocks):
        raise RequestError.invalid_params("The prompt is empty; write what the agent is to do", path="$.prompt")
