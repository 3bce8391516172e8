"""Reaches an agent: connects, agrees on a version, hands out the agent, and leaves nothing behind.

Owns the handshake and the life of the connection; everything said afterwards belongs to `remote.py`.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypedDict

from dragoman.client.connection import Connection
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
    """What `connect` and `spawn` take besides the agent itself."""

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
    """Connects to an agent over any transport and initializes it.

    The services given (`permission`, `files`, `terminals`, `elicitation`) are exactly the capabilities advertised;
    without `permission` every request for one is answered `cancelled`. `terminal_login` says that this program can
    start the agent again on the user's terminal to log in there.

    Raises: RemoteProtocolError when the agent speaks another version of the protocol; ConnectionClosed when it
    ends before it answers; TimeoutError when it does not answer at all.
    """
    services = ClientServices(
        permission=options.get("permission"),
        files=options.get("files"),
        terminals=options.get("terminals"),
        elicitation=options.get("elicitation"),
        extensions=options.get("extensions"),
        terminal_login=options.get("terminal_login", False),
    )
    connection = Connection(
        transport,
        services,
        is_unstable=options.get("unstable", False),
        limits=options.get("limits", DEFAULT_LIMITS),
        observers=options.get("observers", ()),
    )
    connection.peer.start()
    try:
        yield await _initialize(connection, options, transport)
    finally:
        await asyncio.shield(connection.close("the client closed the connection"))


@asynccontextmanager
async def spawn(
    *command: str | os.PathLike[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    spare: Spare = (),
    on_stderr: Callable[[bytes], None] | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncIterator[RemoteAgent]:
    """Starts an agent program, connects to it over its stdin and stdout, and ends it, with all it started, at exit.

    `env` is added to this program's environment; `spare` names daemons of the agent that are left running, by words
    of their command line; `on_stderr` sees what the agent logs. Raises what `connect` does, ConfigError when the
    program cannot be started, AgentExited (a ConnectionClosed) when it dies.
    """
    if not command:
        raise LocalProtocolError("spawn needs the agent's command, such as spawn('gemini', '--acp')")
    from dragoman.transports.process import ProcessTransport

    transport = await ProcessTransport.spawn(
        [os.fspath(part) for part in command], cwd=cwd, env=env, spare=spare, on_stderr=on_stderr
    )
    async with connect(transport, **options) as agent:
        yield agent


async def _initialize(connection: Connection, options: ClientOptions, transport: Transport) -> RemoteAgent:
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
            answer = await connection.peer.request("initialize", request, v1.InitializeResponse)
    except TimeoutError:
        last_line = getattr(transport, "stderr_tail", "").rstrip().rpartition("\n")[2]
        raise ConnectionClosed(
            f"the agent did not answer initialize within {seconds:g} seconds"
            + (f"; its last words on stderr: {last_line}" if last_line else "")
        ) from None
    if answer.protocol_version != PROTOCOL_VERSION:
        raise RemoteProtocolError(
            f"the agent speaks version {answer.protocol_version} of the protocol, this client version "
            f"{PROTOCOL_VERSION}; use a release of either that speaks the other's version"
        )
    if answer.agent_capabilities:
        connection.capabilities = answer.agent_capabilities
    connection.auth_methods = answer.auth_methods or ()
    return RemoteAgent(connection, answer)
