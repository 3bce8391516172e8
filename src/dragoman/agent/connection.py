"""One connection of an agent: initialize first, then every request to its handler.

Owns dispatch by the method table, which method may be called when, and the answer to `initialize` (rules 36-42, 52,
69): what is advertised follows from what is registered and is never declared by hand. Everything here is the
synchronous in-order step of `rpc/peer.py`; handlers run in the peer's tasks. `sessions.py` serves the requests about
sessions.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from dragoman.agent.client import RemoteClient
from dragoman.agent.context import Context
from dragoman.agent.handlers import handled
from dragoman.agent.outgoing import make_update_checks
from dragoman.agent.sessions import Sessions, checked, require_absolute
from dragoman.errors import RequestError
from dragoman.rpc import Peer
from dragoman.schema import AGENT_METHODS, PROTOCOL_VERSION, UNSET, Unknown, decode, v1
from dragoman.transports._client_version import VersionedClient, make_v2_translator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from msgspec.json import Decoder

    from dragoman.agent.agent import Agent
    from dragoman.agent.outgoing import UpdateChecks
    from dragoman.errors import ConnectionClosed
    from dragoman.rpc import Call, Observer, Transport
    from dragoman.schema import Method

    Handler = Callable[..., Awaitable[Any]]
    Route = Callable[[Call, Method, Handler, Any], Coroutine[Any, Any, object]]
    from collections.abc import Mapping
    from typing import Any

    from msgspec import UnsetType

    from dragoman.agent.handlers import Registered

_log = logging.getLogger("dragoman.agent")
T = TypeVar("T")

_NO_PARAMS = Raw(b"{}")
# How long the end of a connection waits for handlers to clean up. They were cancelled; one that ignores that must not
# keep an agent alive whose client is gone.
CLOSE_SECONDS = 10.0
# Extension notifications whose handlers run at once; further ones are dropped, because the client does not wait for
# them.
RUNNING_NOTIFICATIONS = 1024
LEGACY_TERMINAL: Final = "terminal-auth"
"""In `_meta` of the client's capabilities: it runs such commands; in that of a method: the command."""


class AgentConnection:
    """The agent's side of one connection; the role its peer serves."""

    hot_mark = b""
    hot_decoder: Decoder[Any] | None = None

    def __init__(self, agent: Agent, transport: Transport, observers: Sequence[Observer]) -> None:
        self._agent = agent
        self._registered = agent.registered
        self._transport = transport
        self.peer = Peer(transport, self, limits=agent.limits, observers=observers)
        self.client = RemoteClient(self.peer, takes_unstable=agent.registered.takes_unstable)
        self._is_initialized = False
        self._sessions = Sessions(self, agent.registered, overlap=agent.overlapping_prompts)
        self._checks: UpdateChecks = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._over = asyncio.Event()
        self._routes: dict[str, Route] = {
            "authenticate": self._authenticate,
            "session/new": self._sessions.new,
            "session/load": self._sessions.load,
            "session/resume": self._sessions.resume,
            "session/fork": self._sessions.fork,
            "session/list": self._list,
            "session/close": self._sessions.close,
            "session/delete": self._sessions.delete,
            "session/set_mode": self._sessions.set_mode,
            "session/set_config_option": self._sessions.set_config_option,
            "session/prompt": self._sessions.prompt,
        }

    @property
    def update_checks(self) -> UpdateChecks:
        """Which updates may be sent; made when the first session needs it, to keep `initialize` quick."""
        if not self._checks:
            self._checks.update(make_update_checks(self.client, takes_unstable=self._registered.takes_unstable))
        return self._checks

    def _refresh_checks(self) -> None:
        """Make the table of checks again, in place: open sessions share it."""
        if self._checks:
            self._checks.update(make_update_checks(self.client, takes_unstable=self._registered.takes_unstable))

    async def serve(self) -> None:
        """Run until the connection ends and everything that ran on it has ended too."""
        if 2 in self._agent.versions:
            first = VersionedClient(self.peer, self._transport, lambda: self._is_initialized, make_v2_translator)
            self._transport.start(first)
        else:
            self.peer.start()
        try:
            await self._over.wait()
        finally:
            await self._close()

    async def _close(self) -> None:
        """End the connection if that did not happen yet, and wait for what was cancelled by that."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                # Handlers first: they end their terminals and tool calls with tasks of this connection.
                await self.peer.close("the agent stopped serving")
                for task in self._tasks:
                    task.cancel()
                while self._tasks:  # again and again: a task that is cancelled may start one more to clean up
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            _log.warning("a handler ignores its cancellation; the connection ends without it")
            await self._transport.wait_closed()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` in a task that ends with the connection at the latest."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def context(self, call: Call) -> Context:
        return Context(self.client, call)

    # Role: what the peer calls, in arrival order

    def on_hot(self, frames: list[Any], lines: list[bytes]) -> None:
        raise NotImplementedError("an agent has no hot notification")

    def on_request(self, call: Call) -> Coroutine[Any, Any, object]:
        name = call.method
        call.has_details = self._agent.error_details
        if name == "initialize":
            return self._initialize(self._read(call, v1.InitializeRequest))
        if not self._is_initialized:  # rule 35
            raise RequestError.invalid_request("initialize must come first")
        handler = self._registered.find(name)
        if handler is None:  # unknown, not implemented or not advertised is all the same (rules 28, 61, 333, 341)
            raise RequestError.method_not_found(name)
        method = AGENT_METHODS.get(name)
        if method is None:
            return self._extension(call, handler, self._read(call, Any))
        return self._routes.get(name, self._plain)(call, method, handler, self._read(call, method.params))

    def on_notification(self, method: str, params: Raw | None, line: bytes) -> None:
        if not self._is_initialized:
            return
        if method == "session/cancel":
            self._sessions.cancel(decode(v1.CancelNotification, params or _NO_PARAMS).session_id)
            return
        handler = self._registered.notifications.get(method)
        if handler is None:  # rules 29, 334
            return
        if len(self._tasks) >= RUNNING_NOTIFICATIONS:
            _log.warning("dropped the notification %s: %d are being handled", method, RUNNING_NOTIFICATIONS)
            return
        known = AGENT_METHODS.get(method)
        read = decode(Any if known is None else known.params, params or _NO_PARAMS)
        _ = self.spawn(self._notified(method, handler, read))

    def on_close(self, reason: ConnectionClosed) -> None:
        # Sessions before `serve` goes on, so that no handler which it waits for can still send.
        self._sessions.end(reason)
        self._over.set()

    # Requests about the connection

    def _initialize(self, params: v1.InitializeRequest) -> Coroutine[Any, Any, object]:
        """Initialize here and now, so that no later frame can come before it; a repetition is fine (rule 48)."""
        self.client._meet(params)
        self._is_initialized = True
        self._refresh_checks()  # by what the client now says that it can show
        return _value(answer_initialize(self._registered, self._agent.info, self._auth_methods(), self._agent.meta))

    def _auth_methods(self) -> list[v1.AuthMethod]:
        meta = self.client.capabilities.meta
        return shown_methods(
            self._agent.auth_methods,
            takes_terminal=self.client.offers("auth.terminal"),
            reads_legacy=isinstance(meta, dict) and meta.get(LEGACY_TERMINAL) is True,
        )

    def _authenticate(
        self, call: Call, method: Method, handler: Handler, params: v1.AuthenticateRequest
    ) -> Coroutine[Any, Any, object]:
        """Authenticate, only by methods that the client was shown, and never by `terminal` ones (rules 67, 68)."""
        if all(
            isinstance(offered, (Unknown, v1.AuthMethodTerminal)) or offered.id != params.method_id
            for offered in self._auth_methods()
        ):
            raise RequestError.invalid_params("Unknown authentication method", path="$.methodId")
        return self._plain(call, method, handler, params)

    def _list(
        self, call: Call, method: Method, handler: Handler, params: v1.ListSessionsRequest
    ) -> Coroutine[Any, Any, object]:
        if params.cwd:
            require_absolute(params.cwd, "$.cwd")  # rule 124
        return self._plain(call, method, handler, params)

    async def _plain(self, call: Call, method: Method, handler: Handler, params: Any) -> object:
        session_id = params.session_id if method.is_session_scoped else None
        response = await handled(method.name, handler(params, self.context(call)), session_id)
        return checked(method, response, takes_unstable=self._registered.takes_unstable)

    async def _extension(self, call: Call, handler: Handler, params: Any) -> object:
        return await handled(call.method, handler(params, self.context(call)))

    async def _notified(self, method: str, handler: Handler, params: Any) -> None:
        try:
            await handler(params, Context(self.client, None))
        except Exception:
            _log.exception("the handler of the notification %s failed", method)  # no client waits for an answer

    def _read(self, call: Call, kind: Any) -> Any:
        method = call.method
        observers = self.peer.observers
        return decode(kind, call.params or _NO_PARAMS, lambda loss: observers.lost(method, loss))


async def _value(value: T) -> T:
    return value


def answer_initialize(
    registered: Registered, name: v1.Implementation, methods: Sequence[v1.AuthMethod], meta: Mapping[str, Any] | None
) -> v1.InitializeResponse:
    """Answer `initialize`.

    The version is always ours: the requested one or the latest we speak, and no other exists.
    """
    return v1.InitializeResponse(
        PROTOCOL_VERSION,
        agent_capabilities=capabilities_of(registered, meta),
        auth_methods=list(methods),
        agent_info=name,
    )


def shown_methods(
    methods: Sequence[v1.AuthMethod], *, takes_terminal: bool, reads_legacy: bool = False
) -> list[v1.AuthMethod]:
    """Return the auth methods this client may see: `terminal` ones only if it can open a terminal (rule 69).

    Args:
        reads_legacy: the client runs the command in `_meta["terminal-auth"]`, as clients did before the protocol had
            the type. Such a method is then shown without the type, and its `_meta` to no other client.
    """
    return [shown for method in methods if (shown := _shown(method, takes_terminal, reads_legacy)) is not None]


def _shown(method: v1.AuthMethod, takes_terminal: bool, reads_legacy: bool) -> v1.AuthMethod | None:
    if not isinstance(method, v1.AuthMethodTerminal):
        return method
    meta = method.meta if isinstance(method.meta, dict) else {}
    if takes_terminal:
        others = {name: value for name, value in meta.items() if name != LEGACY_TERMINAL}
        return method if reads_legacy or len(others) == len(meta) else replace(method, meta=others or UNSET)
    if reads_legacy and LEGACY_TERMINAL in meta:
        return v1.AuthMethodAgent(method.id, method.name, method.description, meta=meta)
    return None


def capabilities_of(registered: Registered, meta: Mapping[str, Any] | None) -> v1.AgentCapabilities:
    """Return exactly what the handlers serve; markers are objects, flags are booleans (rules 57, 58)."""

    def marker(method: str, kind: type[T]) -> T | UnsetType:
        return kind() if method in registered.requests else UNSET

    session = v1.SessionCapabilities(
        list=marker("session/list", v1.SessionListCapabilities),
        delete=marker("session/delete", v1.SessionDeleteCapabilities),
        resume=marker("session/resume", v1.SessionResumeCapabilities),
        close=marker("session/close", v1.SessionCloseCapabilities),
        fork=marker("session/fork", v1.SessionForkCapabilities),
        archive=marker("session/archive", v1.SessionArchiveCapabilities),
        status=marker("session/status", v1.SessionStatusCapabilities),
        title=marker("session/set_title", v1.SessionTitleCapabilities),
        additional_directories=(
            v1.SessionAdditionalDirectoriesCapabilities() if registered.additional_directories else UNSET
        ),
        system_prompt=_system_prompt(registered.system_prompt),
    )
    return v1.AgentCapabilities(
        load_session="session/load" in registered.requests,
        prompt_capabilities=v1.PromptCapabilities(
            image="image" in registered.accepts,
            audio="audio" in registered.accepts,
            embedded_context="embedded_context" in registered.accepts,
        ),
        mcp_capabilities=v1.McpCapabilities(
            http="http" in registered.mcp,
            sse="sse" in registered.mcp,
            acp=True if "acp" in registered.mcp else UNSET,
        ),
        session_capabilities=session,
        auth=v1.AgentAuthCapabilities(
            logout=marker("logout", v1.LogoutCapabilities), status=marker("auth/status", v1.AuthStatusCapabilities)
        ),
        providers=marker("providers/list", v1.ProvidersCapabilities),
        meta=UNSET if meta is None else dict(meta),
    )


def _system_prompt(mode: str | None) -> v1.SessionSystemPromptCapabilities | UnsetType:
    if mode is None:
        return UNSET
    if mode == "append":
        return v1.SessionSystemPromptCapabilities()
    override = v1.SessionSystemPromptOverrideCapabilities()
    return v1.SessionSystemPromptCapabilities(v1.SessionSystemPromptModeCapabilities(override))
