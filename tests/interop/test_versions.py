"""The official SDK's peers of version 2 with our programs of version 1, through `dragoman translate`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.support import DRAGOMAN, PEERS, require
from tests.versions.line_client import program
from tests.warm_programs import our_programs

SECONDS = 90.0
SCRIPTED = (sys.executable, "-m", "dragoman.testing.scripted_agent")


def dragoman(*words: str) -> tuple[str, ...]:
    """Our program, in a process that has imported it."""
    return our_programs().command(*DRAGOMAN[1:], *words)


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=SECONDS)


def ask_v2_agent(words: str, cwd: Path, *options: str) -> tuple[int, Any, str]:
    """One turn of our client with the SDK's agent of version 2."""
    require("ts")
    agent = ("node", str(PEERS / "ts_v2_agent.mjs"))
    translated = dragoman("translate", "--client", "1", "--agent", "2", "--", *agent)
    command = dragoman("exec", "--output", "json", "--verbose", "--no-ledger", *options, words, "--", *translated)
    done = run(*command, cwd=cwd)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_our_client_drives_the_sdks_agent_of_version_2(tmp_path: Path) -> None:
    code, result, _ = ask_v2_agent("hello", tmp_path)
    assert (code, result["text"], result["stop_reason"]) == (0, "You wrote: hello", "end_turn")


def test_a_patch_and_a_terminal_are_shown(tmp_path: Path) -> None:
    _, edited, log = ask_v2_agent("edit", tmp_path)
    assert [(call["title"], call["status"]) for call in edited["tool_calls"]] == [("Edit a.txt", "completed")]
    assert "one diff for each hunk" in log
    _, ran, log = ask_v2_agent("run", tmp_path)
    assert [(call["kind"], call["status"]) for call in ran["tool_calls"]] == [("execute", "completed")]
    assert "built" in log


def test_a_permission_request_is_decided_by_our_rules(tmp_path: Path) -> None:
    _, refused, _ = ask_v2_agent("ask", tmp_path, "--deny", "execute:make")
    assert refused["text"] == "outcome selected no"
    _, allowed, _ = ask_v2_agent("ask", tmp_path, "--allow", "execute:make")
    assert allowed["text"] == "outcome selected yes"


def test_a_failed_turn_and_a_replaced_message(tmp_path: Path) -> None:
    code, failed, _ = ask_v2_agent("fail", tmp_path)
    assert code == 1
    assert failed["error"]["message"].startswith("the model failed")
    _, replaced, log = ask_v2_agent("replace", tmp_path)
    assert replaced["text"].endswith("second")
    assert "not translated: a message that was replaced" in log


async def test_a_cancel_ends_the_turn_as_cancelled(tmp_path: Path) -> None:
    require("ts")
    agent = ("node", str(PEERS / "ts_v2_agent.mjs"))
    async with program(*DRAGOMAN, "translate", "--client", "1", "--agent", "2", "--", *agent, cwd=tmp_path) as talk:
        await talk.ask("initialize", {"protocolVersion": 1})
        session = (await talk.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []}))["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "wait"}]}
        talk.send({"id": "p", "method": "session/prompt", "params": prompt})
        talk.send({"method": "session/cancel", "params": {"sessionId": session}})
        ended = await talk.until(lambda frame: frame.get("id") == "p")
        assert ended["result"] == {"stopReason": "cancelled"}
        code, _ = await talk.finish()
    assert code == 0


def test_the_sdks_client_of_version_2_drives_our_agent(tmp_path: Path) -> None:
    require("ts")
    client = ("node", str(PEERS / "ts_v2_client.mjs"))
    translated = dragoman("translate", "--client", "2", "--agent", "1", "--", *SCRIPTED)
    done = run(*client, "say hello", "tool", "permission", "--", *translated, cwd=tmp_path)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert lines[0] == {"version": 2}
    states = [line["state"] for line in lines if line.get("sessionUpdate") == "state_update"]
    assert states.count("idle") == 3
    assert "requires_action" in states
    assert any(line.get("asked") for line in lines)
    shown = [line["content"]["text"] for line in lines if line.get("sessionUpdate") == "agent_message_chunk"]
    assert "hello" in "".join(shown)


def ask_natively(words: str, cwd: Path, *options: str, protocol: str = "2") -> tuple[int, Any]:
    """One turn of our client in version 2 with the SDK's agent, without a translator."""
    require("ts")
    agent = ("node", str(PEERS / "ts_v2_agent.mjs"))
    command = dragoman("exec", "--protocol", protocol, "--output", "json", "--no-ledger", *options, words)
    done = run(*command, "--", *agent, cwd=cwd)
    return done.returncode, json.loads(done.stdout)


def test_our_client_speaks_version_2_with_the_sdks_agent(tmp_path: Path) -> None:
    for protocol in ("2", "auto"):
        code, result = ask_natively("hello", tmp_path, protocol=protocol)
        assert (code, result["text"], result["stop_reason"]) == (0, "You wrote: hello", "end_turn")
    _, edited = ask_natively("edit", tmp_path)
    assert [(call["title"], len(call["diffs"])) for call in edited["tool_calls"]] == [("Edit a.txt", 1)]
    _, ran = ask_natively("run", tmp_path)
    assert [(call["output"], call["exit_code"]) for call in ran["tool_calls"]] == [("built\n", 0)]
    _, replaced = ask_natively("replace", tmp_path)
    assert replaced["text"] == "second"  # natively, nothing of the first text is left
    _, allowed = ask_natively("ask", tmp_path, "--allow", "execute:make")
    assert allowed["text"] == "outcome selected yes"
    code, failed = ask_natively("fail", tmp_path)
    assert code == 1
    assert failed["error"]["message"].startswith("the model failed")


def test_our_client_of_version_1_learns_that_the_sdks_agent_speaks_version_2(tmp_path: Path) -> None:
    code, refused = ask_natively("hello", tmp_path, protocol="1")
    assert code != 0
    assert "speaks only version 2" in refused["error"]["message"]


def judge(prompts: Path, *agent: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = ("--protocol", "2", "--prompts", str(prompts))
    return run(*dragoman("check", "agent", *words, "--", *agent), cwd=cwd)


@pytest.mark.soak  # about the SDK more than about us; the judge itself has all cases in the test below
def test_the_sdks_agent_of_version_2_breaks_no_rule(tmp_path: Path) -> None:
    require("ts")
    prompts = tmp_path / "prompts.toml"
    prompts.write_text('say = "hello"\nslow = "wait"\nrun = "run"\nask = "ask"\n')
    done = judge(prompts, "node", str(PEERS / "ts_v2_agent.mjs"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_our_agent_breaks_no_rule_of_version_2(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.toml"
    prompts.write_text('say = "say one two"\nslow = "slow"\nrun = "tool"\nask = "permission"\n')
    done = judge(prompts, sys.executable, "-m", "dragoman.testing.scripted_agent", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.soak  # our agent is judged in version 2 without the translator by every run
def test_our_agent_behind_the_translator_breaks_no_rule_of_version_2(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.toml"
    prompts.write_text('say = "say one two"\nslow = "slow"\nrun = "tool"\nask = "permission"\n')
    translated = dragoman("translate", "--client", "2", "--agent", "1", "--", *SCRIPTED)
    done = judge(prompts, *translated, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
