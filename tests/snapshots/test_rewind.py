"""Taking turns back: the plan, conflicts, redo, and what is never touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dragoman.snapshots.limits import SnapshotLimits
from dragoman.snapshots.rewind import Choice
from tests.snapshots.kit import Folder, contents


def actions(folder: Folder, last: int = 1) -> dict[str, str]:
    return {each.path: each.action for each in folder.plan(last).paths}


def test_a_turn_is_taken_back_and_redone_exactly(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    folder.write("dir/b.txt", "two\n", mode=0o640)
    (folder.root / "link").symlink_to("a.txt")
    before = contents(folder.root)

    def work() -> None:
        folder.write("a.txt", "changed\n")
        shutil.rmtree(folder.root / "dir")
        folder.write("new/c.txt")
        (folder.root / "link").unlink()

    folder.turn(work)
    after = contents(folder.root)
    outcome = folder.rewind()
    assert outcome.failed == ()
    assert contents(folder.root) == before
    folder.redo()
    assert contents(folder.root) == after
    folder.rewind()
    assert contents(folder.root) == before


def test_files_that_do_not_differ_keep_their_time_and_inode(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    folder.write("b.txt", "two\n")

    def work() -> None:
        folder.write("a.txt", "changed\n")
        (folder.root / "b.txt").chmod(0o600)

    (folder.root / "b.txt").chmod(0o644)
    kept = folder.write("same.txt").stat()
    folder.turn(work)
    content_only = (folder.root / "b.txt").stat()
    folder.rewind()
    same = (folder.root / "same.txt").stat()
    assert (same.st_ino, same.st_mtime_ns, same.st_ctime_ns) == (kept.st_ino, kept.st_mtime_ns, kept.st_ctime_ns)
    assert (folder.root / "b.txt").stat().st_ino == content_only.st_ino  # only its mode differed


def test_a_path_that_was_changed_since_is_a_conflict_and_stays(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    folder.write("b.txt", "one\n")

    def work() -> None:
        folder.write("a.txt", "agent\n")
        folder.write("b.txt", "agent\n")
        folder.write("new.txt", "agent\n")

    folder.turn(work)
    folder.write("a.txt", "mine\n")
    folder.write("new.txt", "mine too\n")
    assert actions(folder) == {"a.txt": "conflict", "b.txt": "write", "new.txt": "conflict"}
    outcome = folder.rewind()
    assert set(outcome.kept) == {"a.txt", "new.txt"}
    assert (folder.read("a.txt"), folder.read("b.txt"), folder.read("new.txt")) == (b"mine\n", b"one\n", b"mine too\n")


@pytest.mark.parametrize(("choice", "expected"), [("keep", b"mine\n"), ("take", b"one\n")])
def test_a_conflict_is_decided_by_choice_and_can_be_redone(folder: Folder, choice: Choice, expected: bytes) -> None:
    folder.write("a.txt", "one\n")
    folder.turn(lambda: folder.write("a.txt", "agent\n"))
    folder.write("a.txt", "mine\n")
    folder.rewind(choices={"a.txt": choice})
    assert folder.read("a.txt") == expected
    if choice == "take":
        folder.redo()
        assert folder.read("a.txt") == b"mine\n"


def test_a_conflict_is_merged_if_the_changes_do_not_touch(folder: Folder) -> None:
    lines = [f"line {number}\n" for number in range(10)]
    folder.write("a.txt", "".join(lines))
    folder.turn(lambda: folder.write("a.txt", "".join(lines).replace("line 1\n", "agent 1\n")))
    folder.write("a.txt", folder.read("a.txt").replace(b"line 8\n", b"mine 8\n"))
    folder.rewind(choices={"a.txt": "merge"})
    assert folder.read("a.txt") == "".join(lines).replace("line 8\n", "mine 8\n").encode()


def test_a_merge_of_the_same_lines_is_refused(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    folder.turn(lambda: folder.write("a.txt", "agent\n"))
    folder.write("a.txt", "mine\n")
    outcome = folder.rewind(choices={"a.txt": "merge"})
    assert "same lines" in outcome.failed[0].reason
    assert folder.read("a.txt") == b"mine\n"


def test_several_turns_are_taken_back_together_and_one_after_another(folder: Folder) -> None:
    folder.write("a.txt", "0\n")
    for number in (1, 2, 3):
        folder.turn(lambda number=number: folder.write("a.txt", f"{number}\n"))  # type: ignore[misc]
    folder.rewind()
    assert folder.read("a.txt") == b"2\n"
    folder.rewind(last=2)
    assert folder.read("a.txt") == b"0\n"


def test_what_you_changed_between_two_turns_is_a_conflict(folder: Folder) -> None:
    folder.write("a.txt", "0\n")
    folder.turn(lambda: folder.write("a.txt", "1\n"))
    folder.write("a.txt", "mine\n")
    folder.turn(lambda: folder.write("a.txt", "2\n"))
    (planned,) = folder.plan(last=2).paths
    assert planned.action == "conflict"
    assert "between two of these turns" in planned.reason


def test_a_folder_that_the_turn_created_stays_if_something_else_is_in_it(folder: Folder) -> None:
    folder.turn(lambda: folder.write("made/a.txt"))
    folder.write("made/mine.txt", "mine\n")
    outcome = folder.rewind()
    assert [each.path for each in outcome.failed] == ["made"]
    assert "not empty" in outcome.failed[0].reason
    assert os.listdir(folder.root / "made") == ["mine.txt"]


def test_ignored_files_are_neither_seen_nor_removed(folder: Folder) -> None:
    folder.write(".gitignore", "*.log\n/out/\n")
    folder.write("out/result.bin", "precious\n")
    folder.write("a.log", "log\n")

    def work() -> None:
        folder.write("a.log", "changed\n")
        folder.write("out/result.bin", "changed\n")
        folder.write("seen.txt")

    record = folder.turn(work)
    assert [change.path for change in record.changes] == ["seen.txt"]
    folder.rewind()
    assert folder.read("out/result.bin") == b"changed\n"


def test_a_changed_ignore_file_does_not_make_old_files_new_or_known_files_gone(folder: Folder) -> None:
    folder.write(".gitignore", "*.log\n")
    folder.write("old.log", "precious\n")
    folder.write("known.txt", "known\n")

    def work() -> None:
        folder.write(".gitignore", "*.txt\n")  # the logs are not excluded any more, the texts are
        folder.write("known.txt", "changed\n")
        folder.write("another.md")  # so that the folder is listed again

    record = folder.turn(work)
    assert {change.path for change in record.changes} == {".gitignore", "another.md", "known.txt"}
    folder.rewind()
    assert folder.read("old.log") == b"precious\n"
    assert folder.read("known.txt") == b"known\n"
    assert folder.turn((folder.root / "x.md").touch).changes[0].path == "x.md"
    assert folder.read("old.log") == b"precious\n"


def test_an_ignored_file_that_a_tool_call_names_is_followed(folder: Folder) -> None:
    folder.write(".gitignore", "secret.env\n")
    place = folder.write("secret.env", "key=1\n")
    os.utime(place)
    tracker = folder.tracker()
    tracker.begin(session_id="s1")
    tracker.folders[0]._started_ns += 60 * 10**9  # the file is older than the turn
    tracker.save([str(place)])
    folder.write("secret.env", "key=2\n")
    (record,) = tracker.end()
    assert [change.path for change in record.changes] == ["secret.env"]
    folder.rewind()
    assert folder.read("secret.env") == b"key=1\n"


def test_an_ignored_file_that_was_named_too_late_is_not_given_back(folder: Folder) -> None:
    folder.write(".gitignore", "secret.env\n")
    place = folder.write("secret.env", "key=1\n")
    tracker = folder.tracker()
    tracker.begin(session_id="s1")
    folder.write("secret.env", "key=2\n")  # the agent was faster than its report
    tracker.save([str(place)])
    folder.write("secret.env", "key=3\n")
    (record,) = tracker.end()
    assert "too late" in record.changes[0].problem
    assert folder.plan().paths[0].action == "impossible"


def test_well_known_folders_are_left_out_where_nothing_says_what_to_ignore(folder: Folder) -> None:
    folder.write("node_modules/x/index.js")
    folder.write("src/build/a.o")
    folder.write("src/a.c")

    def work() -> None:
        folder.write("node_modules/x/index.js", "changed\n")
        folder.write("src/a.c", "changed\n")

    assert [change.path for change in folder.turn(work).changes] == ["src/a.c"]


def test_an_editor_that_saves_during_the_restore_keeps_its_text(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("a.txt", "one\n")
    folder.turn(lambda: folder.write("a.txt", "agent\n"))
    real = os.fsync

    def save_meanwhile(fd: int) -> None:
        real(fd)
        if b".dragoman-rewind" in os.readlink(f"/proc/self/fd/{fd}").encode():
            folder.write("a.txt", "my editor\n")

    monkeypatch.setattr(os, "fsync", save_meanwhile)
    outcome = folder.rewind()
    assert "same moment" in outcome.failed[0].reason
    assert folder.read("a.txt") == b"my editor\n"
    assert os.listdir(folder.root) == ["a.txt"]


def test_a_link_in_the_place_of_a_folder_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    folder.write("dir/a.txt", "one\n")
    folder.turn(lambda: folder.write("dir/a.txt", "two\n"))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("two\n")
    (outside / "a.txt").chmod((folder.root / "dir" / "a.txt").stat().st_mode & 0o777)
    shutil.rmtree(folder.root / "dir")
    (folder.root / "dir").symlink_to(outside)
    outcome = folder.rewind()
    assert "link" in outcome.failed[0].reason
    assert (outside / "a.txt").read_text() == "two\n"


def test_a_new_file_that_is_too_large_to_keep_is_offered_not_deleted(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SnapshotLimits(largest_kept_bytes=100))
    folder.turn(lambda: folder.write("large.bin", bytes(1000)))
    (planned,) = folder.plan().paths
    assert planned.action == "offered"
    assert "redo" in planned.reason
    folder.rewind(choices={"large.bin": "take"})
    assert not (folder.root / "large.bin").exists()


def test_hard_links_are_neither_made_nor_followed(folder: Folder, tmp_path: Path) -> None:
    place = folder.write("a.txt", "one\n")
    other = tmp_path / "other name"
    os.link(place, other)
    folder.turn(lambda: folder.write("a.txt", "two\n"))
    folder.rewind()
    assert folder.read("a.txt") == b"one\n"
    assert other.read_bytes() == b"two\n"
    assert place.stat().st_nlink == 1
