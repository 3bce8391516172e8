"""One settings file: what is read from it, and where the error points in one that is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.settings.file import Owner, read_settings_file
from tests.registry.kit import write


def load(tmp_path: Path, content: object, owner: Owner = "user") -> Any:
    return read_settings_file(write(tmp_path / "settings.json", content), owner)


def test_missing_file_is_empty(tmp_path: Path) -> None:
    settings = read_settings_file(tmp_path / "none.json", "user")
    assert settings.servers == {}
    assert settings.notes == ()


@pytest.mark.parametrize("extra", [{}, {"type": "custom"}])
def test_agent_has_a_command_arguments_and_environment(tmp_path: Path, extra: dict[str, str]) -> None:
    entry = {"command": "gemini", "args": ["--acp"], "env": {"KEY": "v"}, **extra}
    settings = load(tmp_path, {"agent_servers": {"my agent": entry}})
    server = settings.servers["my agent"]
    assert server.command == ("gemini", "--acp")
    assert server.env == {"KEY": "v"}
    assert server.where == f"{settings.path}:1:32"
    assert settings.notes == ()


def test_home_is_expanded_in_the_command_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    settings = load(tmp_path, {"agent_servers": {"x": {"command": "~/bin/agent", "args": ["~/x"]}}})
    assert settings.servers["x"].command == ("/home/me/bin/agent", "~/x")


# Settings that are wrong, the text that the error points at, and a part of the error.
WRONG: list[tuple[object, str, str]] = [
    ([], "[]", "settings must be an object"),
    ({"agent_servers": []}, "[]", "agent_servers must be an object"),
    ({"agent_servers": {"x": 1}}, "1", "an agent must be an object"),
    ({"agent_servers": {"x": {}}}, "{}", "command must be a string"),
    ({"agent_servers": {"x": {"command": ""}}}, '{"command"', "command must be a string"),
    ({"agent_servers": {"x": {"command": ["a", "b"]}}}, '{"command"', "command must be a string"),
    ({"agent_servers": {"x": {"command": "a", "args": "--acp"}}}, '"--acp"', "args must be a list"),
    ({"agent_servers": {"x": {"command": "a", "args": [1]}}}, "1]", "an argument must be a string"),
    ({"agent_servers": {"x": {"command": "a", "env": []}}}, "[]", "env must be an object"),
    ({"agent_servers": {"x": {"command": "a", "env": {"A": 1}}}}, "1}", "the value of A must be a string"),
    ({"agent_servers": {"x": {"command": "a", "env": {"A=B": "1"}}}}, '"1"', "name of a variable"),
    ({"agent_servers": {"x": {"command": "a", "type": "extension"}}}, '"extension"', "of agent 'x' is unknown"),
    ({"agent_servers": {"x": {"type": "registry", "id": 3}}}, "3", "id must be a string"),
    ({"agent_servers": {"-x": {"command": "a"}}}, '{"command"', "cannot start with a dash"),
    ({"agent_servers": {"": {"command": "a"}}}, '{"command"', "printable characters"),
    ({"agent_servers": {"a\u202eb": {"command": "a"}}}, '{"command"', "printable characters"),
    ({"agent_servers": {"x": {"command": "a", "quirks": 1}}}, "1", "quirks must be an object"),
    ({"agent_servers": {"x": {"command": "a", "quirks": {"speed": 1}}}}, "1", "'speed' is not a quirk"),
    ({"agent_servers": {"x": {"command": "a", "quirks": {"withhold": ["fs"]}}}}, '["fs"]', "cannot be withheld"),
    ({"agent_servers": {"x": {"command": "a", "quirks": {"withhold": "fs"}}}}, '"fs"', "a list of strings"),
    ({"agent_servers": {"x": {"command": "a", "quirks": {"spare": [""]}}}}, '[""]', "cannot be empty"),
    ({"agent_servers": {"x": {"command": "a", "quirks": {"missing_file": 0}}}}, "0", '"error" or "empty"'),
    ({"agent_servers": {"x": {"command": "a", "env_allow": "A"}}}, '"A"', "env_allow must be a list of strings"),
    ({"agent_servers": {"x": {"command": "a", "env_allow": ["A=1"]}}}, '["A', "cannot be the name of a variable"),
    ({"agent_servers": {"x": {"command": "a", "dangerously_allow_all": 1}}}, "1", "must be true or false"),
    ({"restore_protected_files": "yes"}, '"yes"', "restore_protected_files must be true or false"),
    ({"default_agent": 1}, "1", "default_agent must be a string"),
    ({"rules": []}, "[]", "rules must be an object"),
    ({"rules": {"allow": "edit"}}, '"edit"', "allow must be a list of rules"),
    ({"rules": {"deny": [1]}}, "1]", "a rule must be a string"),
    ({"rules": {"permit": []}}, "[]", "'permit' is not a list of rules"),
    ({"mcp_servers": {"x": {}}}, "{}", 'either a "command" or a "url"'),
    ({"mcp_servers": {"x": {"command": "a", "url": "b"}}}, '{"command"', 'either a "command" or a "url"'),
    ({"mcp_servers": {"x": {"url": 1}}}, "1", "url must be a string"),
    ({"mcp_servers": {"x": {"url": "a", "headers": {"A": 1}}}}, "1}", "the value of A must be a string"),
]


@pytest.mark.parametrize("owner", ["user", "project"])
@pytest.mark.parametrize(("content", "pointed", "why"), WRONG, ids=[json.dumps(case[0])[:70] for case in WRONG])
def test_wrong_setting_is_refused_at_its_position(
    tmp_path: Path, owner: Owner, content: object, pointed: str, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, content, owner)
    place = re.match(rf"{tmp_path}/settings\.json:1:(\d+): ", str(caught.value))
    assert place, caught.value
    assert json.dumps(content)[int(place[1]) - 1 :].startswith(pointed)
    assert why in str(caught.value)


def test_misspelt_members_are_noted_with_the_nearest(tmp_path: Path) -> None:
    settings = load(tmp_path, {"agent_server": {}, "agent_servers": {"x": {"command": "a", "arg": []}}})
    first, second = settings.notes
    assert "'agent_server' is not a setting; did you mean agent_servers or mcp_servers?" in first
    assert "'arg' of 'x' is unknown and not used; did you mean args?" in second


def test_rules_default_agent_servers_and_registry_are_read(tmp_path: Path) -> None:
    content = {
        "default_agent": "x",
        "rules": {"allow": ["edit:src/**"], "deny": ["execute:rm *"], "ask": ["fetch"]},
        "mcp_servers": {"db": {"command": "db", "args": ["a"]}, "web": {"url": "https://example.org/mcp"}},
        "registry": "https://example.org/registry.json",
    }
    settings = load(tmp_path, content)
    assert settings.default_agent == "x"
    assert (settings.rules.allow, settings.rules.deny) == (("edit:src/**",), ("execute:rm *",))
    assert settings.mcp_servers == content["mcp_servers"]
    assert settings.registry == content["registry"]


def test_project_that_allows_is_reported_and_does_not_allow(tmp_path: Path) -> None:
    content = {"rules": {"allow": ["execute:curl *", "*"], "deny": ["edit:.env"], "ask": ["execute"]}}
    settings = load(tmp_path, content, "project")
    assert settings.rules.allow == ()
    assert settings.rules.deny == ("edit:.env",)
    assert settings.rules.ask == ("execute",)
    [note] = settings.notes
    assert note.startswith(f"{settings.path}:1:21: a project's file cannot allow anything: execute:curl *, *;")


def test_project_cannot_choose_the_registry(tmp_path: Path) -> None:
    settings = load(tmp_path, {"registry": "https://evil.example/registry.json"}, "project")
    assert settings.registry == ""
    [note] = settings.notes
    assert "cannot choose the registry" in note


def test_a_project_cannot_have_protected_files_put_back(tmp_path: Path) -> None:
    assert load(tmp_path, {"restore_protected_files": True}).restores_protected
    project = load(tmp_path, {"restore_protected_files": True}, "project")
    assert not project.restores_protected
    assert len(project.notes) == 1


def test_flags_are_true_or_false_and_belong_to_the_user(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"safe_commands": false, "restore_protected_files": true}')
    mine = read_settings_file(path, "user")
    assert (mine.safe_commands, mine.restores_protected) == (False, True)
    theirs = read_settings_file(path, "project")
    assert (theirs.safe_commands, theirs.restores_protected) == (True, False)
    assert len(theirs.notes) == 2
    path.write_text('{"safe_commands": "no"}')
    with pytest.raises(ConfigError, match="safe_commands must be true or false"):
        read_settings_file(path, "user")


def test_provider_of_logins_is_set_by_the_user_alone(tmp_path: Path) -> None:
    content = {
        "serve": {"oidc": {"issuer": "https://login.example", "audience": ["agents"]}, "limits": {"sessions": 3}}
    }
    settings = load(tmp_path, content)
    assert settings.serve_oidc == {"issuer": "https://login.example", "audience": ["agents"]}
    assert settings.serve_limits == {"sessions": 3}
    of_project = load(tmp_path, content, "project")
    assert of_project.serve_oidc == {}
    assert "cannot set serve" in of_project.notes[0]
    with pytest.raises(ConfigError, match="oidc must be an object"):
        load(tmp_path, {"serve": {"oidc": "https://login.example"}})
