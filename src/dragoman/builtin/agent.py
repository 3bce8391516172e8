"""The built-in agent as an ACP agent: handlers that turn clients' requests into sessions, prompts and settings.

Owns the handlers and which sessions are open. One object serves any number of connections; sessions belong to the
store, not to a connection. `session.py` runs the prompts, `viewer.py` shows them to a client.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from dragoman._version import __version__
from dragoman.agent import Agent
from dragoman.builtin.environment import UserEnvironment
from dragoman.builtin.login import auth_methods
from dragoman.builtin.modes import MODES
from dragoman.errors import ConfigError, DragomanError, RequestError, StoreError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.agent import AgentSession, Context, Turn
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.settings import AgentSettings
    from dragoman.builtin.turn import TurnEnd
    from dragoman.builtin.viewer import Viewer
    from dragoman.rpc import Observer, Transport
    from dragoman.store.sessions import SessionRow, Store

NAME: Final = "dragoman"
STEER: Final = "_dragoman/steer"
SCRIPTED_SOURCES: Final = ("scripted", "cassette")


class BuiltInAgent:
    """The agent behind `dragoman agent`. Heavy parts are loaded with the first session."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.connections = 0
        self._store: Store | None = None
        self._opening = asyncio.Lock()
        self._sessions: dict[str, OpenSession] = {}
        self._environment = UserEnvironment()

    async def disconnected(self) -> None:
        """A connection has ended: detach its viewers. With the last connection everything is closed."""
        self.connections -= 1
        for session in list(self._sessions.values()):
            for viewer in [each for each in session.viewers if not each.session.client.is_connected]:
                await self._detach(viewer)
        if self.connections:
            return
        for session in list(self._sessions.values()):
            await self._close(session)
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    async def store(self) -> Store:
        """The session store, opened when first needed. Raises: RequestError."""
        from dragoman.store.sessions import Store

        async with self._opening:
            if self._store is None:
                self._store = await _stored(Store.open(self.settings.store))
            return self._store

    # Sessions

    async def new_session(self, params: v1.NewSessionRequest, session: AgentSession) -> v1.NewSessionResponse:
        from dragoman.builtin.viewer import DEFAULT_EFFORT, config_options, mode_state
        from dragoman.store.ids import new_id
        from dragoman.store.sessions import SessionRow

        model = await self._require_model()
        store = await self.store()
        directories = tuple(params.additional_directories or ())
        row = SessionRow(
            new_id("ses"), NAME, params.cwd, directories, mode=self.settings.mode, model=model, effort=DEFAULT_EFFORT
        )
        row = await _stored(store.create_session(row))
        open_session = await self._attach(row, session)
        return v1.NewSessionResponse(row.id, mode_state(open_session), config_options(open_session))

    async def fork_session(self, params: v1.ForkSessionRequest, session: AgentSession) -> v1.ForkSessionResponse:
        """Fork without a replay: the client has seen the history, and can load the fork to see it again."""
        from dragoman.builtin.forks import fork
        from dragoman.builtin.session import OpenSession
        from dragoman.builtin.viewer import config_options, mode_state

        source = await self._row(params.session_id)
        parent = self._sessions.get(source.id)
        if parent is None:
            # Opening it ends what a crash left without an end.
            parent = await _stored(OpenSession.open(self.settings, await self.store(), source))
        row = await _stored(fork(parent, params))
        open_session = await self._attach(row, session)
        return v1.ForkSessionResponse(row.id, mode_state(open_session), config_options(open_session))

    async def load_session(self, params: v1.LoadSessionRequest, session: AgentSession) -> v1.LoadSessionResponse:
        from dragoman.builtin.viewer import config_options, mode_state, turn_state

        open_session = await self._attach(await self._row(params.session_id), session, repeats_history=True)
        return v1.LoadSessionResponse(mode_state(open_session), config_options(open_session), turn_state(open_session))

    async def resume_session(self, params: v1.ResumeSessionRequest, session: AgentSession) -> v1.ResumeSessionResponse:
        """Attach without the history. A running turn is shown from its beginning, after the response (rule 112)."""
        from dragoman.builtin.viewer import config_options, mode_state, turn_state

        open_session = await self._attach(await self._row(params.session_id), session)
        return v1.ResumeSessionResponse(
            mode_state(open_session), config_options(open_session), turn_state(open_session)
        )

    async def list_sessions(self, params: v1.ListSessionsRequest, context: Context) -> v1.ListSessionsResponse:
        store = await self.store()
        try:
            page = await store.sessions(cwd=params.cwd or None, cursor=params.cursor or None)
        except StoreError as error:
            if params.cursor:
                raise RequestError.invalid_params(str(error), path="$.cursor") from error
            raise _to_request_error(error) from error
        return v1.ListSessionsResponse(
            [
                v1.SessionInfo(row.id, row.cwd, list(row.directories) or UNSET, row.title or UNSET, row.updated_at)
                for row in page.sessions
            ],
            page.next_cursor or UNSET,
        )

    async def close_session(self, params: v1.CloseSessionRequest, session: AgentSession) -> None:
        open_session = self._sessions.get(session.id)
        viewer = None if open_session is None else open_session.viewer_of(session)
        if viewer is not None:
            await self._detach(viewer)

    async def delete_session(self, params: v1.DeleteSessionRequest, context: Context) -> None:
        store = await self.store()
        open_session = self._sessions.get(params.session_id)
        if open_session is not None:
            await self._close(open_session)
        await _stored(store.delete_session(params.session_id))

    # Settings

    async def set_mode(self, params: v1.SetSessionModeRequest, session: AgentSession) -> None:
        viewer = self._viewer(session)
        await _stored(viewer.open_session.choose(viewer, mode=params.mode_id))

    async def set_config_option(self, params: v1.SetSessionConfigOptionRequest, session: AgentSession) -> None:
        viewer = self._viewer(session)
        await _stored(viewer.open_session.choose(viewer, **{params.config_id: params.value}))

    async def set_title(self, params: v1.SetSessionTitleRequest, context: Context) -> v1.SetSessionTitleResponse:
        from dragoman.builtin.context.titles import titled_by_user

        title = " ".join(params.title.split())
        if not title:
            raise RequestError.invalid_params("title must not be empty", path="$.title")
        row = await self._row(params.session_id)
        open_session = self._sessions.get(row.id)
        metadata = titled_by_user(row.metadata)
        if open_session is None:
            await _stored((await self.store()).update_session(row.id, title=title, metadata=metadata))
        else:
            await _stored(open_session.rename(title, metadata=metadata))
        return v1.SetSessionTitleResponse(title)

    # Turns

    async def prompt(self, turn: Turn) -> v1.PromptResponse:
        from dragoman.builtin.context.titles import settle_title
        from dragoman.builtin.session import QueuedPrompt
        from dragoman.builtin.turn import trace_of
        from dragoman.uistream.content import parts_of

        viewer = self._viewer(turn.session)
        session = viewer.open_session
        trace = trace_of(turn.meta)
        prompt = QueuedPrompt(parts_of(turn.prompt), viewer, viewer.access_for(turn), trace)
        if trace:
            prompt.metadata["trace"] = trace
        end = await _stored(_wait_for(session.submit(prompt), viewer))
        if prompt.is_for_model and session.row.title is None:
            await _stored(settle_title(session, prompt.parts))
        if end.error is not None:
            raise _to_request_error(end.error, session.model_name) from end.error
        meta: dict[str, Any] = {**trace}
        if prompt.is_for_model and session.model.is_scripted:
            meta["dragoman"] = {"scripted": True}
        return v1.PromptResponse(viewer.stop_reason(end), meta=meta or UNSET)

    async def steer(self, params: Any, context: Context) -> dict[str, bool]:
        """Pass text to a running turn: `{"sessionId", "text"}` -> `{"accepted"}`."""
        given = params if isinstance(params, dict) else {}
        session_id, text = given.get("sessionId", given.get("session_id")), given.get("text")
        if not isinstance(text, str) or not text:
            raise RequestError.invalid_params("text must be a non-empty string", path="$.text")
        open_session = self._sessions.get(str(session_id))
        if open_session is None:
            raise RequestError.not_found("Session not found", {"sessionId": session_id})
        return {"accepted": open_session.steer(text)}

    # Open sessions and their viewers

    def _viewer(self, session: AgentSession) -> Viewer:
        """Raises: RequestError if another client has deleted the session in the meantime."""
        open_session = self._sessions.get(session.id)
        viewer = None if open_session is None else open_session.viewer_of(session)
        if viewer is None:
            raise RequestError.not_found("Session not found", {"sessionId": session.id})
        return viewer

    async def _row(self, session_id: str) -> SessionRow:
        await self._require_model()
        store = await self.store()
        row: SessionRow | None = await _stored(store.session(session_id))
        if row is None:
            raise RequestError.not_found("Session not found")
        return row

    async def _attach(self, row: SessionRow, session: AgentSession, *, repeats_history: bool = False) -> OpenSession:
        """Open the session, if it is not open, and attach a client to it."""
        from dragoman.builtin.session import OpenSession

        self._environment.begin()
        if row.id not in self._sessions:
            opened = await _stored(OpenSession.open(self.settings, await self.store(), row, self._environment))
            self._sessions.setdefault(row.id, opened)
        open_session = self._sessions[row.id]
        viewer = await open_session.attach(session)
        await viewer.join(repeats_history=repeats_history)
        return open_session

    async def _detach(self, viewer: Viewer) -> None:
        session = viewer.open_session
        if viewer in session.viewers:
            session.viewers.remove(viewer)
        if not session.viewers and session.turn is None:
            await self._close(session)

    async def _close(self, session: OpenSession) -> None:
        self._sessions.pop(session.row.id, None)
        await session.close()

    # Models and keys

    async def _require_model(self) -> str:
        """The model of new sessions. Raises: RequestError, with code -32000 and what to set if a key is missing."""
        from dragoman.builtin.login import usable_model
        from dragoman.builtin.models.find import find_model

        try:
            name = usable_model(self.settings.model, os.environ)
        except RequestError:
            # A graphical editor may have started the agent without the user's keys.
            await self._environment.ready()
            name = usable_model(self.settings.model, os.environ)
        try:
            find_model(name)
        except ConfigError as error:
            raise RequestError.invalid_params(str(error)) from error
        return name

    async def authenticate(self, params: v1.AuthenticateRequest, context: Context) -> None:
        """Look for a key. One that was set after the agent started cannot be seen."""
        from dragoman.builtin.login import require_key

        await self._environment.ready()
        require_key(params.method_id, os.environ)


class _CountingAgent(Agent):
    """An agent that counts its connections, so that sessions are closed after the last one."""

    def __init__(self, own: BuiltInAgent, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._own = own

    async def serve(self, transport: Transport, *, observers: Sequence[Observer] = ()) -> None:
        self._own.connections += 1
        try:
            await super().serve(transport, observers=observers)
        finally:
            await asyncio.shield(self._own.disconnected())


def build_agent(settings: AgentSettings) -> Agent:
    """Return the agent, ready to `run()`."""
    own = BuiltInAgent(settings)
    own_meta: dict[str, Any] = {"modes": list(MODES), "steer": STEER}
    if (settings.model or "").partition(":")[0] in SCRIPTED_SOURCES:
        own_meta["scripted"] = True
    methods = auth_methods(settings.model)
    agent = _CountingAgent(
        own,
        NAME,
        version=__version__,
        title="Dragoman",
        unstable=settings.unstable,
        overlapping_prompts="overlap",
        auth_methods=methods,
        meta={"dragoman": own_meta},
    )
    if methods:
        agent.authenticate(own.authenticate)
    agent.new_session(mcp=("http", "sse"), additional_directories=True)(own.new_session)
    agent.load_session(own.load_session)
    agent.resume_session(own.resume_session)
    agent.list_sessions(own.list_sessions)
    agent.close_session(own.close_session)
    agent.delete_session(own.delete_session)
    agent.set_mode(own.set_mode)
    agent.set_config_option(own.set_config_option)
    agent.prompt(accepts=("image", "embedded_context"))(own.prompt)
    agent.request(STEER)(own.steer)
    if settings.unstable:
        agent.fork_session(own.fork_session)
        agent.set_session_title(own.set_title)
    return agent


async def _wait_for(running: asyncio.Future[TurnEnd], viewer: Viewer) -> TurnEnd:
    """Wait for a prompt. A client that cancels ends it; one that disconnects does not, while others are attached."""
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        has_left = not viewer.session.client.is_connected
        if has_left and any(other is not viewer for other in viewer.open_session.viewers):
            raise
        running.cancel()
        await asyncio.wait({running})
        raise


async def _stored(work: Any) -> Any:
    """The result of work that uses the store. Raises: RequestError, with what is wrong with the store."""
    try:
        return await work
    except StoreError as error:
        raise _to_request_error(error) from error


def _to_request_error(error: Exception, model: str = "") -> RequestError:
    """The error response for a failure: its own text if that is written for users."""
    from dragoman.builtin.login import refused_key
    from dragoman.builtin.models.model import ModelAuthError

    if isinstance(error, ModelAuthError):
        return refused_key(error, model)
    if isinstance(error, DragomanError):
        return RequestError(-32603, str(error))
    return RequestError.internal_error()
