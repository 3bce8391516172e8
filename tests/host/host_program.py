"""A host with its log in a file, on a port: a program that tests kill.

    python -m tests.host.host_program FILE

Writes its port to stdout. Its agent answers "count N" with N updates, one at a time, "drip N" with the same more
slowly, and "large N" with N updates whose bodies are files of their own.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

from dragoman.agent import Agent, AgentSession, Turn
from dragoman.host.host import Host, Visitor
from dragoman.schema import v1
from dragoman.store.sqlite_log import SqliteLog
from dragoman.transports.remote.gate import GateRules, Principal
from dragoman.transports.remote.server import NewConnection, RemoteServer
from tests.host.kit import InProcess
from tests.transports.remote_kit import TOKEN

LARGE = 50_000


def make_agent() -> Agent:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        what, count = turn.text.split()
        for number in range(int(count)):
            await turn.say(f"{number} " + "large " * LARGE if what == "large" else f"{number} ")
            await asyncio.sleep(0.01 if what == "drip" else 0.0005)

    @agent.load_session
    async def load(params: v1.LoadSessionRequest, session: AgentSession) -> None:
        pass

    return agent


async def main(file: Path) -> None:
    host = Host(SqliteLog(file), [InProcess(make_agent)])
    serving: set[asyncio.Task[None]] = set()

    def opened(connection: NewConnection) -> None:
        task = asyncio.get_running_loop().create_task(host.serve(connection.transport, Visitor()))
        serving.add(task)
        task.add_done_callback(serving.discard)

    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    principal = Principal("tests")
    rules = GateRules(
        hosts={b"127.0.0.1:%d" % port}, find_principal=lambda token: principal if token == TOKEN else None
    )
    await RemoteServer(opened, rules).listen(sock)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
