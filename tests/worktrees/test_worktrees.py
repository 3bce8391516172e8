"""Worktrees: what is copied, what counts as a change, what a merge does and refuses."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dragoman.worktrees import (
    Worktree,
    WorktreeError,
    apply_merge,
    changes_of,
    discard_worktree,
    find_worktree,
    list_worktrees,
    make,
    make_worktree,
    patch_of,
    plan_merge,
    project_of,
)
from tests import machine
from tests.worktrees.kit import content, git, make_project, write

pytestmark = machine.needs("git")
both = pytest.mark.parametrize("is_git", [True, False], ids=["git", "copy"])


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))


def merge(worktree: Worktree) -> dict[str, str]:
    plan = plan_merge(worktree, changes_of(worktree))
    apply_merge(plan)
    return {each.path: each.action for each in plan.paths}


@both
def test_a_worktree_is_what_the_project_is_now(tmp_path: Path, is_git: bool) -> None:
    project = make_project(tmp_path, is_git=is_git)
    write(project, a_txt="changed\n", new_txt="new\n", ignored__x_txt="x\n")
    (project / "sub/c.txt").unlink()
    worktree = make_worktree(str(project / "sub" if is_git else project), "one")
    expected = content(project)
    if is_git:
        del expected["ignored/x.txt"]
    assert content(Path(worktree.folder)) == expected
    assert changes_of(worktree) == []
    assert make_worktree(str(project), "one") == worktree == find_worktree(str(project), "one")
    assert Path(worktree.inside(str(project / "sub"))) == Path(worktree.folder) / "sub"


@both
def test_a_merge_takes_over_what_the_worktree_changed_and_nothing_else(tmp_path: Path, is_git: bool) -> None:
    project = make_project(tmp_path, is_git=is_git)
    write(project, mine_txt="mine\n")
    worktree = make_worktree(str(project), "one")
    folder = Path(worktree.folder)
    write(folder, sub__b_txt="B\n", deep__er__new_txt="new\n", bin=b"\0\3")
    (folder / "sub/c.txt").unlink()
    (folder / "link").unlink()
    (folder / "link").symlink_to("sub/b.txt")
    (folder / "run").chmod(0o644)
    before = (project / "a.txt").stat()
    assert merge(worktree) == {
        "bin": "modify",
        "deep/er/new.txt": "create",
        "link": "modify",
        "run": "modify",
        "sub/b.txt": "modify",
        "sub/c.txt": "delete",
    }
    assert content(project) == content(folder)
    after = (project / "a.txt").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    assert set(merge(worktree).values()) <= {"none"}
    if is_git:
        assert git(project, "rev-list", "--count", "HEAD").strip() == "1"
        assert git(project, "branch", "--list").strip().count("\n") == 0


def test_changes_of_both_sides_to_one_file_are_merged_by_lines(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    write(project, dirty_txt="1\n2\n3\n4\n5\n")
    worktree = make_worktree(str(project), "one")
    write(Path(worktree.folder), a_txt="1\n2\n3\n4\n5\n6\n7\n8\nnine\n", dirty_txt="one\n2\n3\n4\n5\n")
    write(project, a_txt="one\n2\n3\n4\n5\n6\n7\n8\n9\n", dirty_txt="1\n2\n3\n4\nfive\n")
    assert merge(worktree) == {"a.txt": "merge", "dirty.txt": "merge"}
    assert (project / "a.txt").read_text() == "one\n2\n3\n4\n5\n6\n7\n8\nnine\n"
    assert (project / "dirty.txt").read_text() == "one\n2\n3\n4\nfive\n"


@both
@pytest.mark.parametrize(
    ("theirs", "mine", "reason"),
    [
        ("write", "write", "lines were changed in the project|its old content is not known"),
        ("write", "delete", "deleted in the project|its old content is not known"),
        ("delete", "write", "deleted in the worktree|its old content is not known"),
        ("create", "create", "created in the project too"),
        ("create", "folder", "a folder of this name"),
        ("binary", "binary", "not text|its old content is not known"),
    ],
)
def test_a_conflict_is_named_and_nothing_at_all_is_written(
    tmp_path: Path, is_git: bool, theirs: str, mine: str, reason: str
) -> None:
    project = make_project(tmp_path, is_git=is_git)
    worktree = make_worktree(str(project), "one")
    folder = Path(worktree.folder)
    write(folder, fine_txt="fine\n")
    for where, what in ((folder, theirs), (project, mine)):
        text = f"{where}\n"
        match what:
            case "write":
                write(where, sub__b_txt=text)
            case "delete":
                (where / "sub/b.txt").unlink()
            case "create":
                write(where, made_txt=text)
            case "folder":
                (where / "made.txt").mkdir()
            case "binary":
                write(where, bin=b"\0" + text.encode())
    before = content(project)
    plan = plan_merge(worktree, changes_of(worktree))
    assert len(plan.conflicts) == 1
    assert any(part in plan.conflicts[0].reason for part in reason.split("|"))
    with pytest.raises(WorktreeError):
        apply_merge(plan)
    assert content(project) == before


def test_a_link_of_the_project_is_not_written_through(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    worktree = make_worktree(str(project), "one")
    write(Path(worktree.folder), sub__b_txt="B\n")
    outside = tmp_path / "outside"
    shutil.move(project / "sub", outside)
    (project / "sub").symlink_to(outside)
    (conflict,) = plan_merge(worktree, changes_of(worktree)).conflicts
    assert conflict.reason == "sub is a link in the project"
    assert (outside / "b.txt").read_text() == "b\n"


def test_a_file_that_changes_during_the_merge_is_not_overwritten(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    worktree = make_worktree(str(project), "one")
    write(Path(worktree.folder), a_txt="theirs\n", sub__b_txt="theirs\n")
    plan = plan_merge(worktree, changes_of(worktree))
    write(project, sub__b_txt="mine\n")
    with pytest.raises(WorktreeError, match=r"sub/b\.txt was changed while the merge ran.*already merged: a\.txt"):
        apply_merge(plan)
    assert (project / "sub/b.txt").read_text() == "mine\n"


@both
def test_the_patch_of_a_worktree_makes_the_project_the_same(tmp_path: Path, is_git: bool) -> None:
    project = make_project(tmp_path, is_git=is_git)
    write(project, **{"with space_txt": "x\n", 'qu"ote_txt': "y\n", "ü_txt": "z"})
    worktree = make_worktree(str(project), "one")
    folder = Path(worktree.folder)
    write(folder, bin=b"\0\5", **{"with space_txt": "X\n", 'qu"ote_txt': "Y", "ü_txt": "Z\n"})
    (folder / "sub/b.txt").rename(folder / "moved.txt")
    (folder / "run").chmod(0o644)
    write(folder, empty_txt="")
    patch = patch_of(changes_of(worktree))
    assert b"diff --git a/sub/b.txt b/moved.txt\n" in patch
    assert b"diff --git a/empty.txt b/empty.txt\n" in patch
    (tmp_path / "patch").write_bytes(patch)
    git(project, "apply", str(tmp_path / "patch"))
    assert content(project) == content(folder)


def test_commits_in_a_worktree_are_changes_too_and_no_branch_moves(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    head = git(project, "rev-parse", "HEAD")
    worktree = make_worktree(str(project), "one")
    write(Path(worktree.folder), a_txt="committed\n")
    git(Path(worktree.folder), "commit", "-qam", "two")
    assert merge(worktree) == {"a.txt": "modify"}
    assert git(project, "rev-parse", "HEAD") == head


def test_hooks_and_settings_of_the_repository_run_nothing(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    hook = project / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    git(project, "config", "core.fsmonitor", f"touch {tmp_path}/ran")
    changes_of(make_worktree(str(project), "one"))
    assert not (tmp_path / "ran").exists()


def test_the_index_of_the_project_is_not_written(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    os.utime(project / "a.txt", (1_700_000_000, 1_700_000_000))  # git would note the new time
    before = (project / ".git/index").read_bytes()
    assert changes_of(make_worktree(str(project), "one")) == []
    assert (project / ".git/index").read_bytes() == before


@both
def test_discarding_leaves_no_trace(tmp_path: Path, is_git: bool) -> None:
    project = make_project(tmp_path, is_git=is_git)
    before = content(project)
    worktree = make_worktree(str(project), "one")
    locked = Path(worktree.folder) / "cache"
    locked.mkdir()
    write(locked, x_txt="x")
    locked.chmod(0o500)
    discard_worktree(worktree)
    assert list_worktrees(str(project)) == []
    assert not worktree.place.exists()
    assert content(project) == before
    if is_git:
        assert git(project, "worktree", "list").count("\n") == 1


def test_what_an_interrupted_run_left_is_replaced(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    worktree = make_worktree(str(project), "one")
    (worktree.place / "record.json").unlink()
    assert list_worktrees(str(project)) == []
    assert content(Path(make_worktree(str(project), "one").folder)) == content(project)


def test_a_worktree_whose_folder_was_deleted_by_hand_is_made_again(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    worktree = make_worktree(str(project), "one")
    shutil.rmtree(worktree.folder)
    with pytest.raises(WorktreeError, match="is gone"):
        changes_of(worktree)
    assert content(Path(make_worktree(str(project), "one").folder)) == content(project)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "a b", "x" * 65, "\x1b[2J"])
def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, name: str) -> None:
    project = make_project(tmp_path, is_git=False)
    with pytest.raises(WorktreeError, match="cannot be the name of a worktree"):
        make_worktree(str(project), name)


def test_the_home_folder_and_an_unreadable_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(WorktreeError, match="is not copied"):
        make_worktree(str(tmp_path), "one")
    assert not os.path.exists(tmp_path / "home")


@pytest.mark.parametrize("limit", ["MOST_FILES", "MOST_BYTES"])
def test_a_folder_that_is_too_large_is_not_copied(tmp_path: Path, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path, is_git=False)
    monkeypatch.setattr(make, limit, 3)
    with pytest.raises(WorktreeError, match="and is not copied; make it a git repository"):
        make_worktree(str(project), "one")
    assert list_worktrees(str(project)) == []


def test_a_file_that_is_too_large_counts_and_is_not_merged(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    worktree = make_worktree(str(project), "one")
    folder = Path(worktree.folder)
    write(folder, sub__b_txt="x\n")
    for name in ("a.txt", "new"):
        with open(folder / name, "wb") as file:
            file.truncate(1 << 40)  # takes no room
    changes = changes_of(worktree)
    assert [(change.path, change.kind, change.aside) for change in changes] == [
        ("a.txt", "modified", "large"),
        ("new", "created", "large"),
        ("sub/b.txt", "modified", None),
    ]
    assert len(patch_of(changes)) < 1000
    assert merge(worktree) == {"a.txt": "leave", "new": "leave", "sub/b.txt": "modify"}


def test_a_repository_without_a_commit_is_copied(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=False)
    git(project, "init", "-q")
    assert project_of(str(project / "sub")) == str(project / "sub")
    worktree = make_worktree(str(project), "one")
    assert worktree.kind == "copy"
    write(Path(worktree.folder), a_txt="A\n")
    assert merge(worktree) == {"a.txt": "modify"}
