"""What a turn changed: every kind of change, every kind of path."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from pathlib import Path

import pytest

from dragoman.snapshots.attribution import AgentClaims
from dragoman.snapshots.limits import SnapshotLimits
from tests.snapshots.kit import Folder, contents, kinds


def test_an_unchanged_tree_has_no_changes(folder: Folder) -> None:
    folder.write("a.txt")
    assert folder.turn().changes == ()
    assert folder.turn().changes == ()


def test_ten_changed_files_are_found_with_both_sides(folder: Folder) -> None:
    for number in range(30):
        folder.write(f"src/{number}.txt", f"{number}\n")
    record = folder.turn(lambda: [folder.write(f"src/{number}.txt", "new\n") for number in range(10)])
    assert kinds(record) == {f"src/{number}.txt": "modified" for number in range(10)}


def test_created_deleted_and_modified_files_are_named_so(folder: Folder) -> None:
    folder.write("old.txt")
    folder.write("same.txt", "same\n")
    folder.write("gone.txt", "one of a kind\n")

    def work() -> None:
        folder.write("old.txt", "more\n")
        (folder.root / "gone.txt").unlink()
        folder.write("new/deep/file.txt", "quite another\n")

    assert kinds(folder.turn(work)) == {
        "gone.txt": "deleted",
        "new": "created",
        "new/deep": "created",
        "new/deep/file.txt": "created",
        "old.txt": "modified",
    }


def test_a_renamed_file_is_one_change_also_if_some_lines_changed(folder: Folder) -> None:
    lines = "".join(f"line {number}\n" for number in range(20))
    folder.write("a.txt", lines)
    folder.write("b.txt", lines.replace("line", "row"))

    def work() -> None:
        (folder.root / "a.txt").rename(folder.root / "moved.txt")
        (folder.root / "b.txt").unlink()
        folder.write("edited.txt", lines.replace("line", "row").replace("row 3\n", "row three\n"))

    record = folder.turn(work)
    assert {change.old_path: change.path for change in record.changes} == {"a.txt": "moved.txt", "b.txt": "edited.txt"}
    assert kinds(record) == {"moved.txt": "renamed", "edited.txt": "renamed"}


def test_a_rename_that_only_changes_case_is_found_and_rewound(folder: Folder) -> None:
    folder.write("Readme", "hello\n")
    record = folder.turn(lambda: (folder.root / "Readme").rename(folder.root / "README"))
    assert [(change.old_path, change.path) for change in record.changes] == [("Readme", "README")]
    folder.rewind()
    assert os.listdir(folder.root) == ["Readme"]


def test_a_change_of_mode_alone_is_a_change(folder: Folder) -> None:
    folder.write("run.sh", mode=0o644)
    assert kinds(folder.turn(lambda: (folder.root / "run.sh").chmod(0o750))) == {"run.sh": "mode"}
    folder.rewind()
    assert stat.S_IMODE((folder.root / "run.sh").stat().st_mode) == 0o644


@pytest.mark.parametrize("target", ["file.txt", "folder", "nothing", "/dev/null"])
def test_symbolic_links_are_kept_as_links_and_never_followed(folder: Folder, target: str) -> None:
    folder.write("file.txt")
    folder.write("folder/inner.txt", "inner\n")
    link = folder.root / "link"
    link.symlink_to(target)

    def work() -> None:
        link.unlink()
        link.symlink_to("elsewhere")

    record = folder.turn(work)
    assert kinds(record) == {"link": "modified"}
    folder.rewind()
    assert os.readlink(link) == target
    assert folder.read("folder/inner.txt") == b"inner\n"


def test_a_file_becomes_a_folder_and_back(folder: Folder) -> None:
    folder.write("thing", "a file\n")
    before = contents(folder.root)

    def become_folder() -> None:
        (folder.root / "thing").unlink()
        folder.write("thing/inside.txt", "x\n")

    assert kinds(folder.turn(become_folder)) == {"thing": "type", "thing/inside.txt": "created"}
    between = contents(folder.root)

    def become_file() -> None:
        shutil.rmtree(folder.root / "thing")
        folder.write("thing", "again\n")

    assert kinds(folder.turn(become_file)) == {"thing": "type", "thing/inside.txt": "deleted"}
    folder.rewind()
    assert contents(folder.root) == between
    folder.rewind()
    assert contents(folder.root) == before


@pytest.mark.parametrize("name", [b"new\nline", b"\xff\xfe not utf-8", b"n" * 255, b"-rf *", b"\x1b[31m"])
def test_odd_names_are_names(folder: Folder, name: bytes) -> None:
    path = os.path.join(os.fsencode(folder.root), name)
    with open(path, "wb") as file:
        file.write(b"before\n")

    def work() -> None:
        with open(path, "wb") as file:
            file.write(b"after\n")

    record = folder.turn(work)
    assert [change.name for change in record.changes] == [name]
    folder.rewind()
    assert Path(os.fsdecode(path)).read_bytes() == b"before\n"


def test_fifos_and_sockets_are_not_opened_and_their_loss_is_reported(folder: Folder) -> None:
    os.mkfifo(folder.root / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(folder.root)  # the path of a socket is short
        try:
            bound.bind("socket")
        finally:
            os.chdir(here)
        record = folder.turn((folder.root / "pipe").unlink)
    assert kinds(record) == {"pipe": "deleted"}
    assert "FIFO" in record.changes[0].problem
    (planned,) = folder.plan().paths
    assert planned.action == "impossible"


def test_a_sparse_file_of_six_gigabytes_is_not_read(folder: Folder) -> None:
    huge = folder.write("disk.img", b"")
    os.truncate(huge, 6 * 1024**3)
    record = folder.turn(lambda: os.truncate(huge, 6 * 1024**3 - 1))
    (change,) = record.changes
    assert (change.path, change.kind) == ("disk.img", "modified")
    assert "too large" in change.problem


def test_a_file_above_the_limit_is_known_to_have_changed_but_not_kept(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SnapshotLimits(largest_kept_bytes=1000))
    folder.write("large.bin", bytes(2000))
    folder.turn()
    (folder.root / "large.bin").touch()
    assert folder.turn().changes == ()
    record = folder.turn(lambda: folder.write("large.bin", b"x" * 2000))
    assert "too large" in record.changes[0].problem


def test_an_unreadable_file_does_not_stop_the_scan(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("secret", "secret\n")
    folder.write("open.txt")
    real_open = os.open

    def refuse(path: str, flags: int, *rest: int, **more: int) -> int:
        # The tests may run as root, who can read everything.
        if os.fspath(path).endswith("/secret"):
            raise PermissionError(13, "Permission denied", path)
        return real_open(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)

    def work() -> None:
        folder.write("open.txt", "changed\n")
        monkeypatch.setattr(os, "open", real_open)
        folder.write("secret", "other\n")
        monkeypatch.setattr(os, "open", refuse)

    record = folder.turn(work)
    assert kinds(record) == {"open.txt": "modified", "secret": "modified"}
    assert {change.path: bool(change.problem) for change in record.changes} == {"open.txt": False, "secret": True}


def test_an_unreadable_folder_keeps_what_was_known_of_it(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("closed/a.txt")
    real = os.scandir

    def work() -> None:
        (folder.root / "closed").touch()

        def refuse(path: str) -> object:
            if os.fspath(path).endswith("/closed"):
                raise PermissionError(13, "Permission denied", path)
            return real(path)

        monkeypatch.setattr(os, "scandir", refuse)

    assert folder.turn(work).changes == ()


def test_empty_folders_and_their_modes_are_given_back(folder: Folder) -> None:
    (folder.root / "empty").mkdir(mode=0o700)
    before = contents(folder.root)

    def work() -> None:
        (folder.root / "empty").rmdir()
        (folder.root / "other").mkdir()

    folder.turn(work)
    folder.rewind()
    assert contents(folder.root) == before


def test_a_writer_that_puts_the_time_back_is_noticed(folder: Folder) -> None:
    place = folder.write("a.txt", "one\n")
    status = place.stat()
    folder.turn()

    def work() -> None:
        folder.write("a.txt", "two\n")
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert kinds(folder.turn(work)) == {"a.txt": "modified"}


def test_a_clock_that_went_back_does_not_hide_a_change(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    folder.write("a.txt", "one\n")
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3600 * 10**9)
    folder.turn()
    record = folder.turn(lambda: folder.write("a.txt", "two\n"))
    assert kinds(record) == {"a.txt": "modified"}
    folder.rewind()
    assert folder.read("a.txt") == b"one\n"


def test_changes_between_turns_are_yours(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    folder.turn()
    folder.write("a.txt", "two\n")
    record = folder.turn(lambda: folder.write("b.txt"))
    assert [(change.path, change.by) for change in record.earlier] == [("a.txt", "you")]
    assert kinds(record) == {"b.txt": "created"}


def test_what_went_through_the_client_or_a_tool_call_shows_is_the_agents(folder: Folder) -> None:
    for name in ("written", "shown", "piece", "formatted", "other"):
        folder.write(name, "one\ntwo\nthree\n")
    claims = AgentClaims()
    root = str(folder.root)

    def work() -> None:
        folder.write("written", "new\n")
        claims.add_write(f"{root}/written", b"new\n")
        folder.write("shown", "all new\n")
        claims.add_diff(f"{root}/shown", "one\ntwo\nthree\n", "all new\n")
        folder.write("piece", "one\n2\nthree\n")
        claims.add_diff(f"{root}/piece", "two", "2")
        folder.write("formatted", "one\n2;\nthree\n")
        claims.add_diff(f"{root}/formatted", "two", "2")
        folder.write("other", "by a command\n")

    record = folder.turn(work, claims=claims)
    assert {change.path: change.by for change in record.changes} == {
        "formatted": "turn",
        "other": "turn",
        "piece": "agent",
        "shown": "agent",
        "written": "agent",
    }


def test_the_store_inside_the_folder_is_not_a_part_of_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.base = str(folder.root / "data" / "snapshots")
    folder.write("a.txt")
    folder.turn()
    assert kinds(folder.turn(lambda: folder.write("a.txt", "b\n"))) == {"a.txt": "modified"}
