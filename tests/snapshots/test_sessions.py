"""Several turns at once, refused folders, and what is kept between programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.snapshots.folder_store import FolderStore
from dragoman.snapshots.limits import SnapshotLimits
from dragoman.snapshots.storage import free, stored
from dragoman.snapshots.tracking import NAMED_ONLY, TurnTracker
from tests.snapshots.kit import Folder, kinds


def test_two_turns_in_one_folder_are_inseparable_and_not_rewound_by_default(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    folder.write("b.txt", "one\n")
    first, second = folder.tracker(), folder.tracker()
    first.begin(session_id="s1", agent="x")
    second.begin(session_id="s2", agent="y")
    folder.write("a.txt", "by one of them\n")
    (of_second,) = second.end()
    folder.write("b.txt", "by the first\n")
    (of_first,) = first.end()
    assert of_second.overlaps == ("x s1",)
    assert of_first.overlaps == ("y s2",)
    plan = folder.plan()
    assert {each.path: each.action for each in plan.paths} == {"a.txt": "offered", "b.txt": "offered"}
    assert "y s2" in plan.paths[0].reason


def test_a_turn_that_began_and_ended_inside_another_is_noticed_by_both(folder: Folder) -> None:
    outer = folder.tracker()
    outer.begin(session_id="outer")
    inner = folder.turn(session="inner")
    (record,) = outer.end()
    assert inner.overlaps == ("outer",)
    assert record.overlaps == ("an-agent inner",)


def test_a_turn_in_a_folder_inside_the_folder_overlaps_too(folder: Folder) -> None:
    folder.write("app/a.txt")
    outer = folder.tracker()
    outer.begin(session_id="outer", agent="x")
    inner = TurnTracker(folder.base, [str(folder.root / "app")], home=folder.home)
    inner.begin(session_id="inner", agent="y")
    (of_inner,) = inner.end()
    (of_outer,) = outer.end()
    assert (of_inner.overlaps, of_outer.overlaps) == (("x outer",), ("y inner",))


def test_turns_one_after_another_do_not_overlap(folder: Folder) -> None:
    assert folder.turn(session="s1").overlaps == ()
    assert folder.turn(session="s2").overlaps == ()


def test_a_folder_inside_another_folder_of_the_session_is_a_part_of_it(folder: Folder) -> None:
    folder.write("app/a.txt", "one\n")
    tracker = TurnTracker(folder.base, [str(folder.root), str(folder.root / "app")], home=folder.home)
    tracker.begin(session_id="s1")
    folder.write("app/a.txt", "two\n")
    (record,) = tracker.end()
    assert kinds(record) == {"app/a.txt": "modified"}


def test_the_home_folder_the_root_and_what_holds_the_home_are_refused(folder: Folder) -> None:
    for root, home, reason in (
        (folder.root, folder.root, "home folder"),
        (folder.root, folder.root / "users" / "me", "home folder is in it"),
        (Path("/"), folder.root, "root of the file system"),
    ):
        tracker = TurnTracker(folder.base, [str(root)], home=str(home))
        tracker.begin(session_id="s1")
        tracker.close()
        (problem,) = tracker.problems
        assert NAMED_ONLY in problem
        assert reason in problem


def test_a_refused_folder_falls_back_to_the_files_that_the_agent_names(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SnapshotLimits(most_files=3))
    for number in range(10):
        folder.write(f"{number}/file.txt", "one\n")
    tracker = folder.tracker()
    tracker.begin(session_id="s1")
    assert "more than 3 files" in tracker.problems[0]
    tracker.folders[0]._started_ns += 60 * 10**9  # the files are older than the turn
    tracker.save([str(folder.root / "1" / "file.txt"), str(folder.root / "new.txt"), "/etc/passwd"])
    for number in range(5):
        folder.write(f"{number}/file.txt", "two\n")
    folder.write("new.txt", "new\n")
    (record,) = tracker.end()
    assert kinds(record) == {"1/file.txt": "modified", "new.txt": "created"}
    assert "more than 3 files" in record.reason
    assert any("named" in note for note in folder.plan().notes)
    folder.rewind()
    assert folder.read("1/file.txt") == b"one\n"
    assert not (folder.root / "new.txt").exists()


def test_a_first_look_that_takes_too_long_is_refused_and_not_repeated_at_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SnapshotLimits(first_scan_seconds=0.0))
    for number in range(400):
        folder.write(f"{number}/file.txt")
    for _ in range(2):
        tracker = folder.tracker()
        tracker.begin(session_id="s1")
        tracker.close()
        assert "takes longer" in tracker.problems[0]


def test_a_folder_that_grows_too_large_during_the_turn_is_reported(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SnapshotLimits(most_files=20))
    folder.write("a.txt")
    record = folder.turn(lambda: [folder.write(f"{number}/x") for number in range(40)])
    assert record.changes == ()
    assert "too large" in record.notes[0]


def test_a_turn_of_a_killed_program_is_completed_by_the_next(folder: Folder) -> None:
    folder.write("a.txt", "one\n")
    pid = os.fork()
    if not pid:
        tracker = folder.tracker()
        tracker.begin(session_id="killed", agent="x")
        folder.write("a.txt", "two\n")
        os._exit(9)
    os.waitpid(pid, 0)
    assert folder.turn(session="next").overlaps == ()
    records = FolderStore(folder.base, str(folder.root), folder.limits).turns()
    (killed,) = [record for record in records if record.session_id == "killed"]
    assert killed.is_interrupted
    assert kinds(killed) == {"a.txt": "modified"}
    folder.rewinder.apply(folder.plan(session="killed"))
    assert folder.read("a.txt") == b"one\n"


def test_the_budget_of_a_folder_drops_the_oldest_turns_first(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SnapshotLimits(folder_bytes=200_000, pack_bytes=50_000))
    for number in range(12):
        folder.turn(lambda number=number: folder.write("a.bin", os.urandom(30_000) + b"%d" % number))  # type: ignore[misc]
    store = FolderStore(folder.base, str(folder.root), folder.limits)
    assert store.packs.size_bytes() <= 200_000
    kept = [record.number for record in store.turns()]
    assert kept
    assert kept[-1] == max(kept)
    last = folder.read("a.bin")
    folder.rewind()
    assert folder.read("a.bin") != last


def test_a_content_above_the_budget_is_reported_not_kept(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SnapshotLimits(folder_bytes=50_000))
    for number in range(10):
        folder.write(f"{number}.bin", os.urandom(10_000))
    record = folder.turn(lambda: [folder.write(f"{number}.bin", b"x") for number in range(10)])
    assert any("limit" in note for note in record.notes)
    lost = [change for change in record.changes if change.problem]
    assert 0 < len(lost) < 10
    outcome = folder.rewind()
    assert len(outcome.changed) + len(lost) == 10


def test_storage_is_shown_and_freed(folder: Folder) -> None:
    folder.write("a.txt", "a" * 10_000)
    folder.turn(lambda: folder.write("a.txt", "b" * 10_000))
    folder.turn(lambda: folder.write("a.txt", "c" * 10_000))
    (shown,) = stored(folder.base, folder.limits)
    assert (shown.folder, shown.turns) == (str(folder.root), 2)
    assert free(folder.base, str(folder.root), folder.limits, keep_turns=1) > 0
    folder.rewind()
    assert folder.read("a.txt") == b"b" * 10_000
    free(folder.base, str(folder.root), folder.limits)
    assert stored(folder.base, folder.limits) == []
    assert folder.read("a.txt") == b"b" * 10_000


def test_a_running_turn_protects_its_snapshots(folder: Folder) -> None:
    tracker = folder.tracker()
    tracker.begin(session_id="s1")
    with pytest.raises(OSError, match="a turn runs"):
        free(folder.base, str(folder.root), folder.limits)
    tracker.close()


def test_the_store_is_readable_by_its_owner_only(folder: Folder) -> None:
    folder.write("a.txt")
    folder.turn()
    for place in [Path(folder.base), *Path(folder.base).rglob("*")]:
        assert place.stat().st_mode & 0o077 == 0, place
