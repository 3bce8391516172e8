"""`dragoman mcp serve` as MCP clients use it: the official client starts it, and the scripted agent runs behind it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")
import mcp_types as types
from httpx2 import AsyncClient
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from dragoman.process import proctable
from tests.project.sources import ROOT

SECONDS = 60.0
SCRIPTED = (sys.executable, "-m", "dragoman.testing.scripted_agent")


class User:
    """Answers questions, and keeps them."""

    def __init__(self, *decisions: str | None) -> None:
        self.decisions = list(decisions)
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params)
        decision = self.decisions.pop(0)
        if decision is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"decision": decision})


@asynccontextmanager
async def connected(
    folder: Path, *words: str, mode: str = "2026-07-28", user: Any = None, agent: tuple[str, ...] = SCRIPTED
) -> AsyncIterator[Client]:
    arguments = ["-m", "dragoman", "mcp", "serve", "--cwd", str(folder), *words, "--", *agent]
    env = {"DRAGOMAN_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}
    with (folder / "log").open("w") as log:
        transport = stdio_client(StdioServerParameters(command=sys.executable, args=arguments, env=env), errlog=log)
        async with asyncio.timeout(SECONDS), Client(transport, mode=mode, elicitation_callback=user) as client:
            yield client


async def prompt(client: Client, task: str, **more: Any) -> types.CallToolResult:
    return await client.call_tool("prompt", {"task": task, **more})


async def test_a_client_starts_the_server_asks_and_is_asked(tmp_path: Path) -> None:
    user, seen = User("Allow", None), list[str | None]()

    async def report(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message)

    async with connected(tmp_path, "--name", "coder", "--allow", "delete:b.txt", mode="legacy", user=user) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"prompt", "result", "cancel"}
        assert "coder" in (tools["prompt"].description or "")
        first = await client.call_tool("prompt", {"task": "permission a.txt"}, progress_callback=report)
        assert first.structured_content["text"] == "allowed (allow)"
        assert set(seen) == {"Deleting a.txt"}
        session = first.structured_content["session_id"]
        refused = await client.call_tool("prompt", {"task": "permission a.txt", "session_id": session})
        assert refused.structured_content["text"] == "not allowed (reject)"
        assert refused.structured_content["session_id"] == session
        ruled = await client.call_tool("prompt", {"task": "permission b.txt"})
        assert ruled.structured_content["text"] == "allowed (allow)"
    assert len(user.asked) == 2
    assert (tmp_path / "log").read_text() == ""


async def test_nothing_is_left_when_the_client_goes_away_in_a_turn(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        "import os, pathlib\nfrom dragoman import Agent\nagent = Agent('x')\n"
        "@agent.prompt\nasync def reply(turn):\n"
        "    pathlib.Path('pid').write_text(str(os.getpid()))\n    await turn.wait()\n"
        "    import asyncio\n    await asyncio.Event().wait()\nagent.run()\n"
    )
    async with connected(tmp_path, agent=(sys.executable, str(program))) as client:
        started = await prompt(client, "go", wait=False)
        assert started.structured_content["status"] == "running"
        while not (tmp_path / "pid").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    pid = int((tmp_path / "pid").read_text())
    async with asyncio.timeout(SECONDS):
        while is_running(pid):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return proctable.status(pid).is_alive
    except OSError:
        return False


async def test_clients_with_the_token_use_it_over_http(tmp_path: Path) -> None:
    arguments = ["mcp", "serve", "--listen", "127.0.0.1:0", "--cwd", str(tmp_path), "--", *SCRIPTED]
    env = {**os.environ, "DRAGOMAN_HOME": str(tmp_path / "home"), "DRAGOMAN_MCP_TOKEN": "secret"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman", *arguments), stdout=asyncio.subprocess.PIPE, env=env
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            url = (await process.stdout.readline()).decode().strip()
            async with AsyncClient() as client:
                assert (await client.post(url, json={})).status_code == 401
                assert (await client.post(url, json={}, headers={"authorization": "Bearer odd"})).status_code == 401
                rebound = {"authorization": "Bearer secret", "host": "evil.example"}
                assert (await client.post(url, json={}, headers=rebound)).status_code in (400, 403, 421)
            async with (
                AsyncClient(headers={"authorization": "Bearer secret"}, timeout=SECONDS) as http,
                Client(streamable_http_client(url, http_client=http), elicitation_callback=User("Allow")) as client,
            ):
                done = await client.call_tool("prompt", {"task": "permission a.txt"})
                assert done.structured_content["text"] == "allowed (allow)"
    finally:
        process.terminate()
        await process.wait()
    assert process.returncode == 0
