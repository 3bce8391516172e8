"""What a turn does so that its changes are not seen: rules of git and git's index are taken as they were before it."""

from __future__ import annotations

import hashlib
import os
import shutil
import time

import pytest

from tests import machine
from tests.snapshots.kit import Folder

EXCLUDING = {
    "an edited .gitignore": ".gitignore",
    "an .ignore file": ".ignore",
    "rules of a folder": "sub/.gitignore",
    "rules of a new folder": "new/.gitignore",
    "the repository's own rules": ".git/info/exclude",
}


@pytest.mark.parametrize("name", EXCLUDING)
@pytest.mark.parametrize("is_git", [pytest.param(True, marks=machine.needs("git")), False])
def test_rules_of_a_turn_exclude_nothing_of_it(folder: Folder, name: str, is_git: bool) -> None:
    folder.write(".gitignore", "*.log\n")
    folder.write("sub/a.txt")
    folder.write("old.log")
    if is_git:
        folder.git("init", "-q")
        folder.git("add", "-A")
        folder.git("commit", "-qm", "one")

    def work() -> None:
        folder.write(EXCLUDING[name], "*\n")
        for path in ("sub/a.txt", "sub/new.txt", "new/deep/x.txt", "new.txt"):
            folder.write(path, "new\n")
        folder.write("sub/new.log")

    seen = {change.path for change in folder.turn(work).changes} - {EXCLUDING[name], "new", "new/deep"}
    assert seen == {"sub/a.txt", "sub/new.txt", "new/deep/x.txt", "new.txt"}
    folder.rewind()
    assert not (folder.root / "new.txt").exists()
    assert folder.read("old.log") == b"text\n"


def test_rules_that_a_turn_removes_do_not_make_old_files_new(folder: Folder) -> None:
    folder.write(".gitignore", "*.log\n")
    folder.write("old.log")

    def work() -> None:
        (folder.root / ".gitignore").unlink()
        folder.write("new.txt")

    assert {change.path for change in folder.turn(work).changes} == {".gitignore", "new.txt"}


def test_folders_of_installed_files_are_left_out_if_the_turn_has_git_ignore_them(folder: Folder) -> None:
    folder.write(".gitignore", "*.log\n")

    def work() -> None:
        folder.write(".gitignore", "*.log\nnode_modules/\nhidden/\n")
        folder.write("node_modules/a/index.js")
        folder.write(".venv/.gitignore", "*\n")
        folder.write(".venv/lib/x.py")
        folder.write("target/x.o")
        folder.write("hidden/x.py")

    seen = {change.path for change in folder.turn(work).changes if change.after is None or not change.after.is_folder}
    assert seen == {".gitignore", "target/x.o", "hidden/x.py"}


@machine.needs("git")
def test_an_index_that_names_the_old_content_of_a_changed_file_is_not_believed(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    folder.git("init", "-q")
    folder.git("add", "-A")
    folder.git("commit", "-qm", "one")
    old = bytes.fromhex(folder.git("rev-parse", "HEAD:a.txt").strip())
    index = folder.root / ".git/index"

    def work() -> None:
        folder.write("a.txt", "two\n")
        folder.git("add", "-A")
        new = bytes.fromhex(folder.git("rev-parse", ":a.txt").strip())
        data = index.read_bytes()[:-20].replace(new, old)
        index.write_bytes(data + hashlib.sha1(data).digest())
        later = time.time() + 3600
        os.utime(index, (later, later))
        assert folder.git("status", "--porcelain") == ""  # git believes it

    assert [change.path for change in folder.turn(work).changes] == ["a.txt"]


@machine.needs("git")
def test_a_replaced_git_folder_hides_nothing(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    folder.git("init", "-q")
    folder.git("add", "-A")
    folder.git("commit", "-qm", "one")

    def work() -> None:
        shutil.rmtree(folder.root / ".git")
        folder.write("a.txt", "two\n")
        folder.write("new.txt")
        folder.git("init", "-q")
        folder.write(".git/info/exclude", "*\n")
        folder.git("add", "-fA")
        folder.git("commit", "-qm", "two")

    assert [change.path for change in folder.turn(work).changes] == ["a.txt", "new.txt"]
