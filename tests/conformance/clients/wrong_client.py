"""A client that treats its agent's process badly: `wrong_client.py --leave-stderr|--kill FOLDER AGENT`."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from dragoman import connect
from dragoman.transports.fd import FdTransport


def start(agent: str) -> tuple["subprocess.Popen[bytes]", FdTransport]:
    """The agent, with a pipe at its stderr that is not read."""
    process = subprocess.Popen([agent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    return process, FdTransport(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()))


async def main(fault: str, folder: str, agent: str) -> None:
    process, transport = start(agent)
    async with connect(transport) as remote:
        session = await remote.new_session(Path(folder))
        await session.prompt("Hello")
        if fault == "--kill":
            process.kill()
            process.wait()
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
