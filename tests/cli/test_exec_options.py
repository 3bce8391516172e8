"""Options that `exec` passes on to agents which take them, and capabilities that it does not announce."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.exec_kit import Done, Place, place

__all__ = ["place"]

AGENT = Path(__file__).parent / "reporting_agent.py"
DRAFT = {"sessionCapabilities": {"systemPrompt": {}, "resume": {}}, "loadSession": True}


class Named:
    """The reporting agent under the names of well-known programs."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def run(self, program: str, *words: str, capabilities: dict[str, Any] | None = None) -> Done:
        path = self.place.home / program
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {AGENT} "$@"\n')
        path.chmod(0o755)
        self.place.environment["REPORTING_CAPABILITIES"] = json.dumps(capabilities or {})
        return self.place.run(*words, "go", "--", str(path), "--acp")

    def seen(self, program: str, *words: str, capabilities: dict[str, Any] | None = None) -> dict[str, Any]:
        done = self.run(program, *words, capabilities=capabilities)
        assert done.code == 0, done.err
        found: dict[str, Any] = json.loads(done.out)
        return found


@pytest.fixture
def named(place: Place) -> Named:
    return Named(place)


# Capabilities


@pytest.mark.parametrize(
    ("flags", "files", "terminal"),
    [
        ((), True, True),
        (("--no-fs",), False, True),
        (("--no-terminal",), True, False),
        (("--no-fs", "--no-terminal"), False, False),
    ],
)
def test_what_is_not_offered_is_not_announced(
    named: Named, flags: tuple[str, ...], files: bool, terminal: bool
) -> None:
    found = named.seen("some-agent", *flags)["initialize"]["clientCapabilities"]
    announced = found.get("fs") or {}
    assert bool(announced.get("readTextFile")) is files
    assert bool(announced.get("writeTextFile")) is files
    assert bool(found.get("terminal")) is terminal


@pytest.mark.parametrize("mode", ["auto", "require"])
def test_a_sandbox_for_commands_needs_the_terminals(named: Named, mode: str) -> None:
    done = named.run("some-agent", "--no-terminal", "--sandbox", mode)
    assert done.code == 2
    assert f"--no-terminal and --sandbox {mode} contradict each other" in done.err
    assert done.out == ""


# The forms in which agents take options


def test_claude_takes_its_options_in_meta(named: Named) -> None:
    words = ("--append-system-prompt", "Be brief.", "--max-turns", "3", "--allowed-tools", "Read, Grep")
    found = named.seen("claude-agent-acp", *words)
    assert found["argv"] == ["--acp"]
    assert found["session/new"]["_meta"] == {
        "systemPrompt": {"append": "Be brief."},
        "claudeCode": {"options": {"maxTurns": 3, "tools": ["Read", "Grep"]}},
    }


def test_no_tools_at_all_can_be_chosen(named: Named) -> None:
    found = named.seen("claude-agent-acp", "--allowed-tools", "")
    assert found["session/new"]["_meta"] == {"claudeCode": {"options": {"tools": []}}}


def test_a_resumed_session_gets_them_too(named: Named) -> None:
    found = named.seen("claude-agent-acp", "--max-turns", "3", "--resume", "s", capabilities=DRAFT)
    assert found["session/resume"]["_meta"] == {"claudeCode": {"options": {"maxTurns": 3}}}
    found = named.seen("codex-acp", "--append-system-prompt", "Be brief.", "--resume", "s", capabilities=DRAFT)
    assert found["session/resume"]["systemPrompt"]["mode"] == "append"


def test_qwen_and_copilot_take_arguments(named: Named) -> None:
    words = ("--append-system-prompt", "Be brief.", "--max-turns", "3", "--allowed-tools", "read_file,glob")
    found = named.seen("qwen", *words)
    more = ["--append-system-prompt=Be brief.", "--max-session-turns=3", "--core-tools=read_file,glob"]
    assert found["argv"] == ["--acp", *more]
    assert "_meta" not in found["session/new"]
    assert named.seen("copilot", "--allowed-tools", "view")["argv"] == ["--acp", "--available-tools=view"]


@pytest.mark.parametrize("program", ["codex-acp", "some-agent"])
def test_an_agent_that_offers_it_gets_the_system_prompt_of_the_protocol(named: Named, program: str) -> None:
    found = named.seen(program, "--append-system-prompt", "Be brief.", capabilities=DRAFT)
    wanted = {"mode": "append", "content": [{"type": "text", "text": "Be brief."}]}
    assert found["session/new"]["systemPrompt"] == wanted
    assert "systemPrompt" not in named.seen(program, capabilities=DRAFT)["session/new"]


def test_the_built_in_agent_takes_arguments(place: Place) -> None:
    words = ("--append-system-prompt", "Be brief.", "--max-turns", "1", "--output", "json")
    done = place.run("-a", "dragoman", "--model", "scripted", *words, "hello")
    assert done.code == 0, done.err
    command = done.result["agent"]["command"]
    assert command[-4:] == ["--append-system-prompt", "Be brief.", "--max-turns", "1"]


def test_the_built_in_agent_ends_its_turn_at_the_limit(place: Place) -> None:
    (place.project / "a.txt").write_text("alpha")
    ends = [
        place.run("-a", "dragoman", "--model", "scripted", "--max-turns", number, "--output", "json", "read a.txt")
        for number in ("1", "2")
    ]
    assert [(done.code, done.result["stop_reason"]) for done in ends] == [(6, "max_turn_requests"), (0, "end_turn")]


@pytest.mark.parametrize(
    ("option", "value", "takers"),
    [
        ("--append-system-prompt", "Be brief.", "dragoman, claude, qwen"),
        ("--max-turns", "3", "dragoman, claude, qwen"),
        ("--allowed-tools", "Read", "claude, copilot, qwen"),
    ],
)
def test_what_an_agent_does_not_take_is_an_error_with_its_name(
    named: Named, option: str, value: str, takers: str
) -> None:
    done = named.run("some-agent", option, value)
    assert done.code == 2
    assert f"{option}: some-agent does not take it; known to take it: {takers}" in done.err
    assert "hint:" in done.err
    assert done.out == ""


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "many", ""])
def test_the_number_of_turns_is_checked(named: Named, number: str) -> None:
    done = named.run("claude-agent-acp", f"--max-turns={number}")
    assert done.code == 2
    assert "--max-turns takes a whole number above 0" in done.err


# Sessions of an agent that lists them by folder only


def test_sessions_are_listed_if_the_agent_wants_a_folder(place: Place) -> None:
    place.environment["REPORTING_CAPABILITIES"] = json.dumps({"sessionCapabilities": {"list": {}}})
    for words in ((), ("--cwd", ".")):
        done = place.run("list", "--json", *words, "--", sys.executable, "-IS", str(AGENT), verb="sessions")
        assert done.code == 0, done.err
        assert [(row["session_id"], row["cwd"]) for row in json.loads(done.out)] == [("kept", str(place.project))]
