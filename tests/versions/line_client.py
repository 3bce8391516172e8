"""A program behind pipes, spoken to in lines of JSON, and clients of each version for it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

SECONDS = 60.0
HERE = Path(__file__).parent
AGENTS = {
    "1": [sys.executable, "-m", "dragoman.testing.scripted_agent"],
    "2025.1": [sys.executable, str(HERE / "dialect_program.py")],
}
DRAGOMAN = [sys.executable, "-m", "dragoman"]
# Our own programs of version 2 are those of version 1 behind a translator.
AGENTS["2"] = [*DRAGOMAN, "translate", "--client", "2", "--agent", "1", "--", *AGENTS["1"]]


class LineClient:
    """Requests and what came in between."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen: list[dict[str, Any]] = []
        self._ids = 0

    def send(self, frame: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

    async def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            line = await self.process.stdout.readline()
        assert line, (await self.log())[-2000:]
        frame: dict[str, Any] = json.loads(line)
        self.seen.append(frame)
        return frame

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The response to a request; everything before it is in `seen`."""
        self._ids += 1
        self.send({"id": self._ids, "method": method, "params": params})
        while True:
            frame = await self.read()
            if frame.get("id") == self._ids and "method" not in frame:
                return frame.get("result", frame.get("error"))

    async def until(self, is_it: Any) -> dict[str, Any]:
        while True:
            frame = await self.read()
            if is_it(frame):
                return frame

    async def log(self) -> str:
        assert self.process.stderr is not None
        async with asyncio.timeout(SECONDS):
            return (await self.process.stderr.read()).decode()

    async def finish(self) -> tuple[int, str]:
        """Close stdin; the exit code and stderr."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        log = await self.log()
        async with asyncio.timeout(SECONDS):
            return await self.process.wait(), log


@asynccontextmanager
async def program(*command: str, cwd: Path, env: dict[str, str] | None = None) -> AsyncIterator[LineClient]:
    """A program behind pipes; it is ended at exit."""
    pipe = asyncio.subprocess.PIPE
    settings = {"XDG_CONFIG_HOME": str(cwd / "config"), "XDG_STATE_HOME": str(cwd / "state"), **(env or {})}
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env={**os.environ, **settings}, limit=1 << 24
    )
    client = LineClient(process)
    try:
        yield client
    finally:
        if process.returncode is None:
            process.kill()
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(SECONDS):
            await process.wait()
        await client.log()
        transport: Any = process
        transport._transport.close()


async def one_turn(client: LineClient, version: str, cwd: Path, prompt: str) -> str:
    """Initialize, open a session, prompt, and return the agent's text; the way of each version."""
    info = {"name": "test", "version": "1"}
    block = {"type": "text", "text": prompt}
    if version == "1":
        await client.ask("initialize", {"protocolVersion": 1, "clientInfo": info})
        session = (await client.ask("session/new", {"cwd": str(cwd), "mcpServers": []}))["sessionId"]
        result = await client.ask("session/prompt", {"sessionId": session, "prompt": [block]})
        assert result["stopReason"] == "end_turn"
    elif version == "2":
        await client.ask("initialize", {"protocolVersion": 2, "info": info, "capabilities": {}})
        session = (await client.ask("session/new", {"cwd": str(cwd)}))["sessionId"]
        await client.ask("session/prompt", {"sessionId": session, "prompt": [block]})
        await client.until(lambda frame: frame.get("params", {}).get("update", {}).get("state") == "idle")
    else:
        params = {"protocol_version": "2025.1", "client_info": info, "capabilities": {}, "working_directory": str(cwd)}
        await client.ask("initialize", params)
        await client.ask("session/new", {"session_id": "own", "mode": "agent"})
        result = await client.ask("session/prompt", {"session_id": "own", "content": [block]})
        assert result["status"] == "ok"
    return "".join(_texts(client.seen))


def _texts(frames: list[dict[str, Any]]) -> list[str]:
    found = []
    for frame in frames:
        params = frame.get("params") or {}
        if params.get("type") == "agent_message_chunk":
            found.append(params["data"]["text"])
        elif params.get("update", {}).get("sessionUpdate") == "agent_message_chunk":
            found.append(params["update"]["content"]["text"])
    return found
