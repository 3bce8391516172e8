"""Threat 1, traversal: what is not below a root by the meaning of its path is neither read nor written."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.workspace import Workspace, WorkspaceError
from tests.workspace.conftest import SECRET
from tests.workspace.kit import refused, tree

OUTSIDE = [
    "{project}/../elsewhere/secret.txt",
    "{project}/src/../../elsewhere/secret.txt",
    "{project}/src/./.././../elsewhere/secret.txt",
    "{project}/no/such/../../../../elsewhere/secret.txt",
    "{project}/../proj-evil/secret.txt",
    "{project}-evil/secret.txt",
    "{outer}/elsewhere/secret.txt",
    "//{outer}/elsewhere/secret.txt",
    "///{outer}//elsewhere///secret.txt",
    "/proc/self/root{outer}/elsewhere/secret.txt",
    "/proc/self/cwd/../elsewhere/secret.txt",
    "/etc/passwd",
    "/",
    "{outer}",
]


@pytest.mark.rule(281)
@pytest.mark.parametrize("path", OUTSIDE)
def test_threat_1_a_path_that_leads_out_is_refused(workspace: Workspace, project: Path, path: str) -> None:
    path = path.format(project=project, outer=project.parent)
    before = tree(project.parent)
    with refused("outside"):
        workspace.read_text(path)
    with refused("outside"):
        workspace.write_text(path, "x")
    assert tree(project.parent) == before


@pytest.mark.parametrize(
    "path", ["{project}/src/main.py\0.txt", "\0", "{project}/\ud800", "src/main.py", "", "./src/main.py", "~/x"]
)
def test_threat_1_what_names_no_file_is_refused(workspace: Workspace, project: Path, path: str) -> None:
    path = path.format(project=project)
    with refused("invalid"):
        workspace.read_text(path)
    with refused("invalid"):
        workspace.write_text(path, "x")


@pytest.mark.parametrize(
    "path",
    [
        "{project}/src/main.py",
        "//{project}//src///main.py",
        "{project}/./src/./main.py",
        "{project}/src/../src/main.py",
        "{project}/no/such/../../src/main.py",
        "{project}/src/main.py/",
    ],
)
def test_every_spelling_of_a_path_inside_means_the_same_file(workspace: Workspace, project: Path, path: str) -> None:
    path = path.format(project=project)
    assert workspace.read_text(path) == "print(1)\n"
    assert workspace.write_text(path, "print(2)\n").path == str(project / "src" / "main.py")
    assert (project / "src" / "main.py").read_text() == "print(2)\n"


def test_a_name_of_dots_that_is_not_the_parent_is_a_name(workspace: Workspace, project: Path) -> None:
    workspace.write_text(project / "..." / "..x", "dots\n")
    assert (project / "..." / "..x").read_text() == "dots\n"


def test_a_path_too_long_for_the_system_is_refused(workspace: Workspace, project: Path) -> None:
    for path in (project / ("n" * 300), Path(str(project) + "/d" * 3000)):
        with refused("invalid"):
            workspace.read_text(path)
        with refused("invalid"):
            workspace.write_text(path, "x")


def test_a_root_is_known_by_the_path_it_was_given_as_and_by_its_real_path(project: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(project)
    with Workspace([tmp_path / "alias"]) as workspace:
        assert workspace.roots == (str(project),)
        for spelled in (tmp_path / "alias", project):
            assert workspace.read_text(spelled / "src" / "main.py") == "print(1)\n"
            assert workspace.locate(spelled / "src" / "main.py") == str(project / "src" / "main.py")


def test_several_roots_are_all_open_and_the_inner_one_comes_first(project: Path, tmp_path: Path) -> None:
    with Workspace([project, tmp_path / "elsewhere", project / "src", project]) as workspace:
        assert workspace.roots == (str(project), str(tmp_path / "elsewhere"), str(project / "src"))
        assert workspace.read_text(tmp_path / "elsewhere" / "secret.txt") == SECRET
        # A link out of the inner root, though not out of the outer, is a link between two roots.
        (project / "src" / "up.txt").symlink_to("../top.txt")
        (project / "top.txt").write_text("top\n")
        assert workspace.read_text(project / "src" / "up.txt") == "top\n"
        with refused("outside"):
            workspace.read_text(tmp_path / "proj-evil" / "secret.txt")


def test_the_whole_disk_can_be_a_root(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("here\n")
    with Workspace(["/"]) as workspace:
        assert workspace.read_text(tmp_path / "file.txt") == "here\n"
        with refused("not_a_file"):
            workspace.read_text("/")
        with refused("link", "outside"):  # a magic link, and it is not followed even then
            workspace.read_text(f"/proc/self/root{tmp_path}/file.txt")


def test_a_root_that_is_not_a_folder_is_refused(project: Path) -> None:
    for path in (project / "missing", project / "src" / "main.py"):
        with refused("missing"):
            Workspace([path])


def test_a_root_that_was_deleted_and_made_again_is_found(workspace: Workspace, project: Path) -> None:
    (project / "src" / "main.py").unlink()
    (project / "src").rmdir()
    project.rmdir()
    project.mkdir()
    (project / "fresh.txt").write_text("fresh\n")
    assert workspace.read_text(project / "fresh.txt") == "fresh\n"
    workspace.write_text(project / "more" / "new.txt", "new\n")
    assert (project / "more" / "new.txt").read_text() == "new\n"


def test_descriptors_are_given_back(project: Path, resolver: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Workspace([project, project.parent], resolver=resolver) as workspace:  # type: ignore[arg-type]  # a Way
        (project / "link.py").symlink_to("src/../src/main.py")
        held = len(os.listdir("/proc/self/fd"))
        for path in ("src/main.py", "link.py", "missing", "src", "../elsewhere/secret.txt", "a/b/c.txt"):
            with suppress(WorkspaceError):
                workspace.read_text(project / path)
            with suppress(WorkspaceError):
                workspace.preview(project / path, "x")
            with suppress(WorkspaceError):
                workspace.write_text(project / path, "x")
            assert len(os.listdir("/proc/self/fd")) == held, path
    assert len(os.listdir("/proc/self/fd")) == before


PARTS = st.sampled_from(["..", ".", "", "src", "proj", "proj-evil", "elsewhere", "secret.txt", "in", "out", "up", "x"])


@pytest.mark.parametrize("way", ["auto", "walk"])
@settings(max_examples=150, deadline=None)
@given(parts=st.lists(PARTS, max_size=9), start=st.sampled_from(["", "proj", "proj/in", "proj/out", "proj/up"]))
def test_threat_1_no_path_of_any_form_reaches_outside(way: str, parts: list[str], start: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        outer = Path(name).resolve()
        project = outer / "proj"
        (project / "src").mkdir(parents=True)
        for folder in (outer / "elsewhere", outer / "proj-evil"):
            folder.mkdir()
            (folder / "secret.txt").write_text(SECRET)
        (project / "in").symlink_to("src")
        (project / "out").symlink_to("../elsewhere")
        (project / "up").symlink_to("..")
        outside = tree(outer / "elsewhere") | tree(outer / "proj-evil")
        path = "/".join([str(outer), start, *parts])
        with Workspace([project], resolver=way) as workspace:  # type: ignore[arg-type]  # a Way
            with suppress(WorkspaceError):
                assert workspace.read_text(path) != SECRET
            with suppress(WorkspaceError):
                workspace.write_text(path, "mine\n")
        assert tree(outer / "elsewhere") | tree(outer / "proj-evil") == outside
        assert sorted(os.listdir(outer)) == ["elsewhere", "proj", "proj-evil"]
