"""`dragoman exec --protocol`: agents of version 2, and versions that do not meet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

AGENT = (sys.executable, "-S", str(Path(__file__).parents[1] / "conformance" / "agents" / "version2.py"))
ONLY_1 = (sys.executable, "-m", "dragoman", "agent", "--model", "scripted", "--protocol", "1")


def execute(
    protocol: str, words: str, agent: tuple[str, ...], cwd: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "dragoman", "exec", "--protocol", protocol, "--no-ledger", *options, words)
    return subprocess.run([*command, "--", *agent], cwd=cwd, capture_output=True, text=True, check=False, timeout=120)


def result_of(protocol: str, words: str, agent: tuple[str, ...], cwd: Path, *options: str) -> dict[str, Any]:
    done = execute(protocol, words, agent, cwd, "--output", "json", *options)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_a_turn_of_version_2_has_text_tools_and_the_output_of_terminals(tmp_path: Path) -> None:
    found = result_of("2", "hello", AGENT, tmp_path)
    assert (found["text"], found["stop_reason"], found["exit_code"]) == ("You wrote: hello", "end_turn", 0)
    (call,) = result_of("2", "run", AGENT, tmp_path)["tool_calls"]
    assert (call["command"], call["output"], call["exit_code"], call["status"]) == ("make", "built\n", 0, "completed")


def test_output_of_the_agents_terminals_is_shown(tmp_path: Path) -> None:
    assert "│ built" in execute("2", "run", AGENT, tmp_path).stderr


def test_rules_decide_about_a_command_that_has_no_tool_call(tmp_path: Path) -> None:
    assert result_of("2", "ask", AGENT, tmp_path, "--allow", "execute:make")["text"] == "outcome selected"
    assert result_of("2", "ask", AGENT, tmp_path)["text"] == "outcome cancelled"


def test_the_mode_is_set_by_the_option_of_version_2(tmp_path: Path) -> None:
    assert result_of("2", "hello", AGENT, tmp_path, "--mode", "code")["exit_code"] == 0


def test_auto_takes_what_the_agent_speaks(tmp_path: Path) -> None:
    for agent, words, version in ((AGENT, "hello", 2), (ONLY_1, "say hello", 1)):
        done = execute("auto", words, agent, tmp_path, "--output", "events")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert [event["protocol_version"] for event in events if event.get("event") == "initialized"] == [version]
        assert "hello" in done.stdout


def test_versions_that_do_not_meet_are_an_error_that_names_the_way_out(tmp_path: Path) -> None:
    refused = execute("1", "hello", AGENT, tmp_path)
    assert refused.returncode != 0
    assert "speaks only version 2" in refused.stderr
    assert "--protocol" in refused.stderr
    refused = execute("2", "hello", ONLY_1, tmp_path)
    assert refused.returncode != 0
    assert "speaks version 1 of the protocol, not 2" in refused.stderr
    assert "--protocol" in refused.stderr
