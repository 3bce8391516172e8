"""A connected agent, as a program uses it: one typed method for each agent method of the protocol.

Owns the public calls and their checks before anything is sent; routing belongs to `connection.py`, the turns and
updates of a session to `session_link.py`.
"""

from __future__ import annotations

import asyncio
import os.path
from typing import TYPE_CHECKING, Any

from dragoman.client.session import Session
from dragoman.errors import CapabilityError, LocalProtocolError, RequestError
from dragoman.schema import UNSET, Unknown, v1
from dragoman.schema.gates import is_advertised

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence

    from dragoman.client.connection import ClientConnection
    from dragoman.client.session_link import SessionLink
    from dragoman.errors import ConnectionClosed
    from dragoman.rpc import Inbox

_Path = str | os.PathLike[str]


class Loading:
    """A session being loaded: await it for the session, or iterate it for the history as it is replayed.

    The request is sent at the first of these. `session` can be read at any time; its state is complete at the end.
    """

    def __init__(self, connection: ClientConnection, method: str, params: Any, link: SessionLink | None = None) -> None:
        self._link = link or _new_link(connection, params.session_id, params)
        self._connection = connection
        self._method = method
        self._params = params
        self._inbox: Inbox[v1.SessionUpdate] | None = None
        self._done: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    @property
    def session(self) -> Session:
        """The session that is being loaded."""
        return self._link.session

    def __await__(self) -> Generator[object, None, Session]:
        return self._finish().__await__()

    def __aiter__(self) -> Loading:
        return self

    async def __anext__(self) -> v1.SessionUpdate:
        if self._done is None:
            self._inbox = self._link.new_inbox()
            self._start()
        if self._inbox is None:
            raise StopAsyncIteration
        return await self._inbox.__anext__()

    def __del__(self) -> None:
        if self._inbox is not None:
            self._inbox.drop()

    def _start(self) -> None:
        link, connection = self._link, self._connection
        if link.id in connection.links:
            raise LocalProtocolError(f"session {link.id} is already open on this connection")
        self._done = done = asyncio.get_running_loop().create_future()
        link.begin_loading(self._inbox, is_replay=self._method == "session/load")
        # Registered before the request is sent, because the history arrives before the response (rule 107).
        connection.adopt(link)

        def settle(result: Any, error: Exception | None) -> None:
            link.end_loading()
            if error is None:
                link.opened(result)
            else:
                self._error = error
                connection.links.pop(link.id, None)
                connection.end(link, None)
            if self._inbox is not None:
                self._inbox.end(error)
            if not done.done():
                done.set_result(None)

        try:
            connection.ask(self._method, self._params, settle, lane=link.id)
        except BaseException:
            connection.links.pop(link.id, None)
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

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.initialized: v1.InitializeResponse = connection.initialized

    @property
    def info(self) -> v1.Implementation | None:
        """The agent's name and version; some agents send none."""
        return self.initialized.agent_info or None

    @property
    def protocol_version(self) -> int:
        """The version of the protocol that is spoken with the agent: 1 or 2."""
        return self._connection.protocol_version

    @property
    def capabilities(self) -> v1.AgentCapabilities:
        """What the agent advertised in its response to `initialize`, in the form of version 1."""
        return self._connection.capabilities

    @property
    def auth_methods(self) -> Sequence[v1.AuthMethod]:
        """The ways to log in if a call fails with -32000. Offering some does not mean that a login is needed."""
        return self.initialized.auth_methods or ()

    @property
    def pid(self) -> int | None:
        """The process of an agent that was started by this program; None over any other transport."""
        return self._connection.pid

    @property
    def is_open(self) -> bool:
        """Whether the connection is open."""
        return self._connection.peer.is_open

    @property
    def closed_by(self) -> ConnectionClosed | None:
        """Why the connection has ended; None while it is open."""
        return self._connection.peer.closed_by

    @property
    def noise_lines(self) -> int:
        """How many lines the agent wrote that are not messages; they were skipped."""
        return self._connection.peer.noise_lines

    @property
    def lost_messages(self) -> int:
        """How many messages of the agent could not be read: too long, or broken; each was logged and skipped."""
        return self._connection.peer.lost_messages

    # Sessions

    async def new_session(
        self,
        cwd: _Path,
        *,
        mcp_servers: Sequence[v1.McpServer] = (),
        additional_directories: Sequence[_Path] = (),
        meta: Mapping[str, Any] | None = None,
        append_system_prompt: str | None = None,
    ) -> Session:
        """Start a session.

        Args:
            cwd: the session's folder, made absolute.
            mcp_servers: MCP servers for the agent to connect to.
            additional_directories: more folders the agent may work in, made absolute.
            meta: the request's `_meta`.
            append_system_prompt: text for the end of the agent's system prompt (unstable; needs
                `sessionCapabilities.systemPrompt`).

        Raises:
            CapabilityError: the agent did not advertise this kind of MCP server, or additional directories.
            AuthRequired: the user has to log in first.
            RequestError: the agent refused.
        """
        params = v1.NewSessionRequest(
            _absolute(cwd),
            self._servers(mcp_servers),
            additional_directories=self._directories(additional_directories),
            system_prompt=self._appended(append_system_prompt),
            meta=dict(meta) if meta else UNSET,
        )
        return await self._open("session/new", params)

    def load_session(
        self,
        session_id: str,
        cwd: _Path,
        *,
        mcp_servers: Sequence[v1.McpServer] = (),
        additional_directories: Sequence[_Path] = (),
        meta: Mapping[str, Any] | None = None,
        append_system_prompt: str | None = None,
    ) -> Loading:
        """Open an earlier session; its history is replayed first (needs `loadSession`).

        Args:
            session_id: the session's id, for example from `list_sessions`.
            cwd: the session's folder, made absolute.
            mcp_servers: MCP servers for the agent to connect to.
            additional_directories: more folders the agent may work in, made absolute.
            meta: the request's `_meta`.
            append_system_prompt: text for the end of the agent's system prompt (unstable; needs
                `sessionCapabilities.systemPrompt`).

        Raises: what `new_session` does; when it is sent, LocalProtocolError if the session is open already.
        """
        self._require("session/load", "loadSession")
        params = v1.LoadSessionRequest(
            mcp_servers=self._servers(mcp_servers),
            cwd=_absolute(cwd),
            session_id=session_id,
            additional_directories=self._directories(additional_directories),
            system_prompt=self._appended(append_system_prompt),
            meta=dict(meta) if meta else UNSET,
        )
        return Loading(self._connection, "session/load", params)

    async def resume_session(
        self,
        session_id: str,
        cwd: _Path,
        *,
        mcp_servers: Sequence[v1.McpServer] = (),
        additional_directories: Sequence[_Path] = (),
        meta: Mapping[str, Any] | None = None,
        append_system_prompt: str | None = None,
    ) -> Session:
        """Open an earlier session without its history (needs `sessionCapabilities.resume`).

        Takes and raises what `load_session` does.
        """
        params = v1.ResumeSessionRequest(
            session_id,
            _absolute(cwd),
            mcp_servers=self._servers(mcp_servers),
            additional_directories=self._directories(additional_directories),
            system_prompt=self._appended(append_system_prompt),
            meta=dict(meta) if meta else UNSET,
        )
        return await Loading(self._connection, "session/resume", params)

    async def fork_session(self, session_id: str, cwd: _Path, *, mcp_servers: Sequence[v1.McpServer] = ()) -> Session:
        """Start a session with the history of another (unstable; needs `sessionCapabilities.fork`).

        Args:
            session_id: the session whose history is copied.
            cwd: the folder of the new session, made absolute.
            mcp_servers: MCP servers for the agent to connect to.
        """
        params = v1.ForkSessionRequest(session_id, _absolute(cwd), mcp_servers=self._servers(mcp_servers))
        return await self._open("session/fork", params)

    async def list_sessions(self, *, cwd: _Path | None = None, cursor: str | None = None) -> v1.ListSessionsResponse:
        """Return one page of the sessions the agent knows (needs `sessionCapabilities.list`).

        Args:
            cwd: only sessions of this folder.
            cursor: the `next_cursor` of the page before; None for the first page.
        """
        params = v1.ListSessionsRequest(
            cwd=UNSET if cwd is None else _absolute(cwd), cursor=UNSET if cursor is None else cursor
        )
        page: v1.ListSessionsResponse = await self._connection.call("session/list", params)
        return page

    async def sessions(self, *, cwd: _Path | None = None) -> AsyncIterator[v1.SessionInfo]:
        """Yield every session the agent knows, page after page; `cwd` limits it to one folder."""
        cursor: str | None = None
        while True:
            page = await self.list_sessions(cwd=cwd, cursor=cursor)
            for info in page.sessions:
                yield info
            if not isinstance(page.next_cursor, str):
                return
            if page.next_cursor == cursor:
                raise LocalProtocolError("the agent sent the same page of sessions twice; the listing was stopped")
            cursor = page.next_cursor

    async def close_session(self, session_id: str) -> None:
        """End a session, its running turn included (needs `sessionCapabilities.close`)."""
        await self._connection.close_session(session_id)

    async def delete_session(self, session_id: str) -> None:
        """Delete a session permanently; a missing one counts as deleted (needs `sessionCapabilities.delete`)."""
        try:
            await self._connection.call("session/delete", v1.DeleteSessionRequest(session_id))
        except RequestError as error:
            if error.code != -32002:
                raise

    # Login

    async def authenticate(self, method_id: str, *, key: str | None = None) -> None:
        """Log in by one of `auth_methods`.

        Args:
            method_id: the method.
            key: the key of a provider, for a method that takes one (`LoginMethod.takes_key`).

        Raises: LocalProtocolError for a method that was not advertised, or one that runs in a terminal: use
        `terminal_login`, which starts the agent again with the method's arguments (rule 68).
        """
        known = {method.id: method for method in self.auth_methods if not isinstance(method, Unknown)}
        method = known.get(method_id)
        if method is None:
            names = ", ".join(known) or "none"
            raise LocalProtocolError(f"the agent has no login method {method_id!r}; it offers: {names}")
        if isinstance(method, v1.AuthMethodTerminal):
            raise LocalProtocolError(f"login method {method_id!r} runs in a terminal; use terminal_login")
        request = v1.AuthenticateRequest(method_id)
        if key is not None:
            from dragoman.client.login import key_member

            request = v1.AuthenticateRequest(method_id, meta=key_member(method_id, key))
        await self._connection.call("authenticate", request)

    async def logout(self) -> None:
        """Log out; new sessions may need a login again (needs `auth.logout`)."""
        await self._connection.call("logout", v1.LogoutRequest())

    # Anything else

    async def call(
        self,
        method: str,
        params: object,
        *,
        on_result: Callable[[Any], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> Any:
        """Call any agent method of the protocol. `params` has the method's params type, the return value its result.

        Args:
            on_result, on_error: called with the result or the error before anything that arrived later is handled; the
                task that waits goes on only after that.

        Raises: LocalProtocolError for an unknown method, or an unstable one without `unstable=True`.
        """
        return await self._connection.call(method, params, on_result=on_result, on_error=on_error)

    async def request(self, method: str, params: object = None) -> Any:
        """Call an extension method, whose name starts with `_`, with plain JSON values."""
        _require_extension(method)
        return await self._connection.peer.request(method, {} if params is None else params, Any)

    async def notify(self, method: str, params: object = None) -> None:
        """Send an extension notification, whose name starts with `_`."""
        _require_extension(method)
        await self._connection.peer.notify(method, {} if params is None else params)

    async def close(self) -> None:
        """End the connection and, for a spawned agent, its process."""
        await self._connection.peer.close("the client closed the connection")

    async def wait_closed(self) -> None:
        """Return when the connection has ended, by either side."""
        await self._connection.peer.wait_closed()

    async def _open(self, method: str, params: Any) -> Session:
        connection = self._connection

        def adopt(result: Any) -> None:
            link = _new_link(connection, result.session_id, params)
            link.opened(result)
            connection.adopt(link)

        with connection.early.opening():
            result = await connection.call(method, params, on_result=adopt)
        return connection.links[result.session_id].session

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

    def _appended(self, text: str | None) -> Any:
        if text is None:
            return UNSET
        self._require("a system prompt of the client", "sessionCapabilities.systemPrompt")
        return v1.SystemPrompt("append", [v1.TextContent(text)])

    def _directories(self, directories: Sequence[_Path]) -> Any:
        if not directories:
            return UNSET
        self._require("additional directories", "sessionCapabilities.additionalDirectories")
        return [_absolute(directory) for directory in directories]


def _new_link(connection: ClientConnection, session_id: str, params: Any) -> SessionLink:
    link = connection.new_link(session_id)
    Session(
        link,
        params.cwd,
        additional_directories=params.additional_directories or (),
        mcp_servers=params.mcp_servers or (),
    )
    return link


def _absolute(path: _Path) -> str:
    """Make a path absolute, as every path of the protocol is (rule 87); a program may still pass `.`."""
    return os.path.abspath(path)


def _require_extension(method: str) -> None:
    if not method.startswith("_"):
        raise LocalProtocolError(
            f"{method} is not an extension method: their names start with '_'; use call() for the protocol's own"
        )
