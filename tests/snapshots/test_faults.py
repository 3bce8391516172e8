"""Full disks, killed programs, writers during a scan, damaged stores."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from dragoman.snapshots.folder_store import FolderStore
from dragoman.snapshots.limits import SNAPSHOT_LIMITS, SnapshotLimits
from dragoman.snapshots.packs import ContentMissing, Packs
from dragoman.snapshots.scan import Scanner
from tests import machine
from tests.snapshots.kit import Folder, contents, kinds

# Kills itself at the n-th call that changes the folder; the order of these calls is that of a rewind.
KILLED = textwrap.dedent(
    """
    import os, signal, sys
    from dragoman.snapshots.rewind import Rewinder

    base, root, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
    def counted(name):
        real = getattr(os, name)
        def call(*args, **named):
            global left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return real(*args, **named)
        setattr(os, name, call)
    for name in ("rename", "unlink", "rmdir", "mkdir", "symlink", "chmod", "fchmod", "fsync"):
        counted(name)
    rewinder = Rewinder(base, root)
    rewinder.apply(rewinder.plan(rewinder.active_turns("s1")[-1:]))
    """
)


def eventful(folder: Folder) -> tuple[dict[str, object], dict[str, object]]:
    """A turn with every kind of change; returns the folder before and after it."""
    folder.write("a.txt", "one\n")
    folder.write("gone/b.txt", "two\n", mode=0o640)
    folder.write("thing", "a file\n")
    folder.write("mode.sh", mode=0o644)
    folder.write("folder/inner.txt", "inner\n")
    (folder.root / "link").symlink_to("a.txt")
    (folder.root / "closed").mkdir(mode=0o755)
    before = contents(folder.root)

    def work() -> None:
        folder.write("a.txt", "changed\n")
        (folder.root / "gone" / "b.txt").unlink()
        (folder.root / "gone").rmdir()
        (folder.root / "thing").unlink()
        folder.write("thing/now/deep.txt", "deep\n")
        (folder.root / "mode.sh").chmod(0o755)
        (folder.root / "folder" / "inner.txt").unlink()
        (folder.root / "folder").rmdir()
        folder.write("folder", "now a file\n")
        (folder.root / "link").unlink()
        (folder.root / "link").symlink_to("elsewhere")
        (folder.root / "closed").chmod(0o500)
        folder.write("new.txt", "new\n")

    folder.turn(work)
    return before, contents(folder.root)


def test_a_rewind_that_is_killed_at_any_step_is_completed(tmp_path: Path) -> None:
    points = range(0, 60, 2)
    survived = False
    for point in points:
        place = tmp_path / str(point)
        place.mkdir()
        folder = Folder(place)
        before, after = eventful(folder)
        done = subprocess.run(
            [sys.executable, "-c", KILLED, folder.base, str(folder.root), str(point)], check=False, timeout=60
        )
        unfinished = folder.rewinder.unfinished()
        if unfinished:
            (outcome,) = folder.rewinder.complete()
            assert outcome.failed == (), point
        elif done.returncode and contents(folder.root) != before:  # killed before the first path was changed
            assert contents(folder.root) == after, point
            folder.rewind()
        assert contents(folder.root) == before, point
        assert not [name for name in os.listdir(folder.root) if name.startswith(".dragoman")], point
        if not done.returncode:
            survived = True
            break
    assert survived, "the rewind has more steps than points; add some"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_while_storing_costs_contents_not_the_turn(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    for number in range(20):
        folder.write(f"{number}.txt", os.urandom(100_000))
    room = 700_000
    real = os.write

    def write(fd: int, data: bytes) -> int:
        nonlocal room
        if ".pack" in os.readlink(f"/proc/self/fd/{fd}"):
            if room < len(data):
                if room:
                    room -= real(fd, data[:room])  # a part of it is on the disk already
                raise OSError(code, os.strerror(code))
            room -= len(data)
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)
    tracker = folder.tracker()
    tracker.begin(session_id="s1")
    monkeypatch.undo()
    for number in range(20):
        folder.write(f"{number}.txt", b"changed")
    (record,) = tracker.end()
    assert any("cannot be written" in note for note in record.notes)
    assert len(record.changes) == 20
    lost = {change.path for change in record.changes if change.problem}
    outcome = folder.rewind()
    assert {*outcome.changed} == {change.path for change in record.changes} - lost
    assert {*outcome.kept} == lost


def test_a_limit_of_the_file_size_while_storing_and_restoring(tmp_path: Path) -> None:
    # In a process of its own, because a limit cannot be raised again by every user.
    program = """
    import os, resource, signal, sys
    from pathlib import Path
    from tests.snapshots.kit import Folder
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    folder = Folder(Path(sys.argv[1]))
    folder.write("large.txt", b"l" * 400_000)
    folder.write("small.txt", b"small")
    def work():
        folder.write("large.txt", b"changed")
        folder.write("small.txt", b"changed")
    folder.turn(work)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    outcome = folder.rewind()
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert outcome.changed == ("small.txt",), outcome
    assert [each.path for each in outcome.failed] == ["large.txt"], outcome
    assert "larger than the system permits" in outcome.failed[0].reason
    assert folder.read("large.txt") == b"changed"
    assert sorted(os.listdir(folder.root)) == ["large.txt", "small.txt"]
    rewinder = folder.rewinder
    rewinder.apply(rewinder.plan(rewinder.store.turns()[-1:]))
    assert folder.read("large.txt") == b"l" * 400_000
    """
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] in (resource.RLIM_INFINITY, *range(1 << 20, 1 << 40, 1 << 20))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr


def test_a_file_that_is_written_all_the_time_is_reported_with_its_last_whole_content(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = folder.write("busy.log", "whole\n")
    folder.write("calm.txt", "one\n")
    folder.turn()
    real = os.read

    def read(fd: int, size: int) -> bytes:
        data = real(fd, size)
        if os.readlink(f"/proc/self/fd/{fd}") == str(place):
            with open(place, "ab") as file:
                file.write(b"more\n")
        return data

    def work() -> None:
        folder.write("busy.log", "begun\n")
        folder.write("calm.txt", "two\n")
        monkeypatch.setattr(os, "read", read)

    record = folder.turn(work)
    monkeypatch.undo()
    assert any("busy.log" in note for note in record.notes)
    assert kinds(record) == {"calm.txt": "modified"}
    assert kinds(folder.turn(lambda: folder.write("busy.log", "ended\n"))) == {"busy.log": "modified"}


def test_writers_during_the_scan_never_stop_it_and_the_next_look_is_right(folder: Folder) -> None:
    for number in range(200):
        folder.write(f"{number % 10}/{number}.txt", f"{number}\n")
    stop = threading.Event()

    def churn() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            folder.write(f"{number % 10}/churn{number % 7}.txt", f"{number}\n")
            (folder.root / f"{number % 10}" / f"churn{(number + 3) % 7}.txt").unlink(missing_ok=True)

    writer = threading.Thread(target=churn)
    tracker = folder.tracker()
    tracker.begin(session_id="s1")
    writer.start()
    try:
        for _ in range(5):
            folder.turn(session="other")
    finally:
        stop.set()
        writer.join()
    tracker.end()
    before = contents(folder.root)
    folder.turn(lambda: [folder.write(f"{number}/churn0.txt", "x") for number in range(10)])
    folder.rewind(choices={f"{number}/churn0.txt": "take" for number in range(10)})
    assert contents(folder.root) == before


def test_a_torn_end_of_a_pack_is_cut_and_damaged_contents_are_noticed(tmp_path: Path) -> None:
    from hashlib import sha256

    packs = Packs(str(tmp_path / "packs"), SNAPSHOT_LIMITS)
    first, second = b"first" * 100, b"second" * 100
    packs.add(sha256(first).digest(), first)
    packs.release()
    (place,) = (tmp_path / "packs").glob("*.pack")
    with open(place, "ab") as file:
        file.write(b"DrCt half a record")
    again = Packs(str(tmp_path / "packs"), SNAPSHOT_LIMITS)
    again.add(sha256(second).digest(), second)
    again.release()
    fresh = Packs(str(tmp_path / "packs"), SNAPSHOT_LIMITS)
    assert fresh.read(sha256(first).digest()) == first
    assert fresh.read(sha256(second).digest()) == second
    data = bytearray(place.read_bytes())
    data[60] ^= 1
    place.write_bytes(data)
    with pytest.raises(ContentMissing, match="damaged"):
        fresh.read(sha256(first).digest())


def test_a_lost_sidecar_is_made_again_from_the_pack(tmp_path: Path) -> None:
    from hashlib import sha256

    packs = Packs(str(tmp_path / "packs"), SNAPSHOT_LIMITS)
    names = [sha256(b"%d" % number).digest() for number in range(50)]
    for number, name in enumerate(names):
        packs.add(name, b"%d" % number)
    packs.release()
    (sidecar,) = (tmp_path / "packs").glob("*.idx")
    sidecar.unlink()
    again = Packs(str(tmp_path / "packs"), SNAPSHOT_LIMITS)
    again.add(sha256(b"new").digest(), b"new")
    again.release()
    assert all(Packs(str(tmp_path / "packs"), SNAPSHOT_LIMITS).has(name) for name in names)


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\0" * 100])
def test_a_damaged_cache_is_a_first_look(folder: Folder, damage: bytes) -> None:
    folder.write("a.txt", "one\n")
    folder.turn()
    for place in (Path(FolderStore(folder.base, str(folder.root), folder.limits).folder) / "trees").iterdir():
        place.write_bytes(damage)
    assert kinds(folder.turn(lambda: folder.write("a.txt", "two\n"))) == {"a.txt": "modified"}


def test_a_store_that_cannot_be_written_is_a_problem_not_an_error(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("")
    folder.base = str(tmp_path / "occupied" / "snapshots")
    tracker = folder.tracker()
    tracker.begin(session_id="s1")
    assert "not tracked" in tracker.problems[0]
    assert tracker.end() == []


def test_an_unchanged_tree_is_quiet(folder: Folder) -> None:
    for number in range(100):
        folder.write(f"{number % 5}/{number}.txt", f"{number}\n")
    os.utime(folder.root)
    store = FolderStore(folder.base, str(folder.root), folder.limits)
    store.make()
    keeper = store.keeper()
    tree = Scanner(str(folder.root), folder.limits, keeper).scan(None)
    keeper.finish()
    while -1 in tree.ctimes or any(row.ctime_ns == -1 for row in tree.rows):  # until nothing is fresh any more
        again = store.keeper()
        tree = Scanner(str(folder.root), folder.limits, again).scan(tree)
        again.finish()
    scanner = Scanner(str(folder.root), folder.limits, store.keeper())
    assert scanner.scan(tree) is tree
    assert scanner.reads == 0


def test_the_system_calls_of_a_quiet_scan(folder: Folder, tmp_path: Path) -> None:

    if machine.program("strace") is None:
        pytest.skip("there is no strace on this machine")
    for number in range(100):
        folder.write(f"{number % 5}/{number}.txt", f"{number}\n")
    program = """
    import os, sys, time
    from dragoman.snapshots.folder_store import FolderStore
    from dragoman.snapshots.limits import SNAPSHOT_LIMITS
    from dragoman.snapshots.scan import Scanner
    base, root = sys.argv[1:]
    store = FolderStore(base, root, SNAPSHOT_LIMITS)
    store.make()
    tree = None
    while tree is None or -1 in tree.ctimes or any(row.ctime_ns == -1 for row in tree.rows):
        keeper = store.keeper()
        tree = Scanner(root, SNAPSHOT_LIMITS, keeper).scan(tree)
        keeper.finish()
    os.path.exists("/begin")  # a mark in the log
    assert Scanner(root, SNAPSHOT_LIMITS, store.keeper()).scan(tree) is tree
    """
    log = tmp_path / "log"
    done = subprocess.run(
        [
            *("strace", "-f", "-o", str(log), "-e", "trace=open,openat,stat,lstat,newfstatat,getdents64"),
            *(sys.executable, "-c", textwrap.dedent(program), folder.base, str(folder.root)),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "ptrace" in done.stderr or "PTRACE" in done.stderr:
        pytest.skip("this machine does not permit strace")
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    start = max(number for number, line in enumerate(lines) if '"/begin"' in line)
    last = [line.split(maxsplit=1)[1] for line in lines[start:] if str(folder.root) in line or "getdents" in line]
    assert not [line for line in last if line.startswith(("open", "getdents"))]
    assert len(last) >= 100


def test_contents_in_many_packs_are_all_read_back_also_after_compaction(tmp_path: Path) -> None:
    from hashlib import sha256

    limits = SnapshotLimits(pack_bytes=10_000)
    packs = Packs(str(tmp_path / "packs"), limits)
    kept = {sha256(content).digest(): content for content in (b"%d" % number * 300 for number in range(200))}
    for hash, content in kept.items():
        packs.add(hash, content)
    assert all(packs.read(hash) == content for hash, content in kept.items())
    packs.release()
    assert len(list((tmp_path / "packs").glob("*.pack"))) > 10
    fresh = Packs(str(tmp_path / "packs"), limits)
    assert all(fresh.read(hash) == content for hash, content in kept.items())
    live = set(list(kept)[::3])
    assert fresh.compact(live) > 0
    assert len(fresh) == len(live)
    assert all(Packs(str(tmp_path / "packs"), limits).read(hash) == kept[hash] for hash in live)
