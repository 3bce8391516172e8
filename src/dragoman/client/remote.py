"""An agent as its client sees it: everything ACP lets one ask of it, typed.

Owns the public calls and their local checks; the connection below owns routing, a session its conversation.
"""

from __future__ import annotations

import asyncio
import os.path
from typing import TYPE_CHECKING, Any

from dragoman.client.session import Session
from dragoman.errors import CapabilityError, LocalProtocolError, RequestError
from dragoman.schema import UNSET, v1
from dragoman.schema.gates import is_advertised

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Sequence

    from dragoman.client.connection import Connection
    from dragoman.errors import ConnectionClosed
    from dragoman.rpc import Inbox

_Path = str | os.PathLike[str]


class Loading:
    """A session being loaded: await it for the session, or iterate it for the history as it is replayed.

    It is sent at the first of these. `session` can be looked at all the while; its state is complete when this ends.
    """

    def __init__(self, connection: Connection, method: str, params: Any, session: Session | None = None) -> None:
        self.session = session or _session(connection, params.session_id, params)
        self._connection = connection
        self._method = method
        self._params = params
        self._inbox: Inbox[v1.SessionUpdate] | None = None
        self._done: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    def __await__(self) -> Generator[object, None, Session]:
        return self._finish().__await__()

    def __aiter__(self) -> Loading:
        return self

    async def __anext__(self) -> v1.SessionUpdate:
        if self._done is None:
            self._inbox = self._connection.peer.flow.inbox(self.session.id)
            self._start()
        if self._inbox is None:
            raise StopAsyncIteration
        return await self._inbox.__anext__()

    def __del__(self) -> None:
        if self._inbox is not None:
            self._inbox.drop()

    def _start(self) -> None:
        session, connection = self.session, self._connection
        if session.id in connection.sessions:
            raise LocalProtocolError(f"session {session.id} is already open on this connection")
        self._done = done = asyncio.get_running_loop().create_future()
        is_replay = self._method == "session/load"
        session._replaying = "yes" if is_replay else "no"
        session._loading = self._inbox
        # Known before it is asked for, because its history arrives before the answer (rule 107).
        connection.adopt(session)

        def settle(result: Any, error: Exception | None) -> None:
            session._loading = None
            if error is None:
                session._replaying = "maybe" if is_replay else "no"
                session.state.open(result.modes, result.config_options)
            else:
                self._error = error
                connection.sessions.pop(session.id, None)
                connection.end(session, None)
            if self._inbox is not None:
                self._inbox.end(error)
            if not done.done():
                done.set_result(None)

        try:
            connection.ask(self._method, self._params, settle, lane=session.id)
        except BaseException:
            connection.sessions.pop(session.id, None)
            raise

    async def _finish(self) -> Session:
        if self._done is None:
            self._start()
        assert self._done is not None
        await asyncio.shield(self._done)
        if self._error is not None:
            raise self._error
        return self.session


class RemoteAgent:
    """A connected, initialized agent."""

    def __init__(self, connection: Connection, initialized: v1.InitializeResponse) -> None:
        self._connection = connection
        self.initialized = initialized

    @property
    def info(self) -> v1.Implementation | None:
        """Who the agent says it is; some say nothing."""
        return self.initialized.agent_info or None

    @property
    def capabilities(self) -> v1.AgentCapabilities:
        return self._connection.capabilities

    @property
    def auth_methods(self) -> Sequence[v1.AuthMethod]:
        """Ways to log in, should a call fail with -32000. Having some does not mean that login is needed."""
        return self.initialized.auth_methods or ()

    @property
    def is_open(self) -> bool:
        return self._connection.peer.is_open

    @property
    def closed_by(self) -> ConnectionClosed | None:
        """Why the connection is over; None while it is open."""
        return self._connection.peer.closed_by

    @property
    def noise_lines(self) -> int:
        """How many lines the agent wrote that were no messages; they were skipped."""
        return self._connection.peer.noise_lines

    # Sessions

    async def new_session(
        self,
        cwd: _Path,
        *,
        mcp_servers: Sequence[v1.McpServer] = (),
        additional_directories: Sequence[_Path] = (),
    ) -> Session:
        """Starts a session in `cwd`, which is made absolute.

        Raises: CapabilityError for MCP servers or directories the agent did not say it takes; RequestError when it
        refuses, AuthRequired when the user has to log in first.
        """
        params = v1.NewSessionRequest(
            _absolute(cwd),
            self._servers(mcp_servers),
            additional_directories=self._directories(additional_directories),
        )
        return await self._open("session/new", params)

    def load_session(
        self,
        session_id: str,
        cwd: _Path,
        *,
        mcp_servers: Sequence[v1.McpServer] = (),
        additional_directories: Sequence[_Path] = (),
    ) -> Loading:
        """Opens an earlier session; its history is replayed first (needs `loadSession`)."""
        self._require("session/load", "loadSession")
        params = v1.LoadSessionRequest(
            mcp_servers=self._servers(mcp_servers),
            cwd=_absolute(cwd),
            session_id=session_id,
            additional_directories=self._directories(additional_directories),
        )
        return Loading(self._connection, "session/load", params)

    async def resume_session(
        self,
        session_id: str,
        cwd: _Path,
        *,
        mcp_servers: Sequence[v1.McpServer] = (),
        additional_directories: Sequence[_Path] = (),
    ) -> Session:
        """Opens an earlier session without its history (needs `sessionCapabilities.resume`)."""
        params = v1.ResumeSessionRequest(
            session_id,
            _absolute(cwd),
            mcp_servers=self._servers(mcp_servers),
            additional_directories=self._directories(additional_directories),
        )
        return await Loading(self._connection, "session/resume", params)

    async def fork_session(self, session_id: str, cwd: _Path, *, mcp_servers: Sequence[v1.McpServer] = ()) -> Session:
        """A new session with the history of another (unstable; needs `sessionCapabilities.fork`)."""
        params = v1.ForkSessionRequest(session_id, _absolute(cwd), mcp_servers=self._servers(mcp_servers))
        return await self._open("session/fork", params)

    async def list_sessions(self, *, cwd: _Path | None = None, cursor: str | None = None) -> v1.ListSessionsResponse:
        """One page of the sessions the agent knows (needs `sessionCapabilities.list`)."""
        params = v1.ListSessionsRequest(
            cwd=UNSET if cwd is None else _absolute(cwd), cursor=UNSET if cursor is None else cursor
        )
        page: v1.ListSessionsResponse = await self._connection.call("session/list", params)
        return page

    async def sessions(self, *, cwd: _Path | None = None) -> AsyncIterator[v1.SessionInfo]:
        """Every session the agent knows, page after page."""
        cursor: str | None = None
        while True:
            page = await self.list_sessions(cwd=cwd, cursor=cursor)
            for info in page.sessions:
                yield info
            if not isinstance(page.next_cursor, str):
                return
            if page.next_cursor == cursor:
                raise LocalProtocolError("the agent repeats the same page of sessions; stopped listing")
            cursor = page.next_cursor

    async def close_session(self, session_id: str) -> None:
        """Ends a session, its running turn included (needs `sessionCapabilities.close`)."""
        await self._connection.close_session(session_id)

    async def delete_session(self, session_id: str) -> None:
        """Deletes a session for good; a missing one counts as deleted (needs `sessionCapabilities.delete`)."""
        try:
            await self._connection.call("session/delete", v1.DeleteSessionRequest(session_id))
        except RequestError as error:
            if error.code != -32002:
                raise

    # Login

    async def authenticate(self, method_id: str) -> None:
        """Logs in by one of `auth_methods`.

        Raises: LocalProtocolError for a method that was not advertised, or one that runs in a terminal: those are
        done by starting the agent again with the method's arguments (rule 68).
        """
        method = next((m for m in self.auth_methods if getattr(m, "id", None) == method_id), None)
        if method is None:
            known = ", ".join(str(getattr(m, "id", "?")) for m in self.auth_methods) or "none"
            raise LocalProtocolError(f"the agent has no login method {method_id!r}; it offers: {known}")
        if isinstance(method, v1.AuthMethodTerminal):
            raise LocalProtocolError(f"login method {method_id!r} runs in a terminal, not over the protocol")
        await self._connection.call("authenticate", v1.AuthenticateRequest(method_id))

    async def logout(self) -> None:
        """Logs out; new sessions may need a login again (needs `auth.logout`)."""
        await self._connection.call("logout", v1.LogoutRequest())

    # Anything else

    async def call(self, method: str, params: object) -> Any:
        """Calls any agent method of the protocol with its params type; the answer has the method's result type.

        Raises: LocalProtocolError for an unknown method, or an unstable one without `unstable=True`.
        """
        return await self._connection.call(method, params)

    async def request(self, method: str, params: object = None) -> Any:
        """Calls an extension method, whose name starts with `_`, with plain JSON values."""
        _require_extension(method)
        return await self._connection.peer.request(method, {} if params is None else params, Any)

    async def notify(self, method: str, params: object = None) -> None:
        """Sends an extension notification, whose name starts with `_`."""
        _require_extension(method)
        await self._connection.peer.notify(method, {} if params is None else params)

    async def close(self) -> None:
        """Ends the connection and, for a spawned agent, its process."""
        await self._connection.peer.close("the client closed the connection")

    async def wait_closed(self) -> None:
        """Returns when the connection has ended, by either side."""
        await self._connection.peer.wait_closed()

    async def _open(self, method: str, params: Any) -> Session:
        connection = self._connection

        def adopt(result: Any) -> None:
            session = _session(connection, result.session_id, params)
            session.state.open(result.modes, result.config_options)
            connection.adopt(session)

        with connection.early.opening():
            result = await connection.call(method, params, on_result=adopt)
        session: Session = connection.sessions[result.session_id]
        return session

    def _require(self, method: str, gate: str) -> None:
        if not is_advertised(self.capabilities, gate):
            raise CapabilityError(f"the agent does not offer {method} (agentCapabilities.{gate})")

    def _servers(self, servers: Sequence[v1.McpServer]) -> list[v1.McpServer]:
        for server in servers:
            for kind, name in ((v1.McpServerHttp, "http"), (v1.McpServerSse, "sse"), (v1.McpServerAcp, "acp")):
                if isinstance(server, kind) and not is_advertised(self.capabilities, f"mcpCapabilities.{name}"):
                    raise CapabilityError(
                        f"the agent does not take MCP servers over {name}, such as {server.name!r} "
                        f"(agentCapabilities.mcpCapabilities.{name})"
                    )
        return list(servers)

    def _directories(self, directories: Sequence[_Path]) -> Any:
        if not directories:
            return UNSET
        self._require("additional directories", "sessionCapabilities.additionalDirectories")
        return [_absolute(directory) for directory in directories]


def _session(connection: Connection, session_id: str, params: Any) -> Session:
    return Session(
        connection,
        session_id,
        params.cwd,
        additional_directories=params.additional_directories or (),
        mcp_servers=params.mcp_servers or (),
    )


def _absolute(path: _Path) -> str:
    """Every path of the protocol is absolute (rule 87); a program may still say `.`."""
    return os.path.abspath(path)


def _require_extension(method: str) -> None:
    if not method.startswith("_"):
        raise LocalProtocolError(
            f"{method} is no extension method: their names start with '_' (use call() for ACP's own)"
        )
