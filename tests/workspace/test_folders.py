"""Where the paths lead that an agent names."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.policy import Command, Request
from dragoman.workspace.folders import SessionFolders


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "project/out").symlink_to("../outside")
    (tmp_path / "link").symlink_to("project")
    return tmp_path / "project"


def test_a_path_counts_as_written_and_with_its_links_resolved(project: Path) -> None:
    folders = SessionFolders(str(project))
    assert folders.settle("out/x") == (f"{project}/out/x", f"{project.parent}/outside/x")
    assert folders.settle(f"{project}/src/../a") == (f"{project}/a", f"{project}/a")


def test_a_project_that_is_a_link_is_known_by_its_real_name(project: Path) -> None:
    folders = SessionFolders(str(project.parent / "link"))
    assert folders.settle(f"{project.parent}/link/a") == (f"{project}/a", f"{project}/a")
    settled = folders.settle_request(
        Request("", "edit", paths=("a", "a"), command=Command(line="make", cwd="src")), "agent"
    )
    assert (settled.agent, settled.root) == ("agent", str(project))
    assert settled.command == Command(line="make", cwd=f"{project}/src")
    assert settled.paths == (f"{project}/a",)


def test_paths_start_in_the_folder_of_the_session(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project.parent))
    folders = SessionFolders(str(project / "src"), project=str(project))
    assert folders.resolve("a") == f"{project}/src/a"
    settled = folders.settle_request(Request("", "execute", command=Command(line="make")), "agent")
    assert settled.command == Command(line="make", cwd=f"{project}/src")
    assert folders.resolve("~/outside") == f"{project.parent}/outside"


def test_a_path_that_cannot_be_resolved_stays_as_written(project: Path) -> None:
    folders = SessionFolders(str(project))
    assert folders.settle("a\0b") == ("a\0b",)
    assert folders.resolve("a\0b") == "a\0b"


def test_what_was_resolved_is_kept_for_the_request(project: Path) -> None:
    folders = SessionFolders(str(project))
    before = folders.settle("out/x")
    (project / "out").unlink()
    (project / "out").symlink_to("src")
    assert folders.settle("out/x") == before
    assert SessionFolders(str(project)).resolve("out/x") == f"{project}/src/x"


def test_a_session_holds_paths_below_all_of_its_folders(project: Path) -> None:
    folders = SessionFolders(str(project / "src"), [str(project.parent / "outside")], project=str(project))
    assert folders.hold_all([f"{project}/a", f"{project.parent}/outside/b"])
    assert not folders.hold_all([f"{project}/a", "/etc/passwd"])
    assert not folders.hold_all([])
