"""Threat 2, links: those that stay inside the roots are followed, those that lead out are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.workspace import Workspace
from tests.workspace.conftest import SECRET
from tests.workspace.kit import refused, tree


@pytest.mark.parametrize(
    ("link", "target", "read"),
    [
        ("alias.py", "src/main.py", "alias.py"),
        ("source", "src", "source/main.py"),
        ("src/again", "../src/./main.py", "src/again"),
        ("src/deep", "../src/../src/main.py", "src/deep"),
        ("src/here", ".", "src/here/here/here/main.py"),
        ("absolute.py", "{project}/src/main.py", "absolute.py"),
        ("absolute", "{project}/src", "absolute/main.py"),
    ],
)
def test_a_link_that_stays_inside_is_read_through(
    workspace: Workspace, project: Path, link: str, target: str, read: str
) -> None:
    (project / link).symlink_to(target.format(project=project))
    assert workspace.read_text(project / read) == "print(1)\n"


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("out.txt", "../elsewhere/secret.txt", "out.txt"),
        ("out", "../elsewhere", "out/secret.txt"),
        ("out", "{outer}/elsewhere", "out/secret.txt"),
        ("src/out", "../../elsewhere", "src/out/secret.txt"),
        ("up", "..", "up/elsewhere/secret.txt"),
        ("evil", "../proj-evil", "evil/secret.txt"),
        ("proc", "/proc/self/root", "proc{outer}/elsewhere/secret.txt"),
        ("cwd", "/proc/self/cwd", "cwd/secret.txt"),
    ],
)
def test_threat_2_a_link_that_leads_out_is_neither_read_nor_written_through(
    workspace: Workspace, project: Path, link: str, target: str, path: str
) -> None:
    outer = project.parent
    (project / link).symlink_to(target.format(outer=outer))
    before = tree(outer)
    path = f"{project}/{path.format(outer=outer)}"
    with refused("outside"):
        workspace.read_text(path)
    with refused("outside"):
        workspace.write_text(path, "overwritten\n")
    with refused("outside"):
        workspace.preview(path, "overwritten\n")
    assert tree(outer) == before


@pytest.mark.parametrize("target", ["../elsewhere/new.txt", "../elsewhere/no/new.txt", "/nowhere/new"])
def test_threat_2_a_dangling_link_that_leads_out_creates_nothing(
    workspace: Workspace, project: Path, target: str
) -> None:
    (project / "dangling").symlink_to(target)
    before = tree(project.parent)
    with refused("outside"):
        workspace.preview(project / "dangling", "created\n")
    with refused("outside"):
        workspace.write_text(project / "dangling", "created\n")
    with refused("outside"):
        workspace.write_text(project / "dangling" / "sub" / "file", "created\n")
    with refused("missing", "outside"):
        workspace.read_text(project / "dangling")
    assert tree(project.parent) == before


@pytest.mark.parametrize(
    ("link", "target", "path", "real"),
    [
        ("alias.py", "src/main.py", "alias.py", "src/main.py"),
        ("absolute.py", "{project}/src/main.py", "absolute.py", "src/main.py"),
        ("source", "src", "source/main.py", "src/main.py"),
        ("source", "src", "source/deep/new.py", "src/deep/new.py"),
        ("dangling", "src/new.py", "dangling", "src/new.py"),
        ("src/up", "../top.py", "src/up", "top.py"),
    ],
)
def test_a_write_through_a_link_changes_the_file_it_leads_to_and_reports_that_file(
    workspace: Workspace, project: Path, link: str, target: str, path: str, real: str
) -> None:
    (project / link).symlink_to(target.format(project=project))
    assert workspace.preview(project / path, "print(2)\n").path == str(project / real)
    change = workspace.write_text(project / path, "print(2)\n", label="1")
    assert change.path == str(project / real)
    assert (project / link).is_symlink()
    assert (project / real).read_text() == "print(2)\n"
    workspace.journal.rewind("1")
    assert (project / link).is_symlink()
    assert (project / "src" / "main.py").read_text() == "print(1)\n"
    assert (project / real).exists() == (real == "src/main.py")


def test_threat_2_a_caller_that_checked_a_path_can_refuse_links(workspace: Workspace, project: Path) -> None:
    """Rules judge a path by its name: `docs/pre-commit` must not turn out to be `.git/hooks/pre-commit`."""
    (project / ".git" / "hooks").mkdir(parents=True)
    (project / "docs").symlink_to(".git/hooks")
    (project / "alias.py").symlink_to("src/main.py")
    before = tree(project)
    for path in ("docs/pre-commit", "docs/sub/pre-commit", "alias.py", "docs"):
        with refused("link"):
            workspace.write_text(project / path, "#!/bin/sh\n", follow_links=False)
    assert tree(project) == before


def test_a_write_through_a_link_reaches_the_unsaved_text_under_either_name(workspace: Workspace, project: Path) -> None:
    (project / "alias.py").symlink_to("src/main.py")
    for opened in ("alias.py", "src/main.py"):
        workspace.open_buffer(project / opened, "unsaved\n")
        assert workspace.write_text(project / "alias.py", f"{opened}\n").before == b"unsaved\n"
        assert workspace.read_text(project / opened) == f"{opened}\n"
        workspace.close_buffer(project / opened)


def test_a_file_read_through_a_link_says_where_it_really_is(workspace: Workspace, project: Path) -> None:
    (project / "alias.py").symlink_to("src/main.py")
    opened = workspace.open_text(project / "alias.py")
    assert (opened.path, opened.real_path) == (str(project / "alias.py"), str(project / "src" / "main.py"))
    opened.close()


def test_links_in_a_circle_are_refused(workspace: Workspace, project: Path) -> None:
    (project / "a").symlink_to("b")
    (project / "b").symlink_to("a")
    with refused("link"):
        workspace.read_text(project / "a")
    with refused("link"):
        workspace.read_text(project / "a" / "file")
    with refused("link"):
        workspace.write_text(project / "a", "x")


def test_a_link_to_a_folder_is_not_a_file(workspace: Workspace, project: Path) -> None:
    for name, target in (("one", "src"), ("two", "src/.."), ("three", ".")):
        (project / name).symlink_to(target)
        with refused("not_a_file"):
            workspace.read_text(project / name)


def test_a_link_from_one_root_to_another_is_followed(project: Path, resolver: str) -> None:
    elsewhere = project.parent / "elsewhere"
    (project / "other").symlink_to(elsewhere)
    (project / "evil").symlink_to(project.parent / "proj-evil")
    with Workspace([project, elsewhere], resolver=resolver) as workspace:  # type: ignore[arg-type]  # a Way
        assert workspace.read_text(project / "other" / "secret.txt") == SECRET
        assert workspace.write_text(project / "other" / "secret.txt", "x").path == str(elsewhere / "secret.txt")
        assert (elsewhere / "secret.txt").read_text() == "x"
        with refused("outside"):
            workspace.read_text(project / "evil" / "secret.txt")
