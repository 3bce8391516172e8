"""The connection to an agent: over any transport, or by starting its program.

Owns the `initialize` request and the life of the connection, which ends, with the agent's process, at the end of the
`async with` block. The calls in between belong to `remote.py`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from msgspec.structs import replace

from dragoman.client.connection import ClientConnection, HasStderr
from dragoman.client.remote import RemoteAgent
from dragoman.client.services import ClientServices
from dragoman.errors import (
    UNSUPPORTED_VERSION,
    ConnectionClosed,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
)
from dragoman.rpc import DEFAULT_LIMITS, Limits
from dragoman.schema import PROTOCOL_VERSION, v1

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
    from typing import Unpack

    from dragoman.client.services import (
        AnswersForms,
        ExtensionFallback,
        ExtensionHandlers,
        OpensUrls,
        PermissionService,
        ReadsFiles,
        Terminals,
        TracksChanges,
        WritesFiles,
    )
    from dragoman.process import Spare
    from dragoman.rpc import Observer, Transport

_log = logging.getLogger("dragoman.client")

Protocol: TypeAlias = Literal[1, 2, "auto", "2025.1"]

# The slowest real agent answers after eleven seconds on two busy cores.
INITIALIZE_SECONDS = 60.0
_PROTOCOLS = (1, 2, "auto", "2025.1")


class ClientOptions(TypedDict, total=False):
    """The options of `connect` and `spawn`, apart from the agent itself.

    The services given are exactly the capabilities that are advertised.

    name, version, title: how this program introduces itself to the agent.
    permission: answers `session/request_permission`; without it every request is answered `cancelled`.
    files, terminals, elicitation: the services for `fs/*`, `terminal/*` and `elicitation/*`.
    extensions: handlers for extension methods and notifications, by method; each is called with the params. An
        `async def` runs in a task. A plain function runs in the order in which messages arrive: after every update and
        response before its message, and before everything behind it. It must not block.
    extension_fallback: answers extension requests that have no handler; called with the method and its params.
    on_extension: called with the method and the params of extension notifications that have no handler, in the order in
        which messages arrive.
    on_updates: called with a session's id, its updates that arrived together, and the line of each, in the order in
        which messages arrive. It gets the updates of every session, open or not, history that is replayed included. An
        open session has them in its state by then. One that cannot be read is `Unknown`. From an agent of version 2 it
        gets what readers of the session get, which may be more or fewer than the lines.
    changes: follows what turns change in the session's folders, for `session.changes` and `session.rewind`.
    terminal_login: this program can start the agent again on the user's terminal to log in there.
    meta: extensions for the `_meta` of the advertised capabilities, by vendor.
    unstable: allow the unstable methods and members of the protocol; or the names of methods: only these are allowed,
        and nothing unstable is announced.
    limits: how much the connection may hold in memory.
    observers: see every line sent and received.
    prompt_meta: called with the session's id before each prompt; what it returns is added to the prompt's `_meta`.
    initialize_seconds: how long the agent may take to answer `initialize`.
    protocol: the version of the protocol: 1, 2, `"auto"` for 2 with an agent that speaks it and else 1, or `"2025.1"`
        for an agent of that dialect, which is translated.
    """

    name: str
    version: str
    title: str
    permission: PermissionService | None
    files: ReadsFiles | WritesFiles | None
    terminals: Terminals | None
    elicitation: AnswersForms | OpensUrls | None
    extensions: ExtensionHandlers | None
    extension_fallback: ExtensionFallback | None
    on_extension: Callable[[str, Any], None] | None
    on_updates: Callable[[str, Sequence[v1.SessionUpdate], Sequence[bytes]], None] | None
    changes: TracksChanges | None
    terminal_login: bool
    meta: Mapping[str, Any]
    unstable: bool | Collection[str]
    limits: Limits
    observers: Sequence[Observer]
    prompt_meta: Callable[[str], Mapping[str, Any]] | None
    initialize_seconds: float
    protocol: Protocol


@asynccontextmanager
async def connect(
    where: Transport | str,
    *,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | str | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncIterator[RemoteAgent]:
    """Connect to an agent by its URL or over any transport, and initialize it. At exit the connection is closed.

    Args:
        where: `wss://host/acp` or `https://host/acp` (the extra `remote`), `unix:/path/to/socket`, or a transport that
            leads to the agent; it is closed with the connection.
        token: for a URL: the bearer token.
        headers: for a URL: sent with every request.
        tls: for a URL whose certificate the system does not trust: the file of the authority that signed it, or
            settings of TLS.
        options: services, name, limits, observers; see `ClientOptions`.

    Raises:
        ConfigError: it is not such a URL, or the extra is not installed.
        RemoteProtocolError: the agent speaks another version of the protocol.
        ConnectionClosed: the agent ended before it answered, or did not answer in time.
    """
    if isinstance(where, str):
        where = await _transport_to(where, token, headers, tls)
    async with open_connection(where, options) as connection:
        yield RemoteAgent(connection)


async def _transport_to(
    url: str, token: str | None, headers: Mapping[str, str] | None, tls: ssl.SSLContext | str | None
) -> Transport:
    if url.startswith("unix:"):
        from dragoman.transports.unix import connect_unix

        return await connect_unix(url.removeprefix("unix:"))
    from dragoman.transports.remote.connect import connect_url

    return await connect_url(url, token=token, headers=headers, tls=tls)


@asynccontextmanager
async def spawn(
    *command: str | os.PathLike[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    spare: Spare = (),
    on_stderr: Callable[[bytes], None] | None = None,
    **options: Unpack[ClientOptions],
) -> AsyncIterator[RemoteAgent]:
    """Start an agent program and connect to it. At exit the program is ended, with every process it started.

    Args:
        command: the program and its arguments.
        cwd: the folder it is started in; this program's folder if None.
        env: variables that are added to this program's environment; None removes one.
        spare: daemons of the agent that are left running, by words of their command line.
        on_stderr: called with what the agent writes to stderr.
        options: services, name, limits, observers; see `ClientOptions`.

    Raises:
        ConfigError: the program cannot be started.
        AgentExited: the program ended; a ConnectionClosed.
        RemoteProtocolError, ConnectionClosed: as for `connect`.
    """

    async def start() -> Transport:
        return await spawn_transport(command, cwd=cwd, env=env, spare=spare, on_stderr=on_stderr)

    async with open_connection(await start(), options, again=start) as connection:
        yield RemoteAgent(connection)


async def spawn_transport(
    command: Sequence[str | os.PathLike[str]],
    *,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str | None] | None,
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
async def open_connection(
    transport: Transport,
    options: ClientOptions,
    *,
    again: Callable[[], Awaitable[Transport]] | None = None,
) -> AsyncIterator[ClientConnection]:
    """Open an initialized connection, and close it at exit.

    Args:
        again: Starts the agent once more; used if it ends at the offer of version 2 and may be offered version 1.
    """
    protocol = options.get("protocol", PROTOCOL_VERSION)
    if protocol not in _PROTOCOLS:
        transport.close()
        await transport.wait_closed()
        raise LocalProtocolError(f"protocol must be 1, 2, 'auto' or '2025.1', not {protocol!r}")
    if protocol == "2025.1":
        transport = _translated(transport)
    connection = await _started(transport, options)
    try:
        try:
            connection.initialized = await _initialize(connection, options, transport)
        except ConnectionClosed:
            if protocol != "auto" or again is None:
                raise
            # It may have ended because of the offer: the next one is what every agent knows.
            await asyncio.shield(connection.close("the agent did not answer the offer of version 2"))
            transport = await again()
            connection = await _started(transport, options)
            connection.initialized = await _initialize(connection, {**options, "protocol": 1}, transport)
        yield connection
    finally:
        await asyncio.shield(connection.close("the client closed the connection"))


def _translated(transport: Transport) -> Transport:
    """Return a transport to an agent of 2025.1.

    The conversation begins with the first session, which names its folder.
    """
    from dragoman.transports.translated import TranslatedTransport
    from dragoman.versions import translator

    return TranslatedTransport(
        transport,
        translator("1", "2025.1", is_lazy=True),
        "client",
        on_loss=lambda lost: _log.warning("not translated: %s", lost.what),
        on_noise=lambda sentence: _log.warning("%s", sentence),
    )


async def _started(transport: Transport, options: ClientOptions) -> ClientConnection:
    """Return a connection over this transport that is not initialized yet."""
    services = ClientServices(
        permission=options.get("permission"),
        files=options.get("files"),
        terminals=options.get("terminals"),
        elicitation=options.get("elicitation"),
        extensions=options.get("extensions"),
        extension_fallback=options.get("extension_fallback"),
        on_extension=options.get("on_extension"),
        terminal_login=options.get("terminal_login", False),
        changes=options.get("changes"),
    )
    try:
        connection = ClientConnection(
            transport,
            services,
            unstable=options.get("unstable", False),
            limits=options.get("limits", DEFAULT_LIMITS),
            observers=options.get("observers", ()),
        )
    except BaseException:  # a service is wrong: the agent that was started for it is ended
        transport.close()
        await transport.wait_closed()
        raise
    connection.prompt_meta = options.get("prompt_meta")
    connection.on_updates = options.get("on_updates")
    connection.peer.start()
    return connection


async def _initialize(
    connection: ClientConnection, options: ClientOptions, transport: Transport
) -> v1.InitializeResponse:
    from dragoman._version import __version__

    capabilities = connection.client_capabilities
    if options.get("meta"):
        capabilities = replace(capabilities, meta={**(capabilities.meta or {}), **options["meta"]})
    request = v1.InitializeRequest(
        PROTOCOL_VERSION,
        client_capabilities=capabilities,
        client_info=v1.Implementation(
            options.get("name", "dragoman"), options.get("version", __version__), title=options.get("title", "Dragoman")
        ),
    )
    protocol = options.get("protocol", PROTOCOL_VERSION)
    seconds = options.get("initialize_seconds", INITIALIZE_SECONDS)
    try:
        async with asyncio.timeout(seconds):
            if protocol in (2, "auto"):
                from dragoman.client.version2.negotiation import negotiate

                return await negotiate(connection, request, may_fall_back=protocol == "auto")
            response = await connection.peer.request("initialize", request, v1.InitializeResponse)
    except TimeoutError:
        tail = transport.stderr_tail if isinstance(transport, HasStderr) else ""
        last_line = tail.rstrip().rpartition("\n")[2]
        raise ConnectionClosed(
            f"the agent did not answer initialize within {seconds:g} seconds"
            + (f"; its last words on stderr: {last_line}" if last_line else "")
        ) from None
    except RequestError as error:
        raise _other_version(error) or error from None
    if response.protocol_version != PROTOCOL_VERSION:
        raise RemoteProtocolError(
            f"the agent speaks version {response.protocol_version} of the protocol, this client version "
            f"{PROTOCOL_VERSION}; use a release of either that speaks the other's version"
        )
    return response


def _other_version(error: RequestError) -> RemoteProtocolError | None:
    """Return the error in words, if the agent refuses because of the version."""
    if error.code != UNSUPPORTED_VERSION:
        return None
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    spoken = (
        " and ".join(str(version) for version in supported if isinstance(version, int))
        if isinstance(supported, list)
        else ""
    )
    if spoken == "2":
        return RemoteProtocolError("the agent speaks only version 2 of the protocol; connect with protocol 2 or auto")
    return RemoteProtocolError(
        f"the agent does not speak version {PROTOCOL_VERSION} of the protocol"
        + (f"; it speaks version {spoken}" if spoken else "")
    )
