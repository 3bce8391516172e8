"""A server with an agent, in a process of its own whose memory and descriptors a test looks at.

    python -m tests.transports.server_program [DESCRIPTORS]

Writes its port to stdout. Its agent answers "N" with N updates.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import sys

from dragoman.agent import Agent, Turn
from dragoman.transports.remote.gate import GateRules, Principal
from dragoman.transports.remote.server import NewConnection, RemoteServer, ServerLimits
from tests.transports.remote_kit import TOKEN


def make_agent() -> Agent:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        for number in range(int(turn.text)):
            await turn.say(f"{number} ")

    return agent


async def main() -> None:
    agent = make_agent()
    serving: set[asyncio.Task[None]] = set()

    def opened(connection: NewConnection) -> None:
        task = asyncio.get_running_loop().create_task(agent.serve(connection.transport))
        serving.add(task)
        task.add_done_callback(serving.discard)

    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    principal = Principal("tests")
    rules = GateRules(
        hosts={b"127.0.0.1:%d" % port}, find_principal=lambda token: principal if token == TOKEN else None
    )
    limits = ServerLimits(sockets=8000, sockets_per_address=8000, connections_per_principal=8000)
    await RemoteServer(opened, rules, limits=limits).listen(sock)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.CRITICAL)
    if len(sys.argv) > 1:
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
    asyncio.run(main())
