"""The folders of the user's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.settings.places import cache_dir, config_dir, data_dir, state_dir
from dragoman.settings.rule_file import open_rules


def test_places_follow_the_environment_and_are_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "own"))
    assert [place().name for place in (config_dir, data_dir, cache_dir, state_dir)] == [
        "config",
        "data",
        "cache",
        "state",
    ]
    assert open_rules().path == tmp_path / "own" / "config" / "rules.json"
    assert not (tmp_path / "own").exists()
    monkeypatch.delenv("DRAGOMAN_HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert config_dir() == tmp_path / "xdg" / "dragoman"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config_dir() == tmp_path / ".config" / "dragoman"
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert data_dir() == tmp_path / ".local" / "share" / "dragoman"
