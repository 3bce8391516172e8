"""Which project a folder belongs to."""

from __future__ import annotations

from pathlib import Path

from dragoman.settings.project import find_project


def test_project_is_the_nearest_marked_folder_below_home(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert find_project(inner, home=Path("/nowhere")) == tmp_path
    (tmp_path / "a" / ".dragoman").mkdir()
    assert find_project(inner, home=Path("/nowhere")) == tmp_path / "a"
    assert find_project(inner, home=tmp_path / "a") == inner  # the home directory is not a project
