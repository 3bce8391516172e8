"""`dragoman wrap claude` from outside, with a fake program in PATH."""

import json
import os
import sys
from pathlib import Path

import pytest

from dragoman.cli import exits
from dragoman.cli.main import main
from dragoman.client import spawn
from tests.adapters.claude.claude_fixtures import install
from tests.adapters.fixtures import Answers, ask, text_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; the user's files and the program are next to it."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", f"{install(tmp_path).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    return work


async def test_it_is_served_to_a_client(folder: Path) -> None:
    async with spawn(
        sys.executable, "-m", "dragoman", "wrap", "claude", cwd=folder, permission=Answers("allow")
    ) as remote:
        assert remote.info is not None
        assert remote.info.title == "Claude Code"
        session = await remote.new_session(folder)
        assert "ran make all" in str(await ask(session, "RUN make all"))
        assert text_of(await ask(session, "Hello")) == "Hello from Claude."


def test_settings_for_an_editor_are_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wrap", "claude", "--print-settings", "zed"]) == exits.OK
    entry = json.loads(capsys.readouterr().out)["agent_servers"]["claude"]
    assert [entry["command"], *entry["args"]] == [sys.executable, "-P", "-m", "dragoman", "wrap", "claude"]


def test_it_gets_a_name_and_runs_under_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "add", "mine", "--wrap", "claude"]) == exits.OK
    assert main(["exec", "-a", "mine", "Hello"]) == exits.OK
    assert "Hello from Claude." in capsys.readouterr().out
    assert main(["exec", "-a", "mine", "--allow", "execute:make all", "RUN make all"]) == exits.OK
    assert '"behavior": "allow"' in capsys.readouterr().out
