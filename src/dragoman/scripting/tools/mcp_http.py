"""The MCP server over Streamable HTTP, on this machine only, for clients that hold its token.

The wire, the sessions and the check of `Host` and `Origin` are those of the package `mcp`; the token is checked here,
before anything of a request is read.
"""

from __future__ import annotations

import asyncio
import hmac
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterator

    from dragoman.scripting.tools.mcp_server import AgentMcpServer

    Application = Callable[[Any, Any, Any], Awaitable[None]]

PATH: Final = "/mcp"
_REFUSAL: Final = b"A token is needed: send it as Authorization: Bearer TOKEN.\n"


async def serve_http(server: AgentMcpServer, sock: socket.socket, token: str, stop: asyncio.Event) -> None:
    """Serve clients at `/mcp` of a bound socket until `stop` is set.

    Args:
        server: what is served.
        sock: where; its address must be one of this machine.
        token: what a client has to send.
        stop: ends it.
    """
    import uvicorn

    class Serving(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # signals are the program's

    host = str(sock.getsockname()[0])
    application = with_token(server.server.streamable_http_app(streamable_http_path=PATH, host=host), token)
    config = uvicorn.Config(application, log_level="warning", lifespan="on", timeout_graceful_shutdown=5)
    serving = Serving(config)
    async with server, asyncio.TaskGroup() as group:
        task = group.create_task(serving.serve([sock]))
        stopping = group.create_task(stop.wait())
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        serving.should_exit = True


def with_token(application: Any, token: str) -> Application:
    """Make an ASGI application that refuses requests without the token, and passes on all others."""
    expected = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await application(scope, receive, send)
            return
        given = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
        if scope["type"] == "http" and len(given) == 1 and hmac.compare_digest(given[0], expected):
            await application(scope, receive, send)
            return
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"www-authenticate", b'Bearer realm="mcp"'),
            (b"content-length", b"%d" % len(_REFUSAL)),
        ]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": _REFUSAL})

    return guarded
