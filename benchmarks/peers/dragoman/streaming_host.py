"""A host for the streaming benchmark: its agents are at the other end of a Unix socket. Writes its address to stdout.

python -m benchmarks.peers.dragoman.streaming_host FOLDER AGENTS
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Mapping
from pathlib import Path

import dragoman
import dragoman.host.host
from dragoman.host.host import Host, HostSettings, Visitor
from dragoman.rpc import Transport
from dragoman.store.sqlite_log import SqliteLog
from dragoman.transports.unix import UnixServer, UnixTransport, bind_unix, connect_unix


class FarAgent:
    """An agent of another process, so that what it costs is not counted as the host's."""

    name = "bench"

    def __init__(self, path: str) -> None:
        self._path = path

    async def start(self, cwd: str, env: Mapping[str, str] | None) -> Transport:
        return await connect_unix(self._path)


async def main(folder: Path, agents: str) -> None:
    settings = HostSettings(sessions_per_principal=100_000)
    host = Host(SqliteLog(folder / "log.db"), [FarAgent(agents)], settings=settings)
    tasks: set[asyncio.Task[None]] = set()

    def opened(transport: UnixTransport) -> None:
        task = asyncio.get_running_loop().create_task(host.serve(transport, Visitor()))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    path = f"{folder}/host.sock"
    server = UnixServer(bind_unix(path), opened)
    if hasattr(dragoman.host.environment, "collect_rarely"):  # as the programs of a host do; an earlier tree does not
        dragoman.host.environment.collect_rarely()
    gc.freeze()
    print(path, dragoman.__file__, flush=True)
    await asyncio.Event().wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
