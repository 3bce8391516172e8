"""What applies when the user and a project both have settings: a project proposes and restricts, the user decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.settings import EffectiveSettings, load_settings
from dragoman.settings.acceptances import fingerprint, mcp_fingerprint


class Home:
    """The configuration folder of one user, and a project."""

    def __init__(self, tmp_path: Path) -> None:
        self.config, self.project = tmp_path / "config", tmp_path / "project"
        self.config.mkdir()
        (self.project / ".dragoman").mkdir(parents=True)

    def user(self, settings: object) -> None:
        (self.config / "settings.json").write_text(json.dumps(settings))

    def repository(self, settings: object) -> None:
        (self.project / ".dragoman" / "settings.json").write_text(json.dumps(settings))

    def load(self) -> EffectiveSettings:
        return load_settings(self.config, self.project)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_without_files_nothing_is_set(home: Home, tmp_path: Path) -> None:
    for settings in (home.load(), load_settings(tmp_path / "none")):
        assert settings.rules() == []
        assert settings.mcp_servers() == {}
        assert (settings.model, settings.title_model, settings.mode, settings.default_agent) == ("", "", "", "")
        assert settings.notes == ()


def test_project_can_deny_and_ask_but_not_allow_or_choose(home: Home) -> None:
    home.user({"rules": {"allow": ["edit:src/**"], "ask": ["fetch"]}, "model": "mine", "mode": "plan"})
    home.repository({"rules": {"allow": ["*"], "deny": ["edit:.env"]}, "model": "theirs", "mode": "full"})
    settings = home.load()
    assert [(rule.action, rule.text, rule.scope) for rule in settings.rules()] == [
        ("ask", "fetch", "pinned"),
        ("allow", "edit:src/**", "pinned"),
        ("deny", "edit:.env", "repository"),
    ]
    assert (settings.model, settings.mode) == ("mine", "plan")
    assert len(settings.notes) == 3


@pytest.mark.parametrize("owner", ["user", "repository"])
def test_rule_that_cannot_be_understood_names_its_file(home: Home, owner: str) -> None:
    getattr(home, owner)({"rules": {"deny": ["reed"]}})
    with pytest.raises(ConfigError, match=r"settings\.json: rules\.deny"):
        home.load().rules()


def test_settings_cannot_allow_everything(home: Home) -> None:
    home.user({"rules": {"allow": ["*"]}})
    with pytest.raises(ConfigError, match=r"rules\.allow"):
        home.load().rules()


def test_settings_without_a_project_cannot_have_acceptances(home: Home) -> None:
    settings = load_settings(home.config)
    assert not settings.is_accepted("agent", "x", "0")
    assert not settings.withdraw("agent", "x")


def test_default_of_a_project_counts_after_it_was_accepted(home: Home) -> None:
    home.user({"agent_servers": {"bold": {"command": "bold", "args": ["--yolo"]}}})
    home.repository({"default_agent": "bold"})
    settings = home.load()
    assert settings.default_agent == ""
    assert settings.proposed_default_agent == "bold"
    settings.accept("default", "bold", fingerprint(("bold",)))
    assert home.load().default_agent == "bold"
    home.repository({"default_agent": "scripted"})
    assert home.load().default_agent == ""


SERVER = {"command": "db", "args": ["--ro"], "env": {"A": "1"}}
REMOTE = {"url": "https://example.org/mcp", "headers": {"X": "1"}}


@pytest.mark.parametrize(
    ("server", "swapped"),
    [
        (SERVER, {**SERVER, "command": "evil"}),
        (SERVER, {**SERVER, "args": ["--rw"]}),
        (SERVER, {**SERVER, "env": {"A": "2"}}),
        (SERVER, REMOTE),
        (REMOTE, {**REMOTE, "url": "https://evil.example/mcp"}),
        (REMOTE, {**REMOTE, "headers": {"X": "2"}}),
    ],
)
def test_server_of_a_project_is_used_only_as_it_was_accepted(
    home: Home, server: dict[str, Any], swapped: dict[str, Any]
) -> None:
    home.user({"mcp_servers": {"mine": {"command": "mine"}}})
    home.repository({"mcp_servers": {"db": server, "MINE": {"command": "evil"}}})
    settings = home.load()
    assert settings.mcp_servers() == {"mine": {"command": "mine"}}
    assert settings.proposed_mcp_servers() == {"db": server}
    assert any("'MINE' is not used" in note for note in settings.notes)
    settings.accept("mcp", "db", mcp_fingerprint(server))
    assert home.load().mcp_servers() == {"mine": {"command": "mine"}, "db": server}
    home.repository({"mcp_servers": {"db": swapped}})
    assert home.load().mcp_servers() == {"mine": {"command": "mine"}}
