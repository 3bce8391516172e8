"""`dragoman agent doctor`: what is missing, how to get it, and an exit code to rely on."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.doctor import examine_agent
from dragoman.builtin.settings import AgentSettings
from dragoman.cli.main import main
from dragoman.extras import install_command
from dragoman.registry.doctor import DoctorFinding as Finding
from dragoman.settings.credentials import Credentials


def look(folder: Path, env: dict[str, str] | None = None, **given: Any) -> dict[str, Finding]:
    home = folder / "home"
    settings = AgentSettings(
        **{"model": "scripted", "store": home / "sessions.db", "rules_file": home / "rules.json", **given}
    )
    found = examine_agent(settings, folder, {"PATH": "/opt/tools", **(env or {})})
    return {finding.what: finding for finding in found}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without keys, and a home of its own."""
    for name in [
        name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL")) or name.startswith("DRAGOMAN")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_machine_with_a_model_is_ready(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "doctor", "--model", "scripted"]) == 0
    shown = capsys.readouterr().out
    assert "ok: model: scripted" in shown
    assert "missing" not in shown
    assert not (place / "home").exists()


def test_json_says_the_same(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "doctor", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["ready"] is False
    (model,) = [finding for finding in document["findings"] if finding["what"] == "model"]
    assert model["state"] == "missing"
    assert "ANTHROPIC_API_KEY" in model["fix"]


def test_json_alone_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "--json"]) == 2
    assert "doctor" in capsys.readouterr().err


def test_a_key_that_is_missing_is_named_and_one_that_is_there_is_not_shown(place: Path) -> None:
    found = look(place, model="anthropic:claude-sonnet-5-5")
    assert found["model key"].state == "missing"
    assert found["model key"].fix == "dragoman agent login anthropic, or export ANTHROPIC_API_KEY=..."
    found = look(place, {"ANTHROPIC_API_KEY": "s3cret"}, model="anthropic:claude-sonnet-5-5")
    assert (found["model key"].state, found["model key"].detail) == ("ok", "ANTHROPIC_API_KEY")
    assert "s3cret" not in str(found)


def test_it_states_where_each_key_comes_from_and_never_shows_one(place: Path) -> None:
    stored = Credentials(place / "home")
    stored.put("anthropic", "sk-ant-stored-key")
    stored.put("openai", "sk-proj-stored-key")
    found = look(place, {"OPENAI_API_KEY": "sk-proj-set-key"}, model=None)
    assert found["model"].detail.startswith("anthropic:")
    assert found["model key"].detail == f"stored in {stored.path}"
    assert found["stored key of anthropic"].detail == f"in {stored.path}"
    assert "OPENAI_API_KEY is set, and is used in its place" in found["stored key of openai"].detail
    assert "-key" not in str(found)
    found = look(place, {"OPENAI_API_KEY": "sk-proj-set-key"}, model="openai:gpt-5")
    assert found["model key"].detail == "OPENAI_API_KEY"


def test_a_file_of_keys_that_is_broken_is_missing_and_not_shown(place: Path) -> None:
    (place / "home").mkdir()
    (place / "home" / "credentials.json").write_text('{"version": 1, "keys": {"openai": "sk-proj-in-the-wrong-place"}}')
    found = look(place)["stored keys"]
    assert (found.state, "dragoman agent login" in found.fix) == ("missing", True)
    assert "sk-proj" not in str(found)


def test_it_states_plainly_that_no_real_model_can_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "doctor"]) == 2
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("no real model can run here yet: store a key with dragoman agent login PROVIDER")
    assert main(["agent", "doctor", "--model", "scripted"]) == 0
    assert "note: real model: none can run here" in capsys.readouterr().out
    assert main(["agent", "doctor", "--model", "scripted", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["real_model"] is False


def test_an_unknown_model_is_missing_and_a_misspelt_one_is_a_note(place: Path) -> None:
    assert look(place, model="oracle:delphi")["model"].state == "missing"
    found = look(place, {"ANTHROPIC_API_KEY": "x"}, model="anthropic:claude-sonet-5-5")
    assert found["model"].state == "note"
    assert "anthropic:claude-sonnet-5-5" in found["model"].fix


def test_the_title_model_is_checked_too(place: Path) -> None:
    assert look(place, title_model="openai:gpt-6-luna")["title model key"].state == "missing"


def test_packages_that_are_not_there_are_missing_where_they_are_needed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.builtin.doctor._has", lambda module: False)
    found = look(place)
    assert (found["httpx2"].state, found["mcp"].state) == ("note", "note")
    assert "pydantic-ai" not in found
    found = look(place, {"ANTHROPIC_API_KEY": "x"}, model="anthropic:claude-sonnet-5-5")
    assert (found["httpx2"].state, found["httpx2"].fix) == ("missing", install_command("agent"))
    assert "pydantic-ai" not in found
    found = look(place, {"AZURE_OPENAI_ENDPOINT": "x"}, model="azure:gpt-5")
    assert (found["httpx2"].state, found["pydantic-ai"].state) == ("note", "missing")
    assert found["pydantic-ai"].fix == install_command("providers")


def test_ripgrep_is_found_or_a_note(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(place))
    assert look(place)["ripgrep"].state == "note"
    (place / "rg").write_text("")
    (place / "rg").chmod(0o755)
    assert look(place)["ripgrep"].detail == str(place / "rg")


def test_a_store_that_cannot_be_used_is_missing(place: Path) -> None:
    assert look(place)["store"].state == "ok"
    (place / "file").write_text("")
    assert look(place, store=place / "file" / "sessions.db")["store"].state == "missing"
    (place / "sessions.db").write_text("this is no database, and long enough to be taken for a damaged one " * 20)
    found = look(place, store=place / "sessions.db")["store"]
    assert found.state == "missing"
    assert "--store" in found.fix


def test_rules_that_cannot_be_read_are_missing(place: Path) -> None:
    (place / "rules.json").write_text("{")
    assert look(place, rules_file=place / "rules.json")["rules"].state == "missing"


def test_the_login_shell_is_asked_where_path_is_bare(place: Path) -> None:
    assert "not needed" in look(place)["login shell"].detail
    shell = place / "shell"
    shell.write_text(f'#!/bin/sh\nexport PATH={place}/tools:$PATH\nshift 2\nexec /bin/sh "$@"\n')
    shell.chmod(0o755)
    bare = {"PATH": "/usr/bin:/bin", "SHELL": str(shell), "HOME": str(place)}
    assert "completes" in look(place, bare)["login shell"].detail
    assert look(place, {**bare, "SHELL": "/bin/false"})["login shell"].state == "note"


def test_instructions_and_commands_are_listed(place: Path) -> None:
    (place / "AGENTS.md").write_text("be brief")
    (place / ".dragoman" / "commands").mkdir(parents=True)
    (place / ".dragoman" / "commands" / "ship.md").write_text("Ship it.")
    found = look(place)
    assert found["instructions"].detail == str(place / "AGENTS.md")
    assert found["commands"].detail == "/ship"
    (place / "AGENTS.md").write_text("word\n" * 10_000)
    assert look(place)["instructions"].state == "note"


def test_it_answers_as_a_program(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "agent", "doctor", "--model", "scripted"],
        cwd=place, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("it can work here\n")
