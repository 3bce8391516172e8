"""One client of a host: its life, its rights, and what it is asked.

To the client the host is an agent; the session ids it sees are the host's own. What each call about sessions means is
in `session_requests.py`. Everything here but the handlers is the in-order step of `rpc/peer.py`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec import Raw

from dragoman.errors import AUTH_REQUIRED, ConnectionClosed, RequestError
from dragoman.host.clients.capabilities import auth_methods, initialize_answer
from dragoman.host.clients.client_kind import ClientKind, read_client
from dragoman.host.clients.request_scope import RequestScope
from dragoman.host.clients.session_requests import SessionRequests, own_meta, read
from dragoman.host.environment import METHOD, read_block
from dragoman.host.history.terminal_items import renamed, terminals_in
from dragoman.host.methods.params import read_params
from dragoman.host.methods.table import SERVED_RIGHTS, call_method, open_methods
from dragoman.rpc import Peer
from dragoman.rpc.transport import ClosesWithCode
from dragoman.schema import decode, v1
from dragoman.transports import _close_codes as close_codes
from dragoman.transports._client_version import VersionedClient, make_v2_host_translator
from dragoman.wire import write_notification

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from msgspec import Raw
    from msgspec.json import Decoder

    from dragoman.client import RemoteAgent
    from dragoman.errors import ConnectionClosed
    from dragoman.host.host import Host, HostSettings, Visitor
    from dragoman.host.session import HostedSession
    from dragoman.host.working.questions import Method
    from dragoman.rpc import Call, Pending, Transport

T = TypeVar("T")


@runtime_checkable
class Closes(Protocol):
    """What a method keeps for a connection and has to end with it."""

    def close(self) -> None: ...


class HostConnection:
    """The host's end of a connection to one client."""

    hot_mark = b""
    hot_decoder: Decoder[Any] | None = None

    def __init__(self, host: Host, transport: Transport, visitor: Visitor) -> None:
        self.key = secrets.token_hex(8)
        self.visitor = visitor
        self.kind = ClientKind()
        self.agent = visitor.agent
        """The agent that the connection is bound to."""
        self.env: Mapping[str, str] | None = None
        """The environment of the client, if it has sent it; agents that are started for it get it."""
        self.settings: HostSettings = host.settings
        self.peer = Peer(transport, self)
        self.is_visible = False
        """Whether a page that a user can see is at the other end, as it says itself."""
        self.kept: dict[str, Any] = {}
        """What methods of the host keep for this connection, by their own names; closed with it if it has `close`."""
        self._transport = transport
        self._is_greeted = False
        self.sessions = SessionRequests(host, self)
        self._host = host
        self._extensions = ExtensionCalls(host, self)
        self._hello: dict[str, Any] | None = None
        self._over = asyncio.Event()
        self._methods: dict[str, Callable[[Call], Coroutine[Any, Any, object]]] = {
            **self.sessions.methods,
            "authenticate": self._authenticate,
            "logout": self._log_out,
        }

    @property
    def who(self) -> str:
        """The client, as the log names it."""
        return f"{self.visitor.principal}/{self.kind.name}" if self.kind.name else self.visitor.principal

    async def serve(self) -> None:
        """Run until the client is gone. What it started in its sessions goes on."""
        if self._host.quotas is not None:
            await self._host.quotas.load(self.visitor.principal)
        self._transport.start(
            VersionedClient(self.peer, self._transport, lambda: self._is_greeted, make_v2_host_translator)
        )
        seconds = self.settings.initialize_seconds
        deadline = asyncio.get_running_loop().call_later(seconds, self._require_hello)
        try:
            await self._over.wait()
        finally:
            deadline.cancel()
            await self.peer.close("the host ended the connection")

    @property
    def identity(self) -> str:
        """What is the same for every connection of one client, so that an answer which it sends again is its own."""
        return f"{self.visitor.principal}/{self.visitor.device or self.kind.client or self.key}"

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self._host.run(work)

    def cut_off(self, why: str, code: int = close_codes.BEHIND) -> None:
        """End the connection; the client may come back."""
        _ = self.run(self.end(why, code))

    async def end(self, why: str, code: int) -> None:
        """End the connection, with a code of `_close_codes` where the transport can send one."""
        if isinstance(self._transport, ClosesWithCode):
            self._transport.set_close(code, why)
        await self.peer.close(why)

    # Role

    def on_hot(self, frames: list[Any], lines: list[bytes]) -> None:
        raise NotImplementedError("a client sends no updates")

    def on_request(self, call: Call) -> Coroutine[Any, Any, object]:
        if call.method == "initialize":
            self._is_greeted = True
            return self._initialize(call)
        if self._hello is None:
            raise RequestError.invalid_request("initialize must come first")
        handler, watch = self._methods.get(call.method), self._host.request_watch
        try:
            if handler is not None:
                right = SERVED_RIGHTS.get(call.method)
                if right is not None and right not in self.visitor.rights:
                    self.require(right)
                work = handler(call)
            else:
                own = call_method(self._host, self, call)
                if own is None:
                    return self._extension(call)
                work = own
        except RequestError as error:
            if watch is not None:
                watch.refuse(self, call, error)
            raise
        return work if watch is None else watch.follow(self, call, work)

    def _extension(self, call: Call) -> Coroutine[Any, Any, object]:
        extension = self._host.extension(call.method) if self.visitor.is_local else None
        if extension is not None:
            return extension(self, call)
        if call.method.startswith("_") and not call.method.startswith("_dragoman/"):
            return self._extensions.request(call)
        raise RequestError.method_not_found(call.method)

    def on_notification(self, method: str, params: Raw | None, line: bytes) -> None:
        if self._hello is None or params is None:
            return
        if method == METHOD:
            if self.visitor.is_local:
                self.env = read_block(read_params(params).get("block"))
        elif method == "session/cancel":
            id = decode(v1.CancelNotification, params).session_id
            if self._host.is_restoring(id, self.visitor):  # a prompt in front of this one may wait for it too
                _ = self.run(self._cancel_later(id))
            else:
                self._cancel(self._host.find_live(id, self.visitor))
        elif method.startswith("_") and not method.startswith("_dragoman/"):
            self._extensions.notify(method, params)

    async def _cancel_later(self, id: str) -> None:
        with suppress(RequestError):  # the log cannot be read: nothing runs in the session
            self._cancel(await self._host.find(id, self.visitor))

    def _cancel(self, session: HostedSession | None) -> None:
        if session is not None and self.may("prompt", session.id) and not self.sessions.cancel_held(session.id):
            session.prompts.cancel(self)

    def on_close(self, reason: ConnectionClosed) -> None:
        for kept in self.kept.values():
            if isinstance(kept, Closes):
                kept.close()
        self.kept.clear()
        self.sessions.leave_all()
        self._over.set()

    def _require_hello(self) -> None:
        if self._hello is None:
            self.cut_off(f"the client did not initialize within {self.settings.initialize_seconds:g} seconds")

    # Rights

    def may(self, right: str, session: str = "") -> bool:
        """Whether the client may do something, in this session."""
        return right in self.visitor.rights and (right == "view" or not self.sessions.only_observes(session))

    def require(self, right: str, session: str = "") -> None:
        """Raises: RequestError if the client may not do it."""
        if not self.may(right, session):
            raise RequestError(-32603, f"this client may not {right}", {"reason": "forbidden"})

    # Questions

    @property
    def reads_words(self) -> bool:
        """Whether the client shows the words that the host adds to a question."""
        return self.kind.words

    def can_answer(self, session: str, method: Method, params: dict[str, Any]) -> bool:
        """Whether this client can show a question and may answer it."""
        if not self.may("answer", session):
            return False
        if method == "session/request_permission":
            return True
        return self.kind.urls if params.get("mode") == "url" else self.kind.forms

    def ask_in(
        self,
        session: str,
        method: Method,
        params: dict[str, Any],
        settle: Callable[[Any, Exception | None], None],
        *,
        child: str | None = None,
    ) -> Pending | None:
        """Send a question of one session to the client; one of a subagent in its parent's name to most clients."""
        if not self.peer.is_open:
            return None
        named = child if child is not None and self.kind.unstable else session
        return self.peer.ask(method, {"sessionId": named, **self.shown_in(session, params)}, Any, settle)

    def withdraw(self, pending: Pending) -> None:
        """Withdraw what was answered elsewhere, or is no longer asked. The client still answers (rule 204)."""
        if self.peer.is_open:
            body = msgspec.json.encode({"requestId": pending.id})
            self.peer.post(write_notification("$/cancel_request", body))

    def shown_in(self, session: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return a question about a tool call that shows a terminal, as this client can show it."""
        call, hosted = params.get("toolCall"), self._host.live(session)
        content = call.get("content") if isinstance(call, dict) else None
        if not isinstance(call, dict) or hosted is None or not isinstance(content, list) or not terminals_in(content):
            return params
        owned = {} if hosted.terminals is None else hosted.terminals.owned_by(self)
        shown = renamed(content, owned) if owned.keys() >= set(terminals_in(content)) else hosted.shown.as_text(content)
        return {**params, "toolCall": {**call, "content": shown}}

    # Requests about the connection

    async def _initialize(self, call: Call) -> object:
        request = decode(v1.InitializeRequest, call.params or Raw(b"{}"))
        if self._hello is None:
            asked = own_meta(request.meta).get("agent")
            if self.agent is None and isinstance(asked, str):
                self.agent = self._host.require_agent(asked, self.visitor)
            self.kind = read_client(request)
            agents = await self._host.describe_agents(self.agent)
            if not self.visitor.is_local:  # it cannot look for agents by itself
                named = {name: self._host.description_of(name) for name in self._host.named_agents()}
                agents = {**named, **agents}
            self._hello = initialize_answer(
                self.kind,
                agents,
                self.agent,
                may_log_in=self._host.may_log_in(self.visitor),
                is_local=self.visitor.is_local,
                forks=self.settings.unstable or self.settings.forks,
                is_outdated=self._host.is_outdated,
                own={
                    "methods": open_methods(self._host, self),
                    "rights": sorted(self.visitor.rights),
                    "folders": None if self.visitor.folders is None else list(self.visitor.folders),
                    "user": self.visitor.principal,
                    "device": self.visitor.device,
                    "machineName": os.uname().nodename,
                    "page": None if self._host.pairing is None else self._host.pairing.page,
                },
            )
        return self._hello

    async def _authenticate(self, call: Call) -> object:
        from dragoman.client.login import passed_key

        request = read(call, v1.AuthenticateRequest)
        name, method = self._login_agent(call.method, request.method_id)
        scope = RequestScope(self, call.id)
        key = passed_key(request.meta)
        await self._host.logins.log_in(name, method, scope, is_local=self.visitor.is_local, key=key)
        return {}

    async def _log_out(self, call: Call) -> object:
        name, _ = self._login_agent(call.method, None)
        await self._host.logins.log_out(name, RequestScope(self, call.id))
        self._host.notify_sessions_of(name, f"The host was logged out of {name}.")
        return {}

    def _login_agent(self, method: str, id: str | None) -> tuple[str, str]:
        """Return the agent that a login is for, and its own name for the method.

        Credentials belong to the user who runs the host: with several principals only an administrator may change them.
        """
        if not self._host.may_log_in(self.visitor):
            raise RequestError.method_not_found(method)
        if self.agent is not None:
            return self.agent, id or ""
        if id is None:
            raise RequestError.method_not_found(method)
        name, _, own = id.partition("/")
        return self._host.require_agent(name, self.visitor), own

    def explain(self, error: RequestError, agent: str) -> RequestError:
        """Return an error of the agent; one that asks for a login names the methods that this client can use."""
        if error.code != AUTH_REQUIRED:
            return error
        known = {agent: self._host.description_of(agent)}
        methods = auth_methods(self.kind, known, self.agent, is_local=self.visitor.is_local)
        data = error.data if isinstance(error.data, dict) else {}
        return RequestError(error.code, error.message, {**data, "authMethods": methods})


class ExtensionCalls:
    """The extension methods of one client (`_vendor/name`), forwarded to the agent that they are for.

    The agent is that of the session which the params name, or the one that the connection is bound to. Methods of
    the host itself (`_dragoman/...`) never come here.
    """

    def __init__(self, host: Host, client: HostConnection) -> None:
        self._host = host
        self._client = client

    async def request(self, call: Call) -> object:
        """Raises: RequestError if there is no agent for it."""
        params = read_params(call.params)
        session = await self._session(params)
        if session is None and (self._client.agent is None or "sessionId" in params):
            raise RequestError.method_not_found(call.method)
        self._client.require("prompt", "" if session is None else session.id)
        return await self._forward(call, params, session)

    def notify(self, method: str, params: Raw) -> None:
        """Forward a notification to an agent that runs; ignore it otherwise."""
        found = read_params(params)
        id = found.get("sessionId")
        # One that is not in memory has no agent that runs.
        session = self._host.find_live(id, self._client.visitor) if isinstance(id, str) else None
        run = None if session is None else session.agent.run
        if session is None and self._client.agent is not None and "sessionId" not in found:
            run = self._host.running_agent(self._client.agent, self._client.visitor)
        if run is not None and self._client.may("prompt", "" if session is None else session.id):
            _ = self._client.run(self._send(run.agent, method, self._for_agent(found, session)))

    async def _forward(self, call: Call, params: dict[str, Any], session: HostedSession | None) -> object:
        params = self._for_agent(params, session)
        if session is not None:
            return await (await session.agent.ensure()).agent.request(call.method, params)
        name = self._client.agent or ""
        run = self._host.running_agent(name, self._client.visitor)
        if run is not None:
            return await run.agent.request(call.method, params)
        scope = RequestScope(self._client, call.id)
        async with self._host.logins.short_agent(name, scope, scope.env) as started:
            return await started.request(call.method, params)

    async def _send(self, agent: RemoteAgent, method: str, params: dict[str, Any]) -> None:
        with suppress(ConnectionClosed):  # it would have been ignored
            await agent.notify(method, params)

    async def _session(self, params: dict[str, Any]) -> HostedSession | None:
        id = params.get("sessionId")
        return await self._host.find(id, self._client.visitor) if isinstance(id, str) else None

    def _for_agent(self, params: dict[str, Any], session: HostedSession | None) -> dict[str, Any]:
        return params if session is None else {**params, "sessionId": session.agent_session}
