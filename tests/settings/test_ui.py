"""The member `ui`: what it may hold, who may write it, and how it is changed in a file that a person wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.settings.edit import edit_settings
from dragoman.settings.file import UiMembers, read_settings_file
from dragoman.settings.ui import UI_SETTINGS

WRITTEN = """{
  // my agents
  "default_agent": "claude",  // the best
  "ui": {
    "theme": "dark", /* always */
    "mouse": true
  }
}
"""


def settings(folder: Path, text: str) -> Path:
    path = folder / "settings.json"
    path.write_text(text)
    return path


def test_every_value_that_is_offered_can_be_written_and_read(tmp_path: Path) -> None:
    for setting in UI_SETTINGS:
        assert getattr(UiMembers(), setting.name) == setting.values[0], "the first value is the default"
        for value in setting.values:
            if value is not None:
                path = settings(tmp_path, json.dumps({"ui": {setting.name: value}}))
                assert getattr(read_settings_file(path, "user").ui, setting.name) == value
    path = settings(tmp_path, json.dumps({"ui": {"keys": {"sessions": ["ctrl+x"]}}}))
    assert read_settings_file(path, "user").ui.keys == {"sessions": ("ctrl+x",)}


@pytest.mark.parametrize(
    ("ui", "message"),
    [
        ('{"them": "dark"}', "1:17: 'them' is not a setting of ui; did you mean theme?"),
        ('{"theme": "drak"}', "1:18: theme must be one of auto, dark, light; did you mean dark?"),
        ('{"mouse": "yes"}', "mouse must be true or false"),
        ('{"paints": true}', "paints must be a whole number from 1 to 60"),
        ('{"paints": 0}', "paints must be"),
        ('{"keys": []}', "keys must be an object of lists"),
        ('{"keys": {"sessions": "ctrl+p"}}', "keys must be an object of lists"),
        ("3", "ui must be an object"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(tmp_path: Path, ui: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_settings_file(settings(tmp_path, f'{{"ui": {ui}}}'), "user")
    assert message in str(error.value)


def test_a_project_cannot_change_the_terminal_client(tmp_path: Path) -> None:
    found = read_settings_file(settings(tmp_path, '{"ui": {"keys": {"leave": ["a"]}}}'), "project")
    assert found.ui == UiMembers()
    assert "a project's file cannot change the terminal client" in found.notes[0]


def test_comments_are_for_the_users_file_only(tmp_path: Path) -> None:
    path = settings(tmp_path, WRITTEN)
    assert read_settings_file(path, "user").ui.theme == "dark"
    with pytest.raises(ConfigError, match="comments are not allowed"):
        read_settings_file(path, "project")
    with pytest.raises(ConfigError, match="repeated"):
        read_settings_file(settings(tmp_path, '{"ui": {}, "ui": {}}'), "user")


def test_a_change_leaves_everything_else_as_it_was_written(tmp_path: Path) -> None:
    path = settings(tmp_path, WRITTEN)
    with edit_settings(path) as members:
        members["ui"]["theme"] = "light"
    assert path.read_text() == WRITTEN.replace('"dark"', '"light"')
    with edit_settings(path) as members:
        members["ui"]["keys"] = {"sessions": ["ctrl+x"]}
        members["model"] = "m"
    text = path.read_text()
    assert "// my agents" in text
    assert "// the best" in text
    found = read_settings_file(path, "user")
    assert (found.ui.keys, found.ui.mouse, found.model) == ({"sessions": ("ctrl+x",)}, True, "m")
    with edit_settings(path) as members:
        del members["ui"]["keys"]
        del members["model"]
    assert path.read_text() == WRITTEN.replace('"dark"', '"light"')


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', '{"a": {}, }', "{ // x\n}", '{"a": 1, // why\n}', '{"a": [1]\n\n}'])
def test_members_come_and_go_in_any_file(tmp_path: Path, text: str) -> None:
    path = settings(tmp_path, text)
    with edit_settings(path) as members:
        before = dict(members)
        members["ui"] = {"mouse": False}
    with edit_settings(path) as members:
        assert members == {**before, "ui": {"mouse": False}}
        members["ui"]["theme"] = "dark"
        del members["ui"]["mouse"]
    with edit_settings(path) as members:
        assert members == {**before, "ui": {"theme": "dark"}}
        members.clear()
    with edit_settings(path) as members:
        assert members == {}


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "settings.json"
    with edit_settings(path) as members:
        members["ui"] = {"mouse": False}
    assert json.loads(path.read_text()) == {"ui": {"mouse": False}}
    assert path.stat().st_mode & 0o077 == 0
