"""Connects to an agent: over any transport, or by starting its program.

Owns the `initialize` request and the life of the connection, which ends, with the agent's process, at the end of the
`async with` block. The calls in between belong to `remote.py`.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol, TypedDict, runtime_checkable

from dragoman.client.connection import ClientConnection
from dragoman.client.remote import RemoteAgent
from dragoman.client.services import ClientServices
from dragoman.errors import ConnectionClosed, LocalProtocolError, RemoteProtocolError
from dragoman.rpc import DEFAULT_LIMITS, Limits
from dragoman.schema import PROTOCOL_VERSION, v1

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from typing import Unpack

    from dragoman.client.services import (
        AnswersForms,
        ExtensionHandlers,
        OpensUrls,
        PermissionService,
        ReadsFiles,
        Terminals,
        WritesFiles,
    )
    from dragoman.process import Spare
    from dragoman.rpc import Observer, Transport

# The slowest real agent answers after eleven seconds on two busy cores.
INITIALIZE_SECONDS = 60.0


class ClientOptions(TypedDict, total=False):
    """The options of `connect` and `spawn`, apart from the agent itself.

    The services given are exactly the capabilities that are advertised.

    name, version, title: how this program introduces itself to the agent.
    permission: answers `session/request_permission`; without it every request is answered `cancelled`.
    files, terminals, elicitation: the services for `fs/*`, `terminal/*` and `elicitation/*`.
    extensions: handlers for extension methods and notifications, by method.
    terminal_login: this program can start the agent again on the user's terminal to log in there.
    unstable: allow the unstable methods and members of the protocol.
    limits: how much the connection may hold in memory.
    observers: see every line sent and received.
    initialize_seconds: how long the agent may take to answer `initialize`.
    """

    name: str
    version: str
    title: str
    permission: PermissionService | None
    files: ReadsFiles | WritesFiles | None
    terminals: Terminals | None
    elicitation: AnswersForms | OpensUrls | None
    extensions: ExtensionHandlers | None
    terminal_login: bool
    unstable: bool
    limits: Limits
    observers: Sequence[Observer]
    initialize_seconds: float


@asynccontextmanager
async def connect(transport: Transport, **options: Unpack[ClientOptions]) -> AsyncIterator[RemoteAgent]:
    """Connect to an agent over any transport and initialize it. At exit the connection is closed.

    Args:
        transport: leads to the agent; it is closed with the connection.
        options: services, name, limits, observers; see `ClientOptions`.

    Raises:
        RemoteProtocolError: the agent speaks another version of the protocol.
        ConnectionClosed: the agent ended before it answered, or did not answer in time.
    """
    async with open_connection(transport, options) as connection:
        yield RemoteAgent(connection)


@asynccontextmanager
async def spawn(
    *command: str | os.PathLike[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    spare: Spare = (),
    on_stderr: Callable[[bytes], None] | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncIterator[RemoteAgent]:
    """Start an agent program and connect to it. At exit the program is ended, with every process it started.

    Args:
        command: the program and its arguments.
        cwd: the folder it is started in; this program's folder if None.
        env: variables that are added to this program's environment.
        spare: daemons of the agent that are left running, by words of their command line.
        on_stderr: called with what the agent writes to stderr.
        options: services, name, limits, observers; see `ClientOptions`.

    Raises:
        ConfigError: the program cannot be started.
        AgentExited: the program ended; a ConnectionClosed.
        RemoteProtocolError, ConnectionClosed: as for `connect`.
    """
    transport = await spawn_transport(command, cwd=cwd, env=env, spare=spare, on_stderr=on_stderr)
    async with open_connection(transport, options) as connection:
        yield RemoteAgent(connection)


async def spawn_transport(
    command: Sequence[str | os.PathLike[str]],
    *,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    spare: Spare,
    on_stderr: Callable[[bytes], None] | None,
) -> Transport:
    """Start an agent program; the transport is its stdin and stdout."""
    if not command:
        raise LocalProtocolError("spawn needs the agent's command, such as spawn('gemini', '--acp')")
    from dragoman.transports.process import ProcessTransport

    return await ProcessTransport.spawn(
        [os.fspath(part) for part in command], cwd=cwd, env=env, spare=spare, on_stderr=on_stderr
    )


@asynccontextmanager
async def open_connection(transport: Transport, options: ClientOptions) -> AsyncIterator[ClientConnection]:
    """An initialized connection, closed at exit."""
    services = ClientServices(
        permission=options.get("permission"),
        files=options.get("files"),
        terminals=options.get("terminals"),
        elicitation=options.get("elicitation"),
        extensions=options.get("extensions"),
        terminal_login=options.get("terminal_login", False),
    )
    connection = ClientConnection(
        transport,
        services,
        is_unstable=options.get("unstable", False),
        limits=options.get("limits", DEFAULT_LIMITS),
        observers=options.get("observers", ()),
    )
    connection.peer.start()
    try:
        connection.initialized = await _initialize(connection, options, transport)
        yield connection
    finally:
        await asyncio.shield(connection.close("the client closed the connection"))


@runtime_checkable
class _HasStderr(Protocol):
    """A transport to a program whose last lines on stderr are kept."""

    @property
    def stderr_tail(self) -> str: ...


async def _initialize(
    connection: ClientConnection, options: ClientOptions, transport: Transport
) -> v1.InitializeResponse:
    from dragoman._version import __version__

    request = v1.InitializeRequest(
        PROTOCOL_VERSION,
        client_capabilities=connection.client_capabilities,
        client_info=v1.Implementation(
            options.get("name", "dragoman"), options.get("version", __version__), title=options.get("title", "Dragoman")
        ),
    )
    seconds = options.get("initialize_seconds", INITIALIZE_SECONDS)
    try:
        async with asyncio.timeout(seconds):
            response = await connection.peer.request("initialize", request, v1.InitializeResponse)
    except TimeoutError:
        tail = transport.stderr_tail if isinstance(transport, _HasStderr) else ""
        last_line = tail.rstrip().rpartition("\n")[2]
        raise ConnectionClosed(
            f"the agent did not answer initialize within {seconds:g} seconds"
            + (f"; its last words on stderr: {last_line}" if last_line else "")
        ) from None
    if response.protocol_version != PROTOCOL_VERSION:
        raise RemoteProtocolError(
            f"the agent speaks version {response.protocol_version} of the protocol, this client version "
            f"{PROTOCOL_VERSION}; use a release of either that speaks the other's version"
        )
    return response
