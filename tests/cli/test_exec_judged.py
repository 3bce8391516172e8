"""`dragoman exec` before our own judge of clients."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from dragoman.conformance.case import load_cases
from dragoman.conformance.client_probe import ClientSettings
from dragoman.conformance.client_run import ClientRun
from dragoman.conformance.client_target import ClientProgram

EXEC = (sys.executable, "-m", "dragoman", "exec", "--cwd", "{folder}", "--allow", "*", "hello")


def judged(words: tuple[str, ...], only: tuple[str, ...]) -> dict[str, str]:
    """What was found, by case; nothing for a case that passed or that `exec` has nothing to show for."""
    run = ClientRun(ClientProgram((*EXEC, *words, "--", "{agent}")), ClientSettings(timeout_seconds=20))
    report = asyncio.run(run.run(load_cases("client", only)))
    assert sum(result.status == "pass" for result in report.all) > 0
    return {result.id: result.message for result in report.all if result.status in ("fail", "warn")}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))


@pytest.mark.parametrize("group", ["initialize", "permission", "fs", "terminal", "transport", "cancel", "prompt"])
def test_no_rule_is_broken(group: str) -> None:
    assert judged((), (group,)) == {}


def test_no_rule_is_broken_when_a_session_gets_folders_and_servers(tmp_path: Path) -> None:
    servers = {"mcpServers": {"one": {"command": "env"}, "two": {"url": "http://127.0.0.1:1"}}}
    (tmp_path / "mcp.json").write_text(json.dumps(servers))
    words = ("--mcp-config", str(tmp_path / "mcp.json"), "--add-dir", str(tmp_path))
    assert judged(words, ("session/*servers", "session/*directories", "session/new-members")) == {}
