"""This library as a server of a port and of a Unix socket, without and with the host. Writes its addresses to stdout.

python -m benchmarks.peers.dragoman.remote_agent FOLDER agent|host
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.peers.dragoman.agent import agent
from dragoman.host.host import Host, Visitor
from dragoman.rpc import Transport
from dragoman.store.sqlite_log import SqliteLog
from dragoman.transports.process import ProcessTransport
from dragoman.transports.remote.gate import GateRules, Principal
from dragoman.transports.remote.server import NewConnection, RemoteServer, ServerLimits
from dragoman.transports.unix import UnixServer, UnixTransport, bind_unix

TOKEN = "of-the-benchmark"
tasks: set[asyncio.Task[None]] = set()


class Child:
    """The agent of the benchmark as a child process: what it costs is not counted as the host's."""

    name = "bench"

    async def start(self, cwd: str, env: Mapping[str, str] | None) -> Transport:
        return await ProcessTransport.spawn([sys.executable, "-m", "benchmarks.peers.dragoman.agent"], cwd=cwd)


def _run(work: object) -> None:
    task = asyncio.get_running_loop().create_task(work)  # type: ignore[var-annotated, arg-type]  # any coroutine
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def main(folder: Path, kind: str) -> None:
    host = Host(SqliteLog(folder / "log.db"), [Child()]) if kind == "host" else None

    def serve(transport: Transport) -> None:
        _run(agent.serve(transport) if host is None else host.serve(transport, Visitor()))

    def opened(connection: NewConnection) -> None:
        serve(connection.transport)

    def opened_unix(transport: UnixTransport) -> None:
        serve(transport)

    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    principal = Principal("bench")
    rules = GateRules(hosts={b"127.0.0.1:%d" % port}, find_principal=lambda token: principal)
    limits = ServerLimits(sockets_per_address=4096, connections_per_principal=4096)
    await RemoteServer(opened, rules, limits=limits).listen(sock)
    path = os.path.join(folder, f"{kind}.sock")
    UnixServer(bind_unix(path), opened_unix)
    print(f"http://127.0.0.1:{port}/acp unix:{path}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
