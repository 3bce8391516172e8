"""Git's index as a free base, and git's files as others' property."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dragoman.snapshots.folder_store import FolderStore
from dragoman.snapshots.git_index import IndexDeclined, read_index
from tests.snapshots.kit import GIT_ENVIRONMENT, Folder, contents, kinds


def packed_bytes(folder: Folder) -> int:
    return FolderStore(folder.base, str(folder.root), folder.limits).packs.size_bytes()


def test_the_first_snapshot_of_a_clean_work_tree_stores_nothing(folder: Folder) -> None:
    for number in range(20):
        folder.write(f"src/{number}.txt", f"{number}\n" * 50)
    folder.commit()
    folder.turn()
    assert packed_bytes(folder) == 0


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("packed", [False, True])
def test_files_come_back_from_gits_blobs(folder: Folder, version: str, packed: bool) -> None:
    for number in range(5):
        folder.write(f"src/long name {number}.txt", f"line {number}\n" * 200)
    folder.write("grown.txt", "".join(f"line {number}\n" for number in range(500)))
    folder.commit()
    folder.write("grown.txt", "".join(f"line {number}\n" for number in range(510)))
    folder.commit("more")
    if version == "3":
        folder.write("later.txt")
        folder.git("add", "-N", "later.txt")  # an entry of this kind needs version 3
    folder.git("update-index", f"--index-version={version}")
    if packed:
        folder.git("gc", "-q")
    folder.age()
    before = contents(folder.root)

    def work() -> None:
        for place in list((folder.root / "src").iterdir()):
            place.write_text("changed\n")
        (folder.root / "grown.txt").unlink()

    record = folder.turn(work)
    assert len(record.changes) == 6
    folder.rewind()
    assert contents(folder.root) == before


def test_a_file_that_was_touched_only_is_not_stored(folder: Folder) -> None:
    folder.write("a.txt", "a\n" * 100)
    folder.commit()
    (folder.root / "a.txt").touch()
    folder.turn()
    assert packed_bytes(folder) == 0


@pytest.mark.parametrize(
    "attributes",
    ["*.txt text eol=lf", "* text=auto", "*.txt ident", "*.txt working-tree-encoding=UTF-16", "a.txt crlf"],
)
def test_bytes_that_git_converts_come_back_exactly(folder: Folder, attributes: str) -> None:
    data = "one\r\ntwo $Id$\r\n".encode("utf-16" if "UTF-16" in attributes else "utf-8")
    folder.write(".gitattributes", attributes + "\n")
    folder.write("a.txt", data)
    folder.commit()
    folder.turn(lambda: folder.write("a.txt", "other\n"))
    folder.rewind()
    assert folder.read("a.txt") == data


def test_automatic_line_ends_switch_the_base_off(folder: Folder) -> None:
    folder.write("a.txt", "one\r\ntwo\r\n")
    folder.git("init", "-q", ".")
    folder.git("config", "core.autocrlf", "input")
    folder.commit()
    folder.turn((folder.root / "a.txt").unlink)
    folder.rewind()
    assert folder.read("a.txt") == b"one\r\ntwo\r\n"


@pytest.mark.parametrize("way", ["--assume-unchanged", "--skip-worktree"])
def test_entries_that_git_does_not_look_at_are_read(folder: Folder, way: str) -> None:
    place = folder.write("a.txt", "one\n")
    folder.commit()
    folder.git("update-index", way, "a.txt")
    folder.write("a.txt", "mine\n")
    folder.age()
    folder.turn(place.unlink)
    folder.rewind()
    assert folder.read("a.txt") == b"mine\n"


@pytest.mark.parametrize("way", ["split", "sparse"])
def test_split_and_sparse_indexes_are_declined_and_everything_is_read(folder: Folder, way: str) -> None:
    folder.write("a/one.txt", "one\n")
    folder.write("b/two.txt", "two\n")
    folder.commit()
    if way == "split":
        folder.git("update-index", "--split-index")
    else:
        folder.git("sparse-checkout", "set", "--cone", "--sparse-index", "a")
    with pytest.raises(IndexDeclined, match=way):
        read_index((folder.root / ".git" / "index").read_bytes())
    before = contents(folder.root)
    folder.turn(lambda: folder.write("a/one.txt", "changed\n"))
    folder.rewind()
    assert contents(folder.root) == before


def test_a_damaged_index_is_declined(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    folder.commit()
    index = folder.root / ".git" / "index"
    data = index.read_bytes()
    for broken in (b"", b"DIRC", data[:50], data[:-1] + b"x", data.replace(b"a.txt", b"b.txt"), os.urandom(200)):
        with pytest.raises(IndexDeclined):
            read_index(broken)
    index.write_bytes(data[:60])
    folder.turn(lambda: folder.write("a.txt", "two\n"))
    folder.rewind()
    assert folder.read("a.txt") == b"one\n"


def test_a_dirty_nested_repository_is_a_folder(folder: Folder) -> None:
    folder.write("a.txt", "a\n")
    folder.commit()
    inner = folder.root / "vendor" / "library"
    inner.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "."], cwd=inner, check=True, timeout=60)
    folder.write("vendor/library/code.c", "int one;\n")
    git_before = sorted(path.name for path in (inner / ".git").rglob("*"))

    def work() -> None:
        folder.write("vendor/library/code.c", "int two;\n")

    assert kinds(folder.turn(work)) == {"vendor/library/code.c": "modified"}
    folder.rewind()
    assert folder.read("vendor/library/code.c") == b"int one;\n"
    assert sorted(path.name for path in (inner / ".git").rglob("*")) == git_before


def test_files_of_a_submodule_are_given_back(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Folder(tmp_path / "other")
    other.write("lib.c", "int one;\n")
    other.commit()
    folder.write("a.txt")
    folder.commit()
    folder.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.root), "sub")
    folder.commit("with a submodule")
    record = folder.turn(lambda: folder.write("sub/lib.c", "int two;\n"))
    assert kinds(record) == {"sub/lib.c": "modified"}
    folder.rewind()
    assert folder.read("sub/lib.c") == b"int one;\n"


def test_a_checkout_of_another_branch_is_reported_and_head_stays(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    folder.commit()
    folder.git("checkout", "-q", "-b", "other")
    folder.write("a.txt", "two\n")
    folder.write("b.txt", "b\n")
    folder.commit("second")
    folder.git("checkout", "-q", "main")
    folder.age()
    record = folder.turn(lambda: folder.git("checkout", "-q", "other"))
    assert kinds(record) == {"a.txt": "modified", "b.txt": "created"}
    head = folder.git("rev-parse", "HEAD")
    plan = folder.plan()
    assert any("rewinding files does not undo commits" in note for note in plan.notes)
    folder.rewind()
    assert folder.read("a.txt") == b"one\n"
    assert folder.git("rev-parse", "HEAD") == head


def test_a_blob_that_git_has_dropped_since_is_still_restored(folder: Folder) -> None:
    folder.write("a.txt", "precious\n")
    folder.commit()

    def work() -> None:
        folder.write("a.txt", "other\n")

    folder.turn(work)
    for place in (folder.root / ".git" / "objects").rglob("*"):
        if place.is_file():
            place.unlink()
    folder.rewind()
    assert folder.read("a.txt") == b"precious\n"


def test_a_blob_that_is_lost_during_the_turn_is_reported(folder: Folder) -> None:
    folder.write("a.txt", "precious\n")
    folder.commit()

    def work() -> None:
        folder.write("a.txt", "other\n")
        for place in (folder.root / ".git" / "objects").rglob("*"):
            if place.is_file():
                place.unlink()

    record = folder.turn(work)
    assert any("a.txt" in note and "git" in note for note in record.notes)
    outcome = folder.rewind()
    assert [each.path for each in outcome.failed] == ["a.txt"]
    assert folder.read("a.txt") == b"other\n"


def test_nothing_of_git_is_written(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    folder.write("dir/b.txt", "two\n")
    folder.commit()

    def state() -> dict[str, tuple[int, int]]:
        found = [path for path in (folder.root / ".git").rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found}

    before = state()
    folder.turn(lambda: folder.write("a.txt", "changed\n"))
    folder.rewind()
    folder.redo()
    assert state() == before


def test_a_tracked_file_is_followed_although_a_rule_ignores_it(folder: Folder) -> None:
    folder.write("dist/bundle.js", "one\n")
    folder.write("dist/other.tmp", "x\n")
    folder.git("init", "-q", "-b", "main", ".")
    folder.git("add", "-f", "dist/bundle.js")
    folder.write(".gitignore", "dist/\n")
    folder.git("add", ".gitignore")
    folder.git("commit", "-q", "-m", "x")
    folder.age()

    def work() -> None:
        folder.write("dist/bundle.js", "two\n")
        folder.write("dist/other.tmp", "y\n")

    assert kinds(folder.turn(work)) == {"dist/bundle.js": "modified"}


def test_a_folder_inside_a_work_tree_and_a_linked_work_tree_have_the_base_too(folder: Folder, tmp_path: Path) -> None:
    folder.write("app/src/a.txt", "one\n" * 30)
    folder.commit()
    inner = Folder(tmp_path)
    inner.root = folder.root / "app"
    inner.turn(lambda: inner.write("src/a.txt", "two\n"))
    inner.rewind()
    assert inner.read("src/a.txt") == b"one\n" * 30
    folder.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    linked = Folder(tmp_path)
    linked.root = tmp_path / "linked"
    index = folder.root / ".git" / "worktrees" / "linked" / "index"
    os.utime(index, (index.stat().st_mtime + 1,) * 2)
    linked.turn()
    assert packed_bytes(linked) == 0


def test_a_repository_with_sha256_names_is_read(folder: Folder) -> None:
    done = subprocess.run(
        ["git", "init", "-q", "-b", "main", "--object-format=sha256", "."],
        check=False,
        cwd=folder.root,
        env={**os.environ, **GIT_ENVIRONMENT},
        timeout=60,
    )
    if done.returncode:
        pytest.skip("this git does not make such repositories")
    folder.write("a.txt", "one\n" * 30)
    folder.commit()
    folder.turn(lambda: folder.write("a.txt", "two\n"))
    folder.rewind()
    assert folder.read("a.txt") == b"one\n" * 30


def test_a_blob_that_the_index_does_not_name_any_more_is_copied_at_the_next_look(folder: Folder) -> None:
    place = folder.write("kept.txt", "precious\n")
    folder.write("other.txt")
    folder.commit()
    folder.turn()
    assert packed_bytes(folder) == 0
    folder.git("rm", "-q", "--cached", "kept.txt")
    folder.git("commit", "-q", "-m", "not tracked any more")
    folder.turn()  # here the index has changed
    for object_file in (folder.root / ".git" / "objects").rglob("*"):
        if object_file.is_file():
            object_file.unlink()
    folder.turn(place.unlink)
    folder.rewind()
    assert folder.read("kept.txt") == b"precious\n"


def test_attributes_of_a_folder_further_down_count_too(folder: Folder) -> None:
    folder.write("plain/a.txt", "one\r\n")
    folder.write("converted/deep/a.txt", "one\r\n")
    folder.write("converted/.gitattributes", "*.txt text eol=lf\n")
    folder.commit()

    def work() -> None:
        folder.write("plain/a.txt", "two\n")
        folder.write("converted/deep/a.txt", "two\n")

    folder.turn(work)
    folder.rewind()
    assert folder.read("converted/deep/a.txt") == b"one\r\n"
    assert folder.read("plain/a.txt") == b"one\r\n"
