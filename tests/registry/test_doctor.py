"""What the doctor finds missing, its advice how to get it, and how an agent describes itself."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import AgentExited, ConfigError, ConnectionClosed, RequestError
from dragoman.registry.agents import AgentEntry, resolve_command
from dragoman.registry.doctor import DoctorFinding, examine, probe
from dragoman.registry.quirks import Quirks
from tests.registry.kit import write

ECHO = """\
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], RESULT}), flush=True)
"""


def program(folder: Path, name: str, text: str, *, mode: int = 0o755) -> Path:
    path = write(folder / name, text)
    path.chmod(mode)
    return path


def found(command: list[str], path: Path | str = "/nowhere", **more: Any) -> dict[str, DoctorFinding]:
    """By what was looked at; of two the one that is missing."""
    name = more.pop("name", "mine")
    variables = {"PATH": str(path), **more.pop("variables", {})}
    entry = AgentEntry(name=name, command=tuple(command), source="user", where="here", **more)
    findings = sorted(examine(entry, variables), key=lambda finding: finding.state == "missing")
    return {finding.what: finding for finding in findings}


def fake_node(folder: Path, version: str) -> None:
    program(folder, "node", f"#!/bin/sh\necho {version}\n")


@pytest.mark.parametrize(
    ("command", "fix"),
    [
        ("npx -y @google/gemini-cli --acp", "install Node.js"),
        ("uvx openhands acp", "install uv"),
        ("gemini --acp", "npm install -g @google/gemini-cli"),
        ("vibe-acp", "pip install 'mistral-vibe'"),
        ("unheard-of", "install it, or give its full path"),
        ("/nowhere/unheard-of", "install it, or give its full path"),
    ],
)
def test_program_that_is_missing_comes_with_how_to_get_it(command: str, fix: str) -> None:
    finding = found(command.split())["program"]
    assert finding.state == "missing"
    assert command.split(maxsplit=1)[0] in finding.detail
    assert fix in finding.fix


def test_command_with_its_arguments_in_one_word_is_explained(tmp_path: Path) -> None:
    program(tmp_path, "gemini", "#!/bin/sh\n")
    finding = found(["gemini --acp"], tmp_path)["program"]
    assert finding.state == "missing"
    assert "the others in args" in finding.fix


def test_file_that_cannot_be_run_and_folder_are_distinguished(tmp_path: Path) -> None:
    path = program(tmp_path, "agent", "x", mode=0o644)
    assert "not executable" in found([str(path)])["program"].detail
    assert "a folder" in found([str(tmp_path)])["program"].detail


def test_interpreter_of_a_script_is_looked_for(tmp_path: Path) -> None:
    path = program(tmp_path, "agent", "#!/usr/bin/env -S node --no-warnings\n")
    finding = found([str(path)])["node"]
    assert finding.state == "missing"
    assert "agent is a script for it" in finding.detail
    fake_node(tmp_path, "v22.1.0")
    finding = found([str(path)], tmp_path)["node"]
    assert (finding.state, finding.detail) == ("ok", "v22.1.0")


def test_node_that_is_too_old_for_a_package_is_reported(tmp_path: Path) -> None:
    """npm installs such a package without a warning."""
    fake_node(tmp_path, "v20.20.2")
    package = tmp_path / "node_modules" / "@lark" / "agent"
    write(package / "package.json", {"name": "@lark/agent", "version": "0.99.1", "engines": {"node": ">=22.13"}})
    program(package, "dist/index.js", "#!/usr/bin/env node\n")
    link = tmp_path / "node_modules" / ".bin" / "lark"
    link.parent.mkdir()
    link.symlink_to("../@lark/agent/dist/index.js")
    for command in ([str(link)], ["node", str(package / "dist" / "index.js"), "--acp"]):
        finding = found(command, tmp_path)["node"]
        assert finding.state == "missing"
        assert finding.detail == "@lark/agent 0.99.1 needs node >=22.13, this is v20.20.2"
    fake_node(tmp_path, "v22.13.0")
    assert found([str(link)], tmp_path)["node"].state == "ok"


def test_npx_needs_node_too(tmp_path: Path) -> None:
    program(tmp_path, "npx", "#!/bin/sh\necho 11.0.0\n")
    assert found(["npx", "lark"], tmp_path)["node"].state == "missing"
    fake_node(tmp_path, "v22.1.0")
    findings = found(["npx", "lark"], tmp_path)
    assert (findings["npx"].detail, findings["node"].detail) == ("11.0.0", "v22.1.0")


def test_runtime_that_does_not_run_is_missing(tmp_path: Path) -> None:
    program(tmp_path, "uvx", "#!/bin/sh\nexit 127\n")
    assert found(["uvx", "lark"], tmp_path)["uvx"].state == "missing"


def test_variables_are_a_note_because_a_login_does_as_well(tmp_path: Path) -> None:
    program(tmp_path, "gemini", "#!/bin/sh\n")
    finding = found(["gemini"], tmp_path)["environment"]
    assert (finding.state, finding.detail) == ("note", "GEMINI_API_KEY or GOOGLE_API_KEY is not set")
    assert "logged in" in finding.fix
    for how in ({"variables": {"GEMINI_API_KEY": "secret"}}, {"env": {"GEMINI_API_KEY": "secret"}}):
        finding = found(["gemini"], tmp_path, **how)["environment"]
        assert (finding.state, finding.detail) == ("ok", "GEMINI_API_KEY is set")


def test_codex_home_among_temporary_files_is_noted(tmp_path: Path) -> None:
    variables = {"CODEX_HOME": str(tmp_path / "tmp" / "codex"), "TMPDIR": str(tmp_path / "tmp"), "OPENAI_API_KEY": "x"}
    assert "its sandbox refuses" in found(["codex-acp"], variables=variables)["environment"].detail
    variables["TMPDIR"] = str(tmp_path / "other")
    assert found(["codex-acp"], variables=variables)["environment"].state == "ok"


def test_quirks_and_problems_are_among_the_findings() -> None:
    quirks = Quirks(withhold=frozenset({"terminal"}), spare=("hub",), missing_file="empty", evidence="x.jsonl")
    finding = found(["a"], quirks=quirks)["quirks"]
    assert finding.detail == "withholds terminal, spares 'hub', a missing file reads as empty (x.jsonl)"
    assert found([], problem="not installed; do this")["configuration"].state == "missing"


@pytest.mark.parametrize(
    ("command", "detail", "fix"),
    [
        (
            ["uvx", "kimi-cli", "acp"],
            "kimi-cli >=1.52.0: it only prints that it is no longer maintained, and ends",
            "kimi-code",
        ),
        (
            ["npx", "-y", "@zed-industries/claude-code-acp"],
            "@zed-industries/claude-code-acp: it was replaced",
            "claude-agent-acp",
        ),
    ],
)
def test_a_package_that_was_replaced_is_named(command: list[str], detail: str, fix: str) -> None:
    finding = found(command)["package"]
    assert (finding.state, finding.detail) == ("note", detail)
    assert fix in finding.fix
    assert "package" not in found(["cursor-agent", "acp"])


# A real initialize


def echo(tmp_path: Path, answer: str) -> AgentEntry:
    return resolve_command([sys.executable, str(write(tmp_path / "agent.py", ECHO.replace("RESULT", answer)))])


async def test_answer_of_the_agent_names_it_and_its_capabilities(tmp_path: Path) -> None:
    answer = {
        "protocolVersion": 1,
        "agentInfo": {"name": "lark", "version": "1.0", "title": "Lark"},
        "agentCapabilities": {"loadSession": True},
        "authMethods": [
            {"id": "login", "name": "Log in"},
            {"id": "key", "name": "Key", "type": "env_var", "vars": [{"name": "LARK_KEY_X"}, {"name": "PATH"}]},
        ],
    }
    result = await probe(echo(tmp_path, f'"result": json.loads({json.dumps(answer)!r})'), tmp_path, seconds=20)
    assert (result.name, result.version, result.title, result.protocol_version) == ("lark", "1.0", "Lark", 1)
    assert result.capabilities["loadSession"] is True
    assert [(login.id, login.type, login.missing) for login in result.logins] == [
        ("login", "agent", ()),
        ("key", "env_var", ("LARK_KEY_X",)),
    ]
    assert 0 < result.seconds < 20


async def test_agent_may_have_no_name(tmp_path: Path) -> None:
    result = await probe(echo(tmp_path, '"result": {"protocolVersion": 1}'), tmp_path, seconds=20)
    assert (result.name, result.version, result.capabilities, result.logins) == ("", "", {}, ())


async def test_agent_that_cannot_be_started_is_an_error_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no"):
        await probe(echo(tmp_path, '"error": {"code": -32603, "message": "no"}'), tmp_path, seconds=20)
    with pytest.raises(AgentExited, match="broken pipe dream"):
        await probe(resolve_command(["sh", "-c", "echo broken pipe dream >&2; exit 3"]), tmp_path, seconds=20)
    with pytest.raises(ConfigError, match="not found"):
        await probe(resolve_command(["no-such-agent-anywhere"]), tmp_path, seconds=20)
    with pytest.raises(ConnectionClosed, match=r"did not answer initialize within 0\.2 seconds"):
        await probe(resolve_command(["sh", "-c", "cat > /dev/null"]), tmp_path, seconds=0.2)


async def test_environment_of_the_entry_reaches_the_agent(tmp_path: Path) -> None:
    answer = '"result": {"protocolVersion": 1, "agentInfo": {"name": __import__("os").environ["WHO"], "version": "1"}}'
    entry = echo(tmp_path, answer)
    entry = AgentEntry(name="x", command=entry.command, source="user", where="", env={"WHO": "lark"})
    assert "WHO" not in os.environ
    assert (await probe(entry, tmp_path, seconds=20)).name == "lark"
