"""Settings files: the shapes that are read, and where each of the others is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.registry.settings import Source, editor_files, find_project, load_settings
from tests.registry.kit import write


def load(tmp_path: Path, content: object, source: Source = "user") -> Any:
    return load_settings(write(tmp_path / "settings.json", content), source)


def test_file_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    settings = load_settings(tmp_path / "none.json", "user")
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


# What is wrong, the text the error points at, and what it says.
WRONG: list[tuple[object, str, str]] = [
    ([], "[]", "settings are an object"),
    ({"agent_servers": []}, "[]", "agent_servers is an object"),
    ({"agent_servers": {"x": 1}}, "1", "an agent is an object"),
    ({"agent_servers": {"x": {}}}, "{}", "needs a command"),
    ({"agent_servers": {"x": {"command": ""}}}, '{"command"', "needs a command"),
    ({"agent_servers": {"x": {"command": ["a", "b"]}}}, '{"command"', "needs a command"),
    ({"agent_servers": {"x": {"command": "a", "args": "--acp"}}}, '"--acp"', "args is a list"),
    ({"agent_servers": {"x": {"command": "a", "args": [1]}}}, "1]", "an argument is a text"),
    ({"agent_servers": {"x": {"command": "a", "env": []}}}, "[]", "env is an object"),
    ({"agent_servers": {"x": {"command": "a", "env": {"A": 1}}}}, "1}", "the value of A is a text"),
    ({"agent_servers": {"x": {"command": "a", "env": {"A=B": "1"}}}}, '"1"', "name of a variable"),
    ({"agent_servers": {"x": {"command": "a", "type": "extension"}}}, '"extension"', "of agent 'x' is not known"),
    ({"agent_servers": {"x": {"type": "registry", "id": 3}}}, "3", "id is the agent's id"),
    ({"agent_servers": {"-x": {"command": "a"}}}, '{"command"', "cannot start with a dash"),
    ({"agent_servers": {"": {"command": "a"}}}, '{"command"', "printable characters"),
    ({"agent_servers": {"a\u202eb": {"command": "a"}}}, '{"command"', "printable characters"),
    ({"agent_servers": {"x": {"command": "a", "quirks": 1}}}, "1", "quirks is an object"),
    ({"agent_servers": {"x": {"command": "a", "quirks": {"speed": 1}}}}, "1", "'speed' is no quirk"),
    ({"agent_servers": {"x": {"command": "a", "quirks": {"withhold": ["fs"]}}}}, '["fs"]', "cannot be withheld"),
    ({"agent_servers": {"x": {"command": "a", "quirks": {"withhold": "fs"}}}}, '"fs"', "a list of texts"),
    ({"agent_servers": {"x": {"command": "a", "quirks": {"spare": [""]}}}}, '[""]', "cannot be empty"),
    ({"agent_servers": {"x": {"command": "a", "quirks": {"missing_file": 0}}}}, "0", '"error" or "empty"'),
    ({"default_agent": 1}, "1", "default_agent is a text"),
    ({"rules": []}, "[]", "rules is an object"),
    ({"rules": {"allow": "edit"}}, '"edit"', "allow is a list of rules"),
    ({"rules": {"deny": [1]}}, "1]", "a rule is a text"),
    ({"rules": {"permit": []}}, "[]", "'permit' is no list of rules"),
    ({"mcp_servers": {"x": {}}}, "{}", '"command" or a "url"'),
    ({"mcp_servers": {"x": {"command": "a", "url": "b"}}}, '{"command"', '"command" or a "url"'),
    ({"mcp_servers": {"x": {"url": 1}}}, "1", "url is a text"),
    ({"mcp_servers": {"x": {"url": "a", "headers": {"A": 1}}}}, "1}", "the value of A is a text"),
]


@pytest.mark.parametrize("source", ["user", "project"])
@pytest.mark.parametrize(("content", "pointed", "why"), WRONG, ids=[json.dumps(case[0])[:70] for case in WRONG])
def test_wrong_setting_is_refused_at_its_place(
    tmp_path: Path, source: Source, content: object, pointed: str, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, content, source)
    place = re.match(rf"{tmp_path}/settings\.json:1:(\d+): ", str(caught.value))
    assert place, caught.value
    assert json.dumps(content)[int(place[1]) - 1 :].startswith(pointed)
    assert why in str(caught.value)


def test_misspelt_members_are_noted_with_the_nearest(tmp_path: Path) -> None:
    settings = load(tmp_path, {"agent_server": {}, "agent_servers": {"x": {"command": "a", "arg": []}}})
    first, second = settings.notes
    assert "'agent_server' is not a setting; did you mean agent_servers or mcp_servers?" in first
    assert "'arg' of 'x' is not known and not used; did you mean args?" in second


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


ZED = """\
// Zed settings
{
  "theme": "One Dark", /* and more */
  "agent_servers": {
    "Mine": {
      "type": "custom",
      "command": "node", // from nvm
      "args": ["~/agent/index.js", "--acp",],
      "env": {},
      "default_mode": "plan",
    },
    "claude-acp": {"type": "registry", "env": {"CLAUDE_CODE_EXECUTABLE": "/opt/claude"}},
    "old": {"command": {"path": "gemini", "args": ["--experimental-acp"], "env": {"A": "1"}}},
    "ext": {"type": "extension"},
    "gemini": {"ignore_system_version": false},
  },
}
"""


def test_zed_file_is_read_as_far_as_it_can_be(tmp_path: Path) -> None:
    settings = load(tmp_path, ZED, "zed")
    assert {name: server.command for name, server in settings.servers.items()} == {
        "Mine": ("node", "~/agent/index.js", "--acp"),
        "claude-acp": (),
        "old": ("gemini", "--experimental-acp"),
    }
    assert settings.servers["claude-acp"].registry_id == "claude-acp"
    assert settings.servers["old"].env == {"A": "1"}
    extension, gemini = settings.notes
    assert "settings.json:14:21: type 'extension'" in extension
    assert "settings.json:15:15: an agent needs a command" in gemini


def test_jetbrains_file_has_the_same_shape(tmp_path: Path) -> None:
    content = {"default_mcp_settings": {"use_idea_mcp": True}, "agent_servers": {"A": {"command": "a"}}}
    assert load(tmp_path, content, "jetbrains").servers["A"].command == ("a",)


@pytest.mark.parametrize("content", ["{", "[]", '{"agent_servers": 3}', "null"])
def test_broken_file_of_an_editor_stops_nobody(tmp_path: Path, content: str) -> None:
    assert load(tmp_path, content, "zed").servers == {}


def test_editor_files_follow_the_base_directories(tmp_path: Path) -> None:
    assert editor_files(Path("/home/me"), {})["zed"] == Path("/home/me/.config/zed/settings.json")
    assert editor_files(Path("/home/me"), {"XDG_CONFIG_HOME": "/etc/me"})["zed"] == Path("/etc/me/zed/settings.json")
    assert editor_files(Path("/home/me"), {"XDG_CONFIG_HOME": "rel"})["jetbrains"] == Path(
        "/home/me/.jetbrains/acp.json"
    )


def test_project_is_the_nearest_marked_folder_below_home(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert find_project(inner, home=Path("/nowhere")) == tmp_path
    (tmp_path / "a" / ".dragoman").mkdir()
    assert find_project(inner, home=Path("/nowhere")) == tmp_path / "a"
    assert find_project(inner, home=tmp_path / "a") == inner  # the home directory is nobody's project
