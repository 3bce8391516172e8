"""The folder of installed agents: a manipulated index cannot delete or start anything outside of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.registry.installed import Installed, InstalledAgents, is_inner_path
from tests.registry.kit import write


@pytest.fixture
def agents(tmp_path: Path) -> InstalledAgents:
    return InstalledAgents(tmp_path / "data")


def add(agents: InstalledAgents, id_: str = "lark", version: str = "1.0.0") -> Installed:
    folder = agents.fresh_folder(id_, version)
    write(agents.root / folder / "bin" / id_, "#!/bin/sh\n")
    entry = Installed(
        id=id_,
        name=id_,
        version=version,
        distribution="binary",
        source="https://example.org/x",
        command=(f"bin/{id_}", "acp"),
        folder=folder,
    )
    agents.keep(entry)
    return entry


def tamper(agents: InstalledAgents, id_: str, **change: Any) -> None:
    index = json.loads(agents.index.read_text())
    index["agents"][id_] |= change
    agents.index.write_text(json.dumps(index))


def folders(agents: InstalledAgents) -> list[str]:
    return sorted(path.name for path in agents.root.iterdir() if path.is_dir())


def test_looking_creates_nothing(agents: InstalledAgents) -> None:
    assert agents.all() == {}
    assert not agents.root.exists()


def test_newer_version_replaces_the_older_and_remove_takes_it_away(agents: InstalledAgents) -> None:
    add(agents, version="1.0.0")
    other = add(agents, "lark-1", version="0.5.0")  # a name that begins like the other's folder
    newer = add(agents, version="1.1.0")
    assert agents.all() == {"lark": newer, "lark-1": other}
    assert folders(agents) == sorted([newer.folder, other.folder])
    assert agents.remove("lark")
    assert not agents.remove("lark")
    assert folders(agents) == [other.folder]


@pytest.mark.parametrize(
    "folder", ["../../precious", "/precious", "..", ".", "", "lark@1.0.0-00000000/../../../precious", "precious"]
)
def test_tampered_index_never_deletes_outside(agents: InstalledAgents, tmp_path: Path, folder: str) -> None:
    precious = write(tmp_path / "precious" / "file", "keep me")
    inside = write(agents.root / "precious" / "file", "keep me too")
    entry = add(agents)
    tamper(agents, "lark", folder=folder)
    assert agents.all() == {}
    assert "points outside its folder" in agents.notes[0]
    assert agents.remove("lark")
    assert precious.read_text() == "keep me"
    assert inside.read_text() == "keep me too"
    assert not (agents.root / entry.folder).exists()


@pytest.mark.parametrize("id_", ["../precious", "..", "", "*", "lark@1.0.0-00000000", "/"])
def test_name_that_is_a_path_deletes_nothing(agents: InstalledAgents, tmp_path: Path, id_: str) -> None:
    precious = write(tmp_path / "precious" / "file", "keep me")
    entry = add(agents)
    assert not agents.remove(id_)
    assert precious.exists()
    assert folders(agents) == [entry.folder]


def test_link_in_place_of_a_folder_is_not_followed(agents: InstalledAgents, tmp_path: Path) -> None:
    precious = write(tmp_path / "precious" / "file", "keep me")
    entry = add(agents)
    for path in sorted((agents.root / entry.folder).rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (agents.root / entry.folder).rmdir()
    (agents.root / entry.folder).symlink_to(precious.parent)
    with pytest.raises(ConfigError, match="by hand"):
        agents.remove("lark")
    assert precious.read_text() == "keep me"


def test_links_inside_a_folder_are_removed_and_their_targets_are_not(agents: InstalledAgents, tmp_path: Path) -> None:
    precious = write(tmp_path / "precious" / "file", "keep me")
    entry = add(agents)
    (agents.root / entry.folder / "link").symlink_to(precious.parent)
    assert agents.remove("lark")
    assert precious.read_text() == "keep me"


def test_root_that_is_a_link_deletes_nothing(agents: InstalledAgents, tmp_path: Path) -> None:
    entry = add(agents)
    moved = tmp_path / "moved"
    agents.root.rename(moved)
    agents.root.symlink_to(moved)
    with pytest.raises(ConfigError, match="cannot be opened"):
        agents.remove("lark")
    assert (moved / entry.folder).is_dir()


@pytest.mark.parametrize(
    "change",
    [
        {"command": ["/bin/sh"]},
        {"command": ["../../../bin/sh"]},
        {"command": ["bin/../../x"]},
        {"command": []},
        {"command": [""]},
        {"command": "bin/lark"},
        {"id": "other"},
        {"distribution": "docker"},
    ],
)
def test_tampered_entry_is_not_run(agents: InstalledAgents, change: dict[str, Any]) -> None:
    add(agents)
    tamper(agents, "lark", **change)
    assert agents.all() == {}
    assert len(agents.notes) == 1


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 9, "agents": {}}', '{"version": 1, "agents": []}'])
def test_broken_index_is_an_error_and_not_overwritten(agents: InstalledAgents, content: str) -> None:
    add(agents)
    agents.index.write_text(content)
    with pytest.raises(ConfigError, match=str(agents.index)):
        agents.all()
    with pytest.raises(ConfigError, match=str(agents.index)):
        add(agents, "other")
    assert agents.index.read_text() == content


def test_two_at_once_exclude_each_other(agents: InstalledAgents) -> None:
    with (
        agents.locked(),
        pytest.raises(ConfigError, match="another install or remove is running"),
        InstalledAgents(agents.root.parent).locked(),
    ):
        pass
    with agents.locked():
        pass


@pytest.mark.parametrize(
    ("path", "answer"),
    [("a", True), ("./a/b", True), ("a/../b", False), ("../a", False), ("/a", False), ("", False), (".", False)],
)
def test_path_stays_inside(path: str, answer: bool) -> None:
    assert is_inner_path(path) is answer


def test_root_is_private(agents: InstalledAgents) -> None:
    with agents.locked():
        assert os.stat(agents.root).st_mode & 0o777 == 0o700
