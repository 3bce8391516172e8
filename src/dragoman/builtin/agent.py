"""The built-in agent as an ACP agent: handlers that turn clients' requests into sessions, prompts and settings.

Owns the handlers and which sessions are open. One object serves any number of connections; sessions belong to the
store, not to a connection. `session.py` runs the prompts, `viewer.py` shows them to a client.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from dragoman._version import __version__
from dragoman.agent import Agent
from dragoman.agent.cancellation import complete, was_asked_for
from dragoman.agent.sessions import require_folders
from dragoman.builtin.environment import UserEnvironment
from dragoman.builtin.login import auth_methods
from dragoman.builtin.models.find import WITHOUT_PROVIDER
from dragoman.errors import ConfigError, DragomanError, RequestError, StoreError
from dragoman.policy.modes import MODES
from dragoman.schema import Unknown, v1
from dragoman.text.terminal import sentence

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from msgspec import UnsetType

    from dragoman.agent import AgentSession, Context, Turn
    from dragoman.builtin.environment import UserEnvironment
    from dragoman.builtin.models.refreshed import ModelLists
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.settings import AgentSettings
    from dragoman.builtin.turn import TurnEnd
    from dragoman.builtin.viewer import Viewer
    from dragoman.rpc import Observer, Transport
    from dragoman.schema import v1
    from dragoman.store.sessions import SessionRow, Store
    from dragoman.store.temporary import TemporaryStore

_log = logging.getLogger("dragoman.builtin")

NAME: Final = "dragoman"
STEER: Final = "_dragoman/steer"
FORK: Final = "session/fork"
"""The one unstable method that every client is offered: clients that know it look for its capability."""


class BuiltInAgent:
    """The agent behind `dragoman agent`. Heavy parts are loaded with the first session."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.connections = 0
        self._store: Store | None = None
        self._temporary: TemporaryStore | None = None
        """Takes the place of a store that cannot be written."""
        self._notice: v1.Notice | None = None
        """What the first client is shown about that."""
        self._opening = asyncio.Lock()
        self._sessions: dict[str, OpenSession] = {}
        self.environment = UserEnvironment(settings.config_dir)
        self.models = ModelAccess(settings, self.environment)

    async def disconnected(self) -> None:
        """Release the sessions of a connection that has ended. With the last connection everything is closed."""
        self.connections -= 1
        for session in list(self._sessions.values()):
            if session.viewer is not None and not session.viewer.is_connected:
                await self._release(session)
        if self.connections:
            return
        for session in list(self._sessions.values()):
            await self._close(session)
        await self.models.close()
        store: Store | TemporaryStore | None = self._temporary or self._store
        self._store = self._temporary = None
        if store is not None:
            await store.close()

    async def store(self) -> Store:
        """Return the session store, opened when first needed. Raises: RequestError."""
        from dragoman.store.database import StoreUnwritable
        from dragoman.store.sessions import Store

        async with self._opening:
            if self._store is None:
                try:
                    self._store = await stored(Store.open(self.settings.store), passes=StoreUnwritable)
                except StoreUnwritable as error:
                    self._store = await self._store_without(error)
            return self._store

    async def _store_without(self, error: StoreError) -> Store:
        """Open a store for this run only: work goes on where it cannot be kept. Raises: RequestError."""
        from dragoman.store.temporary import TemporaryStore

        self._temporary = await stored(TemporaryStore.open())
        _log.warning("sessions are not stored: %s", error)
        self._notice = v1.Notice("warning", "Sessions are not stored", f"They end with the agent: {error}")
        return self._temporary.store

    # Sessions

    async def new_session(self, params: v1.NewSessionRequest, session: AgentSession) -> v1.NewSessionResponse:
        from dragoman.builtin.context.own_prompt import metadata_of
        from dragoman.builtin.models.choice import DEFAULT_EFFORT
        from dragoman.builtin.viewer import config_options, mode_state
        from dragoman.store.ids import new_id
        from dragoman.store.sessions import SessionRow

        require_folders(params)
        metadata = metadata_of(params.system_prompt)
        model = await self.models.require()
        store = await self.store()
        directories = tuple(params.additional_directories or ())
        row = SessionRow(
            new_id("ses"), NAME, params.cwd, directories, mode=self.settings.mode, model=model, effort=DEFAULT_EFFORT
        )
        row = await stored(store.create_session(replace(row, metadata=metadata)))
        open_session = await self._attach(row, session, params.meta)
        if open_session.model.introduction:
            text = v1.TextContent(open_session.model.introduction)
            session.update_when_open(v1.AgentMessageChunk(text, new_id("msg")))
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
            parent = await stored(OpenSession.open(self.settings, await self.store(), source, self.environment))
        row = await stored(fork(parent, params))
        open_session = await self._attach(row, session, params.meta, params.system_prompt)
        return v1.ForkSessionResponse(row.id, mode_state(open_session), config_options(open_session))

    async def load_session(self, params: v1.LoadSessionRequest, session: AgentSession) -> v1.LoadSessionResponse:
        from dragoman.builtin.viewer import config_options, mode_state, turn_state

        row = await self._row(params.session_id)
        open_session = await self._attach(row, session, params.meta, params.system_prompt, repeats_history=True)
        return v1.LoadSessionResponse(mode_state(open_session), config_options(open_session), turn_state(open_session))

    async def resume_session(self, params: v1.ResumeSessionRequest, session: AgentSession) -> v1.ResumeSessionResponse:
        """Attach without the history. A running turn is shown from its beginning, after the response (rule 112)."""
        from dragoman.builtin.viewer import config_options, mode_state, turn_state

        open_session = await self._attach(
            await self._row(params.session_id), session, params.meta, params.system_prompt
        )
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
            raise to_request_error(error) from error
        return v1.ListSessionsResponse(
            [
                v1.SessionInfo(
                    row.id, row.cwd, list(row.directories) or UNSET, sentence(row.title or "") or UNSET, row.updated_at
                )
                for row in page.sessions
            ],
            page.next_cursor or UNSET,
        )

    async def close_session(self, params: v1.CloseSessionRequest, session: AgentSession) -> None:
        open_session = self._sessions.get(session.id)
        if open_session is not None and open_session.viewer is not None and open_session.viewer.session is session:
            if open_session.prompts:  # of the client before, if this one took the session over (rule 116)
                await asyncio.wait(open_session.prompts)
            await self._release(open_session)

    async def delete_session(self, params: v1.DeleteSessionRequest, context: Context) -> None:
        from dragoman.builtin.output_files import delete_outputs

        store = await self.store()
        await stored(store.require_free(params.session_id))  # before its clients here lose it
        open_session = self._sessions.get(params.session_id)
        if open_session is not None:
            await self._close(open_session)
        await stored(store.delete_session(params.session_id))
        if self._temporary is None:  # a temporary store does not know the sessions whose outputs are there
            await stored(delete_outputs(self.settings.store, store))

    # Settings

    async def set_mode(self, params: v1.SetSessionModeRequest, session: AgentSession) -> None:
        await stored(self._viewer(session).open_session.choose(mode=params.mode_id, is_answered=True))

    async def set_config_option(
        self, params: v1.SetSessionConfigOptionRequest, session: AgentSession
    ) -> v1.SetSessionConfigOptionResponse:
        """Set an option of the session.

        Any `PROVIDER:MODEL` is accepted as a model, and then listed. The effort levels follow the model.
        """
        from dragoman.builtin.viewer import config_options

        open_session = self._viewer(session).open_session
        if params.config_id == "model":
            await self.models.check(str(params.value))
        await stored(open_session.choose(is_answered=True, **{params.config_id: params.value}))
        return v1.SetSessionConfigOptionResponse(config_options(open_session))

    async def set_title(self, params: v1.SetSessionTitleRequest, context: Context) -> v1.SetSessionTitleResponse:
        from dragoman.builtin.context.titles import titled_by_user

        title = sentence(params.title)
        if not title:
            raise RequestError.invalid_params("title must not be empty", path="$.title")
        row = await self._row(params.session_id)
        open_session = self._sessions.get(row.id)
        metadata = titled_by_user(row.metadata)
        if open_session is None:
            await stored((await self.store()).update_session(row.id, title=title, metadata=metadata))
        else:
            await stored(open_session.rename(title, metadata=metadata))
        return v1.SetSessionTitleResponse(title)

    # Turns

    async def prompt(self, turn: Turn) -> v1.PromptResponse:
        from dragoman.builtin.access import ClientAccess
        from dragoman.builtin.context.titles import settle_title
        from dragoman.builtin.queued_prompt import QueuedPrompt
        from dragoman.builtin.turn import trace_of
        from dragoman.builtin.usage import meta_usage, protocol_usage
        from dragoman.uistream.content import parts_of

        viewer = self._viewer(turn.session)
        _check_prompt(turn.prompt)
        session = viewer.open_session
        trace = trace_of(turn.meta)
        prompt = QueuedPrompt(parts_of(turn.prompt), viewer, ClientAccess(turn, viewer.local_access, viewer), trace)
        if trace:
            prompt.metadata["trace"] = trace
        end = await stored(_wait_for(session.submit(prompt), viewer))
        if prompt.is_for_model and session.row.title is None:
            await stored(settle_title(session, prompt.parts))
        if end.error is not None:
            raise to_request_error(end.error, session.model_name) from end.error
        reported: dict[str, Any] = {}
        if prompt.is_for_model and session.model.is_scripted:
            reported["scripted"] = True
        if end.usage is not None:
            reported["usage"] = meta_usage(end.usage, session.usage.spent)
        usage = protocol_usage(end.usage) if end.usage is not None and self.settings.unstable else UNSET
        meta = {**trace, **({"dragoman": reported} if reported else {})}
        # The client that saw the end of the turn; another one may have taken the session over.
        seen_by = session.viewer or viewer
        return v1.PromptResponse(seen_by.stop_reason(end), usage, meta or UNSET)

    async def steer(self, params: Any, context: Context) -> dict[str, bool]:
        """Pass text to a running turn: `{"sessionId", "text"}` -> `{"accepted"}`."""
        members = params if isinstance(params, dict) else {}
        session_id, text = members.get("sessionId", members.get("session_id")), members.get("text")
        if not isinstance(text, str) or not text:
            raise RequestError.invalid_params("text must be a non-empty string", path="$.text")
        open_session = self._sessions.get(str(session_id))
        if open_session is None:
            raise RequestError.not_found("Session not found", {"sessionId": session_id})
        return {"accepted": open_session.steer(text)}

    # Open sessions and their clients

    def _viewer(self, session: AgentSession) -> Viewer:
        """Raises: RequestError if another client has deleted the session, or taken it over, in the meantime."""
        open_session = self._sessions.get(session.id)
        viewer = None if open_session is None else open_session.viewer
        if viewer is None:
            raise RequestError.not_found("Session not found", {"sessionId": session.id})
        if viewer.session is not session:
            why = "Session not found: another client has taken it over; load it to take it back"
            raise RequestError.not_found(why, {"sessionId": session.id})
        return viewer

    async def _row(self, session_id: str) -> SessionRow:
        await self.models.require()
        store = await self.store()
        row: SessionRow | None = await stored(store.session(session_id))
        if row is None or row.child_of is not None:  # that of a subagent is continued by its parent only
            raise RequestError.not_found("Session not found")
        return row

    async def _attach(
        self,
        row: SessionRow,
        session: AgentSession,
        meta: Any,
        system_prompt: v1.SystemPrompt | UnsetType | None = UNSET,
        *,
        repeats_history: bool = False,
    ) -> OpenSession:
        """Open the session, if it is not open, and make this client the one of the session."""
        from dragoman.builtin.context.commands import commands_update
        from dragoman.builtin.context.own_prompt import metadata_of
        from dragoman.builtin.session import OpenSession
        from dragoman.builtin.viewer import ASKS_ABOUT, read_client_rules

        metadata = metadata_of(system_prompt)
        session.extra[ASKS_ABOUT] = read_client_rules(meta)
        self.environment.begin()
        open_session: OpenSession | None = None
        # Again if the client before has left meanwhile, which closes its session.
        while open_session is None or open_session.is_closed:
            if row.id not in self._sessions:
                opened = await stored(OpenSession.open(self.settings, await self.store(), row, self.environment))
                opened.model_lists = self.models.lists(opened.model_name, self._show_options)
                self._sessions.setdefault(row.id, opened)
            open_session = self._sessions[row.id]
            if metadata:
                await stored(open_session.set(metadata={**open_session.row.metadata, **metadata}))
            if repeats_history:
                await stored(open_session.read_past())  # so that the first prompt, which often follows, need not
        viewer = await open_session.attach(session)
        await viewer.join(repeats_history=repeats_history)
        if repeats_history:
            await open_session.prepare_conversation()
        commands = commands_update(open_session.commands)
        if repeats_history:
            # With the history: a client that builds its view from what comes before the response has them then.
            if open_session.row.title:
                await viewer.show(v1.SessionInfoUpdate(sentence(open_session.row.title), open_session.row.updated_at))
            await viewer.show(commands)
            await stored(open_session.subagents.replay(viewer))
        else:
            session.update_when_open(commands)  # the client does not know the session before (rules 102, 268)
            if open_session.past.until is not None:
                open_session.read_soon(session)
        notice, self._notice = self._notice, None
        if notice is not None:
            session.update_when_open(viewer.form_of(notice))
        return open_session

    async def _release(self, session: OpenSession) -> None:
        """Take a session from a client that has left, and close it unless a turn is running."""
        session.viewer = None
        if session.turn is None:
            await self._close(session)

    async def _close(self, session: OpenSession) -> None:
        self._sessions.pop(session.row.id, None)
        await session.close()

    async def _show_options(self) -> None:
        for session in tuple(self._sessions.values()):
            if session.viewer is not None:
                await session.viewer.show_options()


class _CountingAgent(Agent):
    """An agent that counts its connections, so that sessions are closed after the last one."""

    def __init__(self, built_in: BuiltInAgent, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._built_in = built_in

    async def _serve_connection(self, transport: Transport, observers: Sequence[Observer]) -> None:
        self._built_in.connections += 1
        try:
            await super()._serve_connection(transport, observers)
        finally:
            # Nothing of a connection outlives the task that served it, also if that is cancelled meanwhile.
            if await complete(asyncio.ensure_future(self._built_in.disconnected())):
                raise asyncio.CancelledError


def build_agent(settings: AgentSettings) -> Agent:
    """Return the agent, ready to `run()`."""
    built_in = BuiltInAgent(settings)
    described: dict[str, Any] = {"modes": list(MODES), "steer": STEER}
    if (settings.model or "").partition(":")[0] in WITHOUT_PROVIDER:
        described["scripted"] = True
    methods = auth_methods(settings.model)
    agent = _CountingAgent(
        built_in,
        NAME,
        version=__version__,
        title="Dragoman",
        unstable=settings.unstable or (FORK,),
        overlapping_prompts="overlap",
        auth_methods=methods,
        meta={"dragoman": described},
        error_details=True,
    )
    if methods:
        agent.authenticate(built_in.models.authenticate)
    agent.new_session(
        mcp=("http", "sse"), additional_directories=True, system_prompt="override" if settings.unstable else None
    )(built_in.new_session)
    agent.load_session(built_in.load_session)
    agent.resume_session(built_in.resume_session)
    agent.list_sessions(built_in.list_sessions)
    agent.close_session(built_in.close_session)
    agent.delete_session(built_in.delete_session)
    agent.set_mode(built_in.set_mode)
    agent.set_config_option(built_in.set_config_option, open_options=("model",))
    agent.prompt(accepts=("image", "embedded_context"))(built_in.prompt)
    agent.request(STEER)(built_in.steer)
    agent.fork_session(built_in.fork_session)
    if settings.unstable:
        from dragoman.builtin.provider_setup import ProviderSetup

        ProviderSetup(settings, built_in.environment).register(agent)
        agent.set_session_title(built_in.set_title)
    return agent


def _check_prompt(blocks: Sequence[v1.ContentBlock]) -> None:
    """Raises: RequestError -32602 for a prompt that would be answered without a part of it, or is empty."""
    for index, block in enumerate(blocks):
        if isinstance(block, Unknown):
            why = f"A block of the type {block.tag!r} cannot be read; send text, image, resource_link or resource"
            raise RequestError.invalid_params(why, path=f"$.prompt[{index}].type")
    if not any(not isinstance(block, v1.TextContent) or block.text.strip() for block in blocks):
        raise RequestError.invalid_params("The prompt is empty; write what the agent is to do", path="$.prompt")


async def _wait_for(running: asyncio.Task[TurnEnd], viewer: Viewer) -> TurnEnd:
    """Wait for a prompt. A client that cancels or leaves ends it, unless it left after another one took its session."""
    from dragoman.builtin.turn import TurnEnd

    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if not was_asked_for():
            if viewer.open_session.is_closed:
                why = "the session was closed before the turn of this prompt began; open it again"
                raise SessionClosed(why) from None
            return TurnEnd("", was_cancelled=True)  # withdrawn by the client that took the session over
        if viewer.is_replaced and not viewer.is_connected:
            raise
        if not running.cancelling():  # a second cancellation would interrupt its clean-up
            running.cancel()
        await asyncio.wait({running})
        raise


class ModelAccess:
    """Which model a session may use: keys, model names, and the lists of the providers."""

    def __init__(self, settings: AgentSettings, environment: UserEnvironment) -> None:
        self._settings = settings
        self._environment = environment
        self._lists: ModelLists | None = None

    async def close(self) -> None:
        """Stop to refresh the lists of the providers."""
        if self._lists is not None:
            await self._lists.close()

    async def require(self) -> str:
        """Return the model of new sessions.

        Raises: RequestError, with code -32000 and what to set if a key is missing.
        """
        from dragoman.builtin.login import usable_model
        from dragoman.builtin.models.choice import check_model

        env = self._environment.models
        await self._environment.reread_keys()
        try:
            name = usable_model(self._settings.model, env)
        except RequestError:
            # A graphical editor may have started the agent without the user's keys.
            await self._environment.ready()
            name = usable_model(self._settings.model, env)
        try:
            check_model(name, env)
        except ConfigError as error:
            raise RequestError.invalid_params(str(error)) from error
        return name

    async def check(self, name: str) -> None:
        """Raises: RequestError -32602 with near names for a model that does not exist, -32000 for a missing key."""
        from dragoman.builtin.login import usable_model
        from dragoman.builtin.models.choice import check_model

        env = self._environment.models
        await self._environment.reread_keys()
        try:
            check_model(name, env, None if self._lists is None else self._lists.listed(name))
        except ConfigError as error:
            raise RequestError.invalid_params(str(error), path="$.value") from error
        usable_model(name, env)

    def lists(self, model: str, show: Callable[[], Awaitable[None]]) -> ModelLists:
        """Return the lists of the providers, which begin to be refreshed with the first session."""
        from dragoman.builtin.models.refreshed import ModelLists

        if self._lists is None:
            self._lists = ModelLists(self._settings.model_lists, self._environment.models)
        self._lists.begin(model, show)
        return self._lists

    async def authenticate(self, params: v1.AuthenticateRequest, context: Context) -> None:
        """Take the key that the client passes, or look for one: in the environment, and among the stored keys."""
        from dragoman.builtin.login import require_key, take_key

        env = self._environment.models
        await self._environment.ready()
        await self._environment.reread_keys()
        if not await asyncio.to_thread(take_key, params, self._settings.model, env):
            require_key(params.method_id, self._settings.model, env)


HTTP_NOT_FOUND: Final = 404


class SessionClosed(DragomanError):
    """The session was closed, or deleted by another client, while a prompt waited."""


async def stored(work: Any, *, passes: type[Exception] | tuple[()] = ()) -> Any:
    """Await work that uses the store, and return its result.

    Raises: RequestError, with what is wrong with the store; `passes`.
    """
    try:
        return await work
    except passes:
        raise
    except (StoreError, SessionClosed) as error:
        raise to_request_error(error) from error


def to_request_error(error: Exception, model: str = "") -> RequestError:
    """Return the error response for a failure: its own text if that is written for users."""
    from dragoman.builtin.login import refused_key
    from dragoman.builtin.models.model import ModelAuthError, ModelError

    if isinstance(error, ModelAuthError):
        return refused_key(error, model)
    if isinstance(error, ModelError) and error.status == HTTP_NOT_FOUND:
        from dragoman.builtin.models.choice import advice_for

        return RequestError(-32603, f"{str(error).rstrip('.')}. {advice_for(model, os.environ)}")
    if isinstance(error, DragomanError):
        return RequestError(-32603, str(error))
    return RequestError.internal_error()
