"""An agent: its name, its handlers, and the ways to run it.

Owns the agent's identity and how it is run. `handlers.py` holds what is registered, `connection.py` what happens on a
connection. One agent serves any number of connections, each with its own sessions.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final

from dragoman.agent.connection import CLOSE_SECONDS, AgentConnection
from dragoman.agent.handlers import Handlers
from dragoman.errors import LocalProtocolError
from dragoman.rpc import DEFAULT_LIMITS
from dragoman.schema import UNSET, v1

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, Literal

    from dragoman.rpc import Limits, Observer, Transport
    from dragoman.transports.remote.asgi import AsgiApplication

# Nothing that is made while a program starts is garbage, and looking for some delays the answer to `initialize`. For
# this long after the start `run` leaves that out.
_START_SECONDS: Final = 0.1


class Agent(Handlers):
    """An ACP agent. Register handlers with its decorators, then `run()` it on stdio or `serve()` a transport.

    Its capabilities are derived from the handlers that are registered; they are not declared.

    Args:
        name: The agent's name for programs, sent in `initialize`.
        version: The agent's version, sent in `initialize`.
        title: The agent's name for users.
        unstable: Permit methods and types that are not in the stable protocol yet, or only the methods that are named.
        overlapping_prompts: What happens to a prompt while another one runs in the same session: it is refused with an
            error, it waits for the other to end, or its handler starts at once and is responsible for the order.
        auth_methods: The ways to log in that are offered. Those of the agent itself need `@agent.authenticate`.
        meta: The `_meta` of the advertised capabilities, the place to announce extensions (rule 335).
        error_details: Repeat the message of every error as `data.details`, for clients that show nothing else of it.
        limits: How much a connection may hold.
        versions: The versions of the protocol that clients may speak. A client of version 2 is served by the same
            handlers; `(1,)` answers it with version 1.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        unstable: bool | Collection[str] = False,
        overlapping_prompts: Literal["refuse", "queue", "overlap"] = "refuse",
        auth_methods: Sequence[v1.AuthMethod] = (),
        meta: Mapping[str, Any] | None = None,
        error_details: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        versions: Collection[int] = (1, 2),
    ) -> None:
        super().__init__(unstable=unstable)
        self.info = v1.Implementation(name, version, UNSET if title is None else title)
        self.overlapping_prompts = overlapping_prompts
        self.auth_methods = tuple(auth_methods)
        self.meta = meta
        self.error_details = error_details
        self.limits = limits
        if 1 not in versions or not set(versions) <= {1, 2}:
            raise LocalProtocolError("versions must be (1,) or (1, 2): handlers are written in version 1")
        self.versions = frozenset(versions)

    def run(
        self, *, observers: Sequence[Observer] = (), through: Callable[[Transport], Transport] | None = None
    ) -> None:
        """Serve stdin and stdout until the client closes them; editors start a program that ends with this call.

        SIGTERM and SIGINT end it in the same way, with turns cancelled and children ended; the exit code is then
        128 + signal.

        Args:
            observers: See every line that is sent or received.
            through: Makes the transport to serve of that to the client, such as a `TranslatedTransport` for a client
                of another version of the protocol.

        Raises:
            LocalProtocolError: A handler is missing that every such agent needs.
            ConfigError: stdin or stdout cannot be used.
        """
        self._require_complete()
        # After the connection nothing may keep this program alive, no handler that ignores its cancellation and no
        # thread it started: the client is gone, and no other program would end it.
        last_resort = threading.Timer(CLOSE_SECONDS, os._exit, (1,))
        last_resort.daemon = True
        collects = gc.isenabled()
        gc.disable()
        try:
            number = asyncio.run(self._serve_stdio(last_resort, observers, through, collects=collects))
        finally:
            last_resort.cancel()
            if collects:
                gc.enable()
        if number is not None:
            sys.exit(128 + number)

    async def serve(
        self,
        where: Transport | str,
        *,
        observers: Sequence[Observer] = (),
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        behind_proxy: bool = False,
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
        on_listening: Callable[[str], None] | None = None,
    ) -> None:
        """Serve one connection and return when it has ended, or every client of an address until it is cancelled.

        Args:
            where: A transport that leads to a client, or an address: `127.0.0.1:8787` for HTTP and WebSocket, which
                needs the extra `remote`, or `unix:/path/to/socket`.
            observers: See every line that is sent or received on this connection; for a transport only.
            token: What clients of a port send as bearer token. By default the variable DRAGOMAN_TOKEN, else one that
                is made once and kept in the folder `tokens` of the user's data.
            tls: The certificate of a port that others can reach.
            behind_proxy: A proxy in front of the port speaks TLS.
            hosts: Further names with port by which clients may call it, such as `agents.example:443`.
            origins: Web pages that may use it, such as `https://app.example`.
            on_listening: Called with the URL when clients can connect.

        Raises:
            LocalProtocolError: A handler is missing that every such agent needs.
            ConfigError: The address cannot be used.
        """
        self._require_complete()
        if not isinstance(where, str):
            await self._serve_connection(where, observers)
            return
        from dragoman.agent.serving import serve_address

        await serve_address(
            self,
            where,
            token=token,
            tls=tls,
            behind_proxy=behind_proxy,
            hosts=hosts,
            origins=origins,
            on_listening=on_listening,
        )

    def asgi(self, *, hosts: Sequence[str], token: str | None = None, origins: Sequence[str] = ()) -> AsgiApplication:
        """Return this agent as an ASGI application, for a server that runs already; needs the extra `remote`.

        Serves HTTP and WebSocket at `/acp`, or where it is mounted.

        Args:
            hosts: The names with port by which clients call the server, such as `agents.example:443`.
            token: What clients send as bearer token; by default the variable DRAGOMAN_TOKEN.
            origins: Web pages that may use it, such as `https://app.example`.

        Raises:
            LocalProtocolError: A handler is missing that every such agent needs.
            ConfigError: There is no token, or no host.
        """
        self._require_complete()
        from dragoman.agent.serving import asgi_application

        return asgi_application(self, hosts=hosts, token=token, origins=origins)

    async def _serve_connection(self, transport: Transport, observers: Sequence[Observer]) -> None:
        await AgentConnection(self, transport, observers).serve()

    async def _serve_stdio(
        self,
        last_resort: threading.Timer,
        observers: Sequence[Observer],
        through: Callable[[Transport], Transport] | None,
        *,
        collects: bool,
    ) -> int | None:
        """Serve; return the signal that ended it, None if the client did."""
        from dragoman.transports.stdio import StdioTransport

        loop = asyncio.get_running_loop()
        if collects:
            loop.call_later(_START_SECONDS, gc.enable)
        transport: Transport = StdioTransport()
        if through is not None:
            transport = through(transport)
        serving = asyncio.ensure_future(self.serve(transport, observers=observers))
        signals: list[int] = []

        def stop(number: int) -> None:
            signals.append(number)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)  # a second one ends the program at once
            serving.cancel()

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop, number)
        await asyncio.wait({serving})
        last_resort.start()
        if not serving.cancelled():
            serving.result()
        return signals[0] if signals else None

    def _require_complete(self) -> None:
        if "session/prompt" not in self.registered.requests:
            raise LocalProtocolError("an agent needs a prompt handler; decorate one with @agent.prompt")
        callable_methods = [method for method in self.auth_methods if isinstance(method, v1.AuthMethodAgent)]
        if callable_methods and "authenticate" not in self.registered.requests:
            raise LocalProtocolError(
                f"auth method {callable_methods[0].id!r} needs a handler; decorate one with @agent.authenticate"
            )
