"""The agents that other editors know, read as far as their files allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.registry.agents import EditorAgents, editor_files, read_editor_agents
from tests.registry.kit import write


def load(tmp_path: Path, content: object) -> EditorAgents:
    return read_editor_agents(write(tmp_path / "settings.json", content))


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
    settings = load(tmp_path, ZED)
    assert {name: server.command for name, server in settings.servers.items()} == {
        "Mine": ("node", "~/agent/index.js", "--acp"),
        "claude-acp": (),
        "old": ("gemini", "--experimental-acp"),
    }
    assert settings.servers["claude-acp"].registry_id == "claude-acp"
    assert settings.servers["old"].env == {"A": "1"}
    extension, gemini = settings.notes
    assert "settings.json:14:21: type 'extension'" in extension
    assert "settings.json:15:15: command must be a string" in gemini


def test_jetbrains_file_has_the_same_shape(tmp_path: Path) -> None:
    content = {"default_mcp_settings": {"use_idea_mcp": True}, "agent_servers": {"A": {"command": "a"}}}
    assert load(tmp_path, content).servers["A"].command == ("a",)


@pytest.mark.parametrize("content", ["{", "[]", '{"agent_servers": 3}', "null"])
def test_broken_file_of_an_editor_is_ignored(tmp_path: Path, content: str) -> None:
    assert load(tmp_path, content).servers == {}


def test_editor_files_follow_the_base_directories(tmp_path: Path) -> None:
    assert editor_files(Path("/home/me"), {})["zed"] == Path("/home/me/.config/zed/settings.json")
    assert editor_files(Path("/home/me"), {"XDG_CONFIG_HOME": "/etc/me"})["zed"] == Path("/etc/me/zed/settings.json")
    assert editor_files(Path("/home/me"), {"XDG_CONFIG_HOME": "rel"})["jetbrains"] == Path(
        "/home/me/.jetbrains/acp.json"
    )
