"""The official Python SDK as a server of Streamable HTTP and WebSocket, in uvicorn. Writes its URL to stdout."""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from acp.http.asgi import create_asgi_app

from benchmarks.peers.pysdk.agent import BenchAgent


async def main() -> None:
    sock = socket.create_server(("127.0.0.1", 0))
    application = create_asgi_app(_agent)
    config = uvicorn.Config(application, log_level="critical", ws="websockets-sansio", ws_per_message_deflate=False)
    print(f"http://127.0.0.1:{sock.getsockname()[1]}/acp", flush=True)
    await uvicorn.Server(config).serve(sockets=[sock])


def _agent(connection: object) -> BenchAgent:
    agent = BenchAgent()  # type: ignore[abstract]  # the protocol class answers for what is left out
    agent.on_connect(connection)  # type: ignore[arg-type]  # it is the connection to the client
    return agent


if __name__ == "__main__":
    asyncio.run(main())
