"""The built-in agent as an ACP agent: requests of clients become sessions, prompts and settings.

Owns the handlers and which sessions are open. One object serves any number of connections; sessions belong to the
store, not to a connection. What a turn does is the loop's business, what a client sees of it the seat's.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from dragoman._version import __version__
from dragoman.agent import Agent
from dragoman.builtin.login import auth_methods
from dragoman.builtin.modes import MODES
from dragoman.builtin.seam import to_core
from dragoman.errors import ConfigError, DragomanError, RequestError, StoreError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.agent import AgentSession, Context, Turn
    from dragoman.builtin.context.commands import Invocation
    from dragoman.builtin.desk import Desk
    from dragoman.builtin.session import TurnEnd
    from dragoman.builtin.settings import Settings
    from dragoman.builtin.viewer import Viewer
    from dragoman.rpc import Observer, Transport
    from dragoman.store.sessions import SessionRow, Store

_log = logging.getLogger("dragoman.builtin")

NAME: Final = "dragoman"
STEER: Final = "_dragoman/steer"
SCRIPTED_SOURCES: Final = ("scripted", "cassette")
EFFORTS: Final = ("low", "medium", "high")
DEFAULT_EFFORT: Final = "medium"
_SEAT: Final = "seat"


class BuiltInAgent:
    """Everything behind `dragoman agent`. Heavy parts are loaded with the first session, not before."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._store: Store | None = None
        self._opening = asyncio.Lock()
        self._desks: dict[str, Desk] = {}
        self._environment: asyncio.Task[None] | None = None
        self.connections = 0

    async def left(self) -> None:
        """A connection is over: its seats are free. With the last one everything is put away."""
        self.connections -= 1
        for desk in list(self._desks.values()):
            for seat in [each for each in desk.seats if not each.session.client.is_connected]:
                await self._stand_up(seat.session)
        if self.connections:
            return
        for desk in list(self._desks.values()):
            await self._clear(desk)
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    async def store(self) -> Store:
        """The sessions' store, opened when first needed. Raises: RequestError."""
        from dragoman.store.sessions import Store

        async with self._opening:
            if self._store is None:
                try:
                    self._store = await Store.open(self.settings.store)
                except StoreError as error:
                    raise _refusal(error) from error
            return self._store

    # Sessions

    async def new_session(self, params: v1.NewSessionRequest, session: AgentSession) -> v1.NewSessionResponse:
        from dragoman.store.ids import new_id
        from dragoman.store.sessions import SessionRow

        model = await self._require_model()
        store = await self.store()
        row = SessionRow(
            new_id("ses"),
            NAME,
            params.cwd,
            tuple(params.additional_directories or ()),
            mode=self.settings.mode,
            model=model,
            effort=DEFAULT_EFFORT,
        )
        row = await self._kept(store.create_session(row))
        seat = await self._sit_down(row, session)
        await seat.join()
        return v1.NewSessionResponse(row.id, modes(seat.desk), options(seat.desk))

    async def fork_session(self, params: v1.ForkSessionRequest, session: AgentSession) -> v1.ForkSessionResponse:
        """Repeats nothing: who forks has seen it, and can load the fork to see it again."""
        from dragoman.builtin.forks import fork

        source = await self._row(params.session_id)
        desk = self._desks.get(source.id)
        host = None if desk is None else desk.host
        row = await self._kept(fork(await self.store(), source if host is None else host.row, host, params))
        seat = await self._sit_down(row, session)
        await seat.join()
        return v1.ForkSessionResponse(row.id, modes(seat.desk), options(seat.desk))

    async def load_session(self, params: v1.LoadSessionRequest, session: AgentSession) -> v1.LoadSessionResponse:
        seat = await self._sit_down(await self._row(params.session_id), session)
        await seat.join(repeats_history=True)
        return v1.LoadSessionResponse(modes(seat.desk), options(seat.desk), turn_state(seat.desk))

    async def resume_session(self, params: v1.ResumeSessionRequest, session: AgentSession) -> v1.ResumeSessionResponse:
        """Nothing of the past, but a running turn is joined from its beginning, after the answer (rule 112)."""
        seat = await self._sit_down(await self._row(params.session_id), session)
        await seat.join()
        return v1.ResumeSessionResponse(modes(seat.desk), options(seat.desk), turn_state(seat.desk))

    async def list_sessions(self, params: v1.ListSessionsRequest, context: Context) -> v1.ListSessionsResponse:
        store = await self.store()
        try:
            page = await store.sessions(cwd=params.cwd or None, cursor=params.cursor or None)
        except StoreError as error:
            raise (
                RequestError.invalid_params(str(error), path="$.cursor") if params.cursor else _refusal(error)
            ) from error
        return v1.ListSessionsResponse(
            [
                v1.SessionInfo(row.id, row.cwd, list(row.directories) or UNSET, row.title or UNSET, row.updated_at)
                for row in page.sessions
            ],
            page.next_cursor or UNSET,
        )

    async def close_session(self, params: v1.CloseSessionRequest, session: AgentSession) -> None:
        await self._stand_up(session)

    async def delete_session(self, params: v1.DeleteSessionRequest, context: Context) -> None:
        store = await self.store()
        desk = self._desks.get(params.session_id)
        if desk is not None:
            await self._clear(desk)
            for seat in list(desk.seats):
                await self._stand_up(seat.session)
        await self._kept(store.delete_session(params.session_id))

    # Settings

    async def set_mode(self, params: v1.SetSessionModeRequest, session: AgentSession) -> None:
        await self._choose(seat_of(session).desk, session, mode=params.mode_id)

    async def set_config_option(self, params: v1.SetSessionConfigOptionRequest, session: AgentSession) -> None:
        await self._choose(seat_of(session).desk, session, **{params.config_id: params.value})

    async def set_title(self, params: v1.SetSessionTitleRequest, context: Context) -> v1.SetSessionTitleResponse:
        from dragoman.builtin.context.titles import titled_by_user

        title = " ".join(params.title.split())
        if not title:
            raise RequestError.invalid_params("A title has to have words", path="$.title")
        row = await self._row(params.session_id)
        desk = self._desks.get(row.id)
        metadata = titled_by_user(row.metadata)
        if desk is None:
            await self._kept((await self.store()).update_session(row.id, title=title, metadata=metadata))
        else:
            await self._kept(desk.rename(title, metadata=metadata))
        return v1.SetSessionTitleResponse(title)

    async def _choose(self, desk: Desk, session: AgentSession | None, **choice: Any) -> None:
        """Keeps the choice and tells the seats, but for the one who chose: that gets an answer."""
        await self._kept(desk.set(**choice))
        desk.warm_up()
        for seat in desk.seats:
            if seat.session is not session:
                await seat.session.config_options(options(desk))

    # Turns

    async def prompt(self, turn: Turn) -> v1.PromptResponse:
        from dragoman.builtin.context.titles import begin_title, settle_title
        from dragoman.builtin.context.trace_context import TRACE, trace_of
        from dragoman.uistream.content import parts_of

        seat = seat_of(turn.session)
        desk = seat.desk
        parts = parts_of(turn.prompt)
        trace = trace_of(turn.meta)
        call = desk.invocation(parts, turn.session)
        is_for_model = call is None or call.prompt is not None
        metadata = {**({TRACE: trace} if trace else {}), **(call.metadata if call else {})}
        running = asyncio.ensure_future(
            desk.host.prompt(
                parts, lambda work: self._prepare(seat, turn, work, trace, None if is_for_model else call), metadata
            )
        )
        desk.turns.add(running)
        running.add_done_callback(desk.turns.discard)
        if is_for_model:
            begin_title(desk, parts)
        end = await self._end_of(running, seat)
        if is_for_model:
            await self._kept(settle_title(desk, parts))
        if end.error is not None:
            raise _refusal(end.error, desk.model_name) from end.error
        meta: dict[str, Any] = {**trace}
        if is_for_model and desk.model.is_scripted:
            meta["dragoman"] = {"scripted": True}
        return v1.PromptResponse(seat.stop_reason(end), meta=meta or UNSET)

    async def _end_of(self, running: asyncio.Future[TurnEnd], seat: Viewer) -> TurnEnd:
        """Waits for a turn. A client that cancels ends it; one that just leaves does not, while others look on."""
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            has_left = not seat.session.client.is_connected
            if has_left and any(other is not seat for other in seat.desk.seats):
                raise
            running.cancel()
            await asyncio.wait({running})
            raise
        except StoreError as error:
            raise _refusal(error) from error

    async def _prepare(
        self, seat: Viewer, turn: Turn, work: Any, trace: Mapping[str, str], own: Invocation | None
    ) -> Any:
        """The others at the desk see what was asked before they see the answer. A command of our `own` is obeyed now,
        when its turn has come."""
        for other in seat.desk.seats:
            if other is not seat:
                await other.hear(seat.desk.host.history[-1])
        if own is not None:
            from dragoman.builtin.context.commands import Spoken, obey

            desk = seat.desk
            words = await obey(own, desk.commands, desk, lambda **choice: self._choose(desk, None, **choice))
            return await seat.prepare(turn, work, trace, Spoken(words))
        if self._environment is not None:
            await self._environment
        if seat.desk.servers is not None:
            await seat.desk.servers.ready()
        return await seat.prepare(turn, work, trace)

    async def steer(self, params: Any, context: Context) -> dict[str, bool]:
        """Words for a running turn: `{"sessionId", "text"}` -> `{"accepted"}`."""
        given = to_core(params) if isinstance(params, dict) else {}
        session_id, text = given.get("session_id"), given.get("text")
        if not isinstance(text, str) or not text:
            raise RequestError.invalid_params("text has to be a text", path="$.text")
        desk = self._desks.get(str(session_id))
        if desk is None:
            raise RequestError.not_found("Session not found", {"sessionId": session_id})
        return {"accepted": desk.host.steer(text)}

    # Desks and seats

    async def _row(self, session_id: str) -> SessionRow:
        await self._require_model()
        store = await self.store()
        row: SessionRow | None = await self._kept(store.session(session_id))
        if row is None:
            raise RequestError.not_found("Session not found")
        return row

    async def _sit_down(self, row: SessionRow, session: AgentSession) -> Viewer:
        """The commands leave after the answer that opens the session (rule 268), whichever that is."""
        from dragoman.builtin.desk import Desk
        from dragoman.builtin.session import Host
        from dragoman.builtin.viewer import Viewer

        desk = self._desks.get(row.id)
        if desk is None:
            store = await self.store()
            desk = Desk(self.settings, store, await self._kept(Host.open(store, row)))
            desk = self._desks.setdefault(row.id, desk)
        # The same client may open a session twice; it has one seat.
        for old in [seat for seat in desk.seats if seat.session.client is session.client]:
            old.close()
            desk.seats.remove(old)
        seat = Viewer(desk, session)
        desk.seats.append(seat)
        session.extra[_SEAT] = seat
        self._recover_environment()
        self._connect_servers(desk, session)
        desk.warm_up()
        await desk.offer_commands(session)
        return seat

    def _recover_environment(self) -> None:
        """An editor with a window may have started us without the user's PATH; commands need it, so it is looked up
        while the session begins."""
        from dragoman.builtin.environment import login_environment, needs_login_environment

        if self._environment is None and needs_login_environment(os.environ):

            async def recover() -> None:
                found = await asyncio.to_thread(login_environment)
                os.environ.update(found or {})

            self._environment = asyncio.ensure_future(recover())

    def _connect_servers(self, desk: Desk, session: AgentSession) -> None:
        """Begins in the background; the session is answered at once, and its first turn waits for the tools."""
        configured = desk.configured_servers(session.cwd)
        if desk.servers is not None or not (session.mcp_servers or configured):
            return
        from dragoman.builtin.mcp.servers import McpServers

        async def notice(title: str, description: str) -> None:
            for seat in tuple(desk.seats):
                await seat.show(v1.Notice("warning", title, description))

        async def environment() -> None:
            if self._environment is not None:
                await self._environment

        desk.servers = McpServers(session.mcp_servers, configured, desk.tools, notice, session.cwd, after=environment)
        desk.servers.start()

    async def _stand_up(self, session: AgentSession) -> None:
        seat = session.extra.pop(_SEAT, None)
        if seat is None:
            return
        seat.close()
        desk = seat.desk
        if seat in desk.seats:
            desk.seats.remove(seat)
        if not desk.seats and not desk.host.is_running:
            await self._clear(desk)

    async def _clear(self, desk: Desk) -> None:
        self._desks.pop(desk.host.row.id, None)
        running: set[asyncio.Future[Any]] = {*desk.turns, *desk.errands}
        for each in running:
            each.cancel()
        if running:
            await asyncio.wait(running)
        if desk.servers is not None:
            await desk.servers.close()
        await desk.close()

    async def _require_model(self) -> str:
        """The model of new sessions. Raises: RequestError, -32000 saying what to set when a key is missing."""
        from dragoman.builtin.login import usable_model
        from dragoman.builtin.models.find import find_model

        try:
            name = usable_model(self.settings.model, os.environ)
        except RequestError:
            # An editor with a window may have kept the user's keys from us.
            await self._whole_environment()
            name = usable_model(self.settings.model, os.environ)
        try:
            find_model(name)
        except ConfigError as error:
            raise RequestError.invalid_params(str(error)) from error
        return name

    async def authenticate(self, params: v1.AuthenticateRequest, context: Context) -> None:
        """Looks for a key; one that was set after the agent had started cannot be seen."""
        from dragoman.builtin.login import require_key

        await self._whole_environment()
        require_key(params.method_id, os.environ)

    async def _whole_environment(self) -> None:
        self._recover_environment()
        if self._environment is not None:
            await self._environment

    async def _kept(self, work: Any) -> Any:
        """The result of a store's work. Raises: RequestError saying what is wrong with the store."""
        try:
            return await work
        except StoreError as error:
            raise _refusal(error) from error


class _Serving(Agent):
    """Tells the built-in agent when a connection is over."""

    def __init__(self, own: BuiltInAgent, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._own = own

    async def serve(self, transport: Transport, *, observers: Sequence[Observer] = ()) -> None:
        self._own.connections += 1
        try:
            await super().serve(transport, observers=observers)
        finally:
            await asyncio.shield(self._own.left())


def build_agent(settings: Settings) -> Agent:
    """The agent, ready to `run()`."""
    own = BuiltInAgent(settings)
    own_meta: dict[str, Any] = {"modes": list(MODES), "steer": STEER}
    if (settings.model or "").partition(":")[0] in SCRIPTED_SOURCES:
        own_meta["scripted"] = True
    meta = {"dragoman": own_meta}
    methods = auth_methods(settings.model)
    agent = _Serving(
        own,
        NAME,
        version=__version__,
        title="Dragoman",
        unstable=settings.unstable,
        overlapping_prompts="overlap",
        auth_methods=methods,
        meta=meta,
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


def seat_of(session: AgentSession) -> Viewer:
    """Raises: RequestError when another client has deleted the session meanwhile."""
    seat: Viewer | None = session.extra.get(_SEAT)
    if seat is None:
        raise RequestError.not_found("Session not found", {"sessionId": session.id})
    return seat


def modes(desk: Desk) -> v1.SessionModeState:
    return v1.SessionModeState(
        desk.mode.id, [v1.SessionMode(mode.id, mode.name, mode.description) for mode in MODES.values()]
    )


def options(desk: Desk) -> list[v1.SessionConfigOption]:
    """The same choices as config options, beside model and effort."""
    mode = [v1.SessionConfigSelectOption(each.id, each.name, each.description) for each in MODES.values()]
    model = [v1.SessionConfigSelectOption(name, name) for name in desk.model_names]
    effort = [v1.SessionConfigSelectOption(each, each.capitalize()) for each in EFFORTS]
    return [
        v1.SessionConfigSelect("mode", "Mode", desk.mode.id, mode, category="mode"),
        v1.SessionConfigSelect("model", "Model", desk.model_name, model, category="model"),
        v1.SessionConfigSelect(
            "effort", "Thinking effort", desk.host.row.effort or DEFAULT_EFFORT, effort, category="thought_level"
        ),
    ]


def turn_state(desk: Desk) -> dict[str, Any]:
    """Whether a turn runs here, for the `_meta` of load and resume."""
    return {"dragoman": {"turn": {"active": desk.host.is_running, "state": desk.host.state}}}


def _refusal(error: Exception, model: str = "") -> RequestError:
    """How a failure is told to the client: its own words if they are meant for people."""
    from dragoman.builtin.login import refused_key
    from dragoman.builtin.models.model import ModelAuthError

    if isinstance(error, ModelAuthError):
        return refused_key(error, model)
    if isinstance(error, DragomanError):
        return RequestError(-32603, str(error))
    return RequestError.internal_error()
