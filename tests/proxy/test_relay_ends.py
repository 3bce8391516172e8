"""How the three programs between an editor and an agent end: one table of exit codes, each seen with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.versions.line_client import DRAGOMAN, SECONDS, LineClient, program

RELAYS = {
    "guard": ["guard", "--"],
    "translate": ["translate", "--client", "1", "--agent", "1", "--"],
    "conduct": ["conduct", "--"],
}
# Answers everything, ends as its word says with the first request for a session, and with 5 when its input ends.
AGENT = """
import json, os, signal, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "session/new":
        if sys.argv[1] == "exits":
            sys.exit(7)
        if sys.argv[1] == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if sys.argv[1] == "writes a bad line":
            print("{not a message", flush=True)
    result = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "a", "version": str(os.getpid())}}
    if asked.get("method") == "session/new":
        result = {"sessionId": "s"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
sys.exit(5)
"""
GREETING = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "e", "version": "1"}}
NEW = {"cwd": "/tmp", "mcpServers": []}


async def greet(editor: LineClient) -> int:
    """The pid of the agent."""
    return int((await editor.ask("initialize", GREETING))["agentInfo"]["version"])


async def ended(editor: LineClient) -> int:
    async with asyncio.timeout(SECONDS):
        return await editor.process.wait()


async def agent_ends(editor: LineClient) -> int:
    await greet(editor)
    editor.send({"id": "new", "method": "session/new", "params": NEW})
    return await ended(editor)


async def cannot_start(editor: LineClient) -> int:
    editor.send({"id": 1, "method": "initialize", "params": GREETING})
    return (await editor.finish())[0]


async def editor_closes(editor: LineClient) -> int:
    await greet(editor)
    return (await editor.finish())[0]


async def bad_line_of_the_agent(editor: LineClient) -> int:
    await greet(editor)
    assert (await editor.ask("session/new", NEW))["sessionId"] == "s", "the conversation goes on"
    return (await editor.finish())[0]


async def bad_line_of_the_editor(editor: LineClient) -> int:
    await greet(editor)
    assert editor.process.stdin is not None
    editor.process.stdin.write(b"{not a message\n")
    assert (await editor.read())["error"]["code"] == -32700
    assert (await editor.ask("session/new", NEW))["sessionId"] == "s", "the conversation goes on"
    return (await editor.finish())[0]


def by_signal(number: signal.Signals) -> Callable[[LineClient], Awaitable[int]]:
    async def end(editor: LineClient) -> int:
        pid = await greet(editor)
        editor.process.send_signal(number)
        code = await ended(editor)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        return code

    return end


# What ends it, the word of the agent, and the exit codes of guard, translate and conduct. When the editor leaves, a
# pair ends with the code of its agent, which reads the end of its input; a chain ends as one thing, with 0.
ENDS: dict[str, tuple[Callable[[LineClient], Awaitable[int]], str, tuple[int, int, int]]] = {
    "the agent exits with 7": (agent_ends, "exits", (7, 7, 7)),
    "the agent is killed": (agent_ends, "is killed", (137, 137, 137)),
    "the agent cannot be started": (cannot_start, "", (4, 4, 4)),
    "the editor closes first": (editor_closes, "stays", (5, 5, 0)),
    "SIGTERM": (by_signal(signal.SIGTERM), "stays", (143, 143, 143)),
    "SIGINT": (by_signal(signal.SIGINT), "stays", (130, 130, 130)),
    "a bad line of the agent": (bad_line_of_the_agent, "writes a bad line", (5, 5, 0)),
    "a bad line of the editor": (bad_line_of_the_editor, "stays", (5, 5, 0)),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("relay", RELAYS)
async def test_exit_codes(relay: str, end: str, tmp_path: Path) -> None:
    drive, word, codes = ENDS[end]
    agent = [sys.executable, "-S", "-c", AGENT, word] if word else [str(tmp_path / "no-such-agent")]
    async with program(*DRAGOMAN, *RELAYS[relay], *agent, cwd=tmp_path) as editor:
        assert await drive(editor) == codes[list(RELAYS).index(relay)]
