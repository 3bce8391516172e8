"""`dragoman translate` as a program: every pair of versions, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from dragoman.cli.main import main
from dragoman.versions import VERSIONS
from tests.versions.line_client import AGENTS, DRAGOMAN, SECONDS, one_turn, program

# A prompt that says "Hello" in the words of the script and of the reference agent.
PROMPTS = {"1": "say Hello", "2": "say Hello", "2025.1": "say Hello"}


@pytest.mark.parametrize("agent", VERSIONS)
@pytest.mark.parametrize("client", VERSIONS)
async def test_a_turn_in_every_pair_of_versions(client: str, agent: str, tmp_path: Path) -> None:
    words = ["translate", "--client", client, "--agent", agent, "--", *AGENTS[agent]]
    async with program(*DRAGOMAN, *words, cwd=tmp_path) as talk:
        assert "Hello" in await one_turn(talk, client, tmp_path, PROMPTS[agent])
        code, log = await talk.finish()
    assert code == 0
    is_asked = client == "2025.1" and agent != "2025.1"
    assert log.count("cannot be asked for permission") == is_asked
    assert log.count("30 seconds") == is_asked


async def test_losses_are_reported_once_for_each_kind(tmp_path: Path) -> None:
    agent = [sys.executable, "-c", NOISY]
    async with program(*DRAGOMAN, "translate", "--client", "1", "--agent", "2", "--", *agent, cwd=tmp_path) as talk:
        await talk.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {"terminal": True}})
        for _ in range(3):
            await talk.ask("session/list", {})
        code, log = await talk.finish()
    assert code == 7
    assert log.count("not translated: a notice is left out") == 1
    assert log.count("not translated: the client's terminals") == 1
    assert log.count("a line for the log") == 3
    assert "sent a line that is not a message" in log


NOISY = """
import json, sys
print("not a message")
for line in sys.stdin:
    asked = json.loads(line)
    result = {"protocolVersion": 2, "info": {"name": "n", "version": "1"}, "capabilities": {"session": {}}}
    notice = {"sessionUpdate": "notice", "severity": "info", "title": "t"}
    if asked["method"] != "initialize":
        print("a line for the log", file=sys.stderr, flush=True)
        result = {"sessions": []}
        params = {"sessionId": "s", "update": notice}
        print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
sys.exit(7)
"""


async def test_an_agent_that_dies_fails_the_open_request_and_gives_its_exit_code(tmp_path: Path) -> None:
    agent = [sys.executable, "-c", "import sys; sys.stdin.readline(); sys.exit(3)"]
    async with program(*DRAGOMAN, "translate", "--client", "2", "--", *agent, cwd=tmp_path) as talk:
        answer = await talk.ask("initialize", {"protocolVersion": 2, "info": {"name": "c", "version": "1"}})
        assert answer["code"] == -32603
        async with asyncio.timeout(SECONDS):
            assert await talk.process.wait() == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_agent_too(number: signal.Signals, tmp_path: Path) -> None:
    agent = [sys.executable, "-c", WITH_PID]
    async with program(*DRAGOMAN, "translate", "--client", "2", "--", *agent, cwd=tmp_path) as talk:
        answer = await talk.ask("initialize", {"protocolVersion": 2, "info": {"name": "c", "version": "1"}})
        pid = int(answer["info"]["version"])
        talk.process.send_signal(number)
        async with asyncio.timeout(SECONDS):
            assert await talk.process.wait() == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_killed_translator_leaves_no_agent(tmp_path: Path) -> None:
    agent = [sys.executable, "-c", WITH_PID]
    async with program(*DRAGOMAN, "translate", "--client", "2", "--", *agent, cwd=tmp_path) as talk:
        answer = await talk.ask("initialize", {"protocolVersion": 2, "info": {"name": "c", "version": "1"}})
        pid = int(answer["info"]["version"])
        watch = os.pidfd_open(pid)
        is_gone = asyncio.Event()
        asyncio.get_running_loop().add_reader(watch, is_gone.set)
        try:
            talk.process.kill()
            async with asyncio.timeout(SECONDS):
                await is_gone.wait()
        finally:
            asyncio.get_running_loop().remove_reader(watch)
            os.close(watch)


WITH_PID = """
import json, os, sys, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    asked = json.loads(line)
    result = {"protocolVersion": 1, "agentInfo": {"name": "n", "version": str(os.getpid())}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def test_bad_lines_of_the_client_are_answered_and_the_conversation_goes_on(tmp_path: Path) -> None:
    async with program(*DRAGOMAN, "translate", "--client", "2", "--", *AGENTS["1"], cwd=tmp_path) as talk:
        assert talk.process.stdin is not None
        talk.process.stdin.write(b"nonsense\n[]\n")
        first, second = await talk.read(), await talk.read()
        assert (first["error"]["code"], second["error"]["code"]) == (-32700, -32600)
        answer = await talk.ask("initialize", {"protocolVersion": 2, "info": {"name": "c", "version": "1"}})
        assert answer["protocolVersion"] == 2


def test_settings_for_editors(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["translate", "--client", "2025.1", "--agent", "1", "--print-settings", "--", "/opt/gemini", "--acp"]) == 0
    )
    assert json.loads(capsys.readouterr().out) == {
        "agent_servers": {
            "gemini": {
                "command": "dragoman",
                "args": ["translate", "--client", "2025.1", "--agent", "1", "--", "/opt/gemini", "--acp"],
                "env": {},
            }
        }
    }


@pytest.mark.parametrize("words", [[], ["--lazy", "--", "x"], ["--client", "3", "--", "x"]])
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", *words]) == 2
    assert "hint" in capsys.readouterr().err


def test_a_command_that_cannot_be_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "--", "/nowhere/agent"]) in (2, 4)
    assert "/nowhere/agent" in capsys.readouterr().err
