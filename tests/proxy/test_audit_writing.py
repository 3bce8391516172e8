"""How the audit log is written: what is killed, full, late or old leaves a log that verifies and says what happened."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.proxy.audit.export import subject
from dragoman.proxy.audit.files import HEAD, NO_HASH, AuditHead, list_files, make_line, read_head
from dragoman.proxy.audit.log import AuditLog
from dragoman.proxy.audit.verify import read_records, verify
from dragoman.proxy.guard.conduct import Conduct
from dragoman.proxy.guard.limits import GuardLimits, read_limit
from dragoman.workspace.private import open_owned
from tests.proxy.audit_kit import Log, append, chain, fields_of

SECONDS = 60.0

# Ends itself, without a chance to clean up, at the given call of one kind while it writes a batch.
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.proxy.audit_kit import append, chain

folder, moment, count, most_bytes, keep_days = sys.argv[1:]
real, calls = getattr(os, moment), 0

def last(*given, **named):
    global calls
    calls += 1
    if calls < int(count):
        return real(*given, **named)
    if moment == "write":
        real(given[0], bytes(given[1])[:40])
    os.kill(os.getpid(), signal.SIGKILL)

end = chain(Path(folder), int(most_bytes), int(keep_days) or None)
setattr(os, moment, last)
append(Path(folder), 1, 2, 3, end=end)
"""


def killed(folder: Path, moment: str, count: int = 1, *, most_bytes: int = 1 << 20, keep_days: int = 0) -> None:
    words = [str(folder), moment, str(count), str(most_bytes), str(keep_days)]
    done = subprocess.run([sys.executable, "-c", KILLED, *words], capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(
    ("moment", "notes"),
    [
        ("write", ["the last line is not complete, and head.json does not name it: the program was killed"]),
        ("fdatasync", ["records 3 to 5 are newer than head.json: a program was killed before it replaced that"]),
        ("fsync", ["records 3 to 5 are newer than head.json: a program was killed before it replaced that"]),
        ("rename", ["records 3 to 5 are newer than head.json: a program was killed before it replaced that"]),
    ],
)
def test_a_program_that_is_killed_between_record_and_head_leaves_a_log_that_verifies(
    moment: str, notes: list[str], tmp_path: Path
) -> None:
    append(tmp_path, 1, 2).close()
    killed(tmp_path, moment)
    found = verify(tmp_path)
    assert found.is_intact
    assert len(found.notes) == len(notes)
    assert all(expected in note for expected, note in zip(notes, found.notes, strict=True))
    append(tmp_path, 4).close()
    after = verify(tmp_path)
    assert (after.is_intact, after.last_seq) == (True, 3 if moment == "write" else 6)
    assert not any("newer than" in note for note in after.notes)


@pytest.mark.parametrize(
    ("moment", "count"), [("write", 1), ("rename", 1), ("write", 2), ("fdatasync", 1), ("rename", 2)]
)
def test_a_program_that_is_killed_while_it_begins_a_log_leaves_one_that_verifies(
    moment: str, count: int, tmp_path: Path
) -> None:
    killed(tmp_path, moment, count)  # first it writes the head of an empty log
    if (moment, count) in (("write", 1), ("rename", 1)):
        assert "and so is every record" in verify(tmp_path).faults[0].what, "there is nothing yet"
        append(tmp_path, 1).close()
    assert verify(tmp_path).is_intact
    append(tmp_path, 1).close()
    assert verify(tmp_path).is_intact


def test_halves_of_several_programs_that_were_killed_one_after_the_other_are_stated(tmp_path: Path) -> None:
    append(tmp_path, 1, 2).close()
    for _ in range(3):
        killed(tmp_path, "write")
        assert verify(tmp_path).is_intact
    append(tmp_path, 3).close()
    found = verify(tmp_path)
    assert (found.is_intact, found.last_seq) == (True, 3)
    (path,) = list_files(tmp_path)
    data = path.read_bytes()
    half = data.split(b"\n")[2]
    path.write_bytes(data.replace(half, half[:-1] + b"x", 1))
    assert not verify(tmp_path).is_intact


def test_a_head_that_is_older_is_stated_and_harmless(tmp_path: Path) -> None:
    """It is what a killed program leaves, so it cannot be told apart from one that somebody put there."""
    append(tmp_path, 1, 2).close()
    old = (tmp_path / HEAD).read_bytes()
    append(tmp_path, 3, 4).close()
    (tmp_path / HEAD).write_bytes(old)
    found = verify(tmp_path)
    assert found.is_intact
    assert "records 3 to 4 are newer than head.json" in found.notes[0]
    append(tmp_path, 5).close()
    assert (verify(tmp_path).is_intact, verify(tmp_path).notes) == (True, [])


def test_the_lines_are_synced_before_the_head_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def noted(name: str, real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            calls.append(name)
            return real(*given, **named)

        return call

    for name in ("write", "fdatasync", "fsync", "rename"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    end = append(tmp_path, 1)
    calls.clear()
    append(tmp_path, 2, end=end).close()
    #      the line, synced,      the new head, synced, in its place, and the folder
    assert calls == ["write", "fdatasync", "write", "fsync", "rename", "fsync"]


# Retention


def on(day: str) -> str:
    return f"{day}T08:00:00.000Z"


def old_log(folder: Path) -> None:
    """Files of six days, four of them long ago."""
    for number, day in enumerate(["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04", "2026-11-17", "2026-11-18"]):
        append(folder, number, number + 10, time=on(day)).close()
    assert verify(folder).is_intact


def test_files_that_retention_removes_leave_a_marker_in_the_chain(tmp_path: Path) -> None:
    old_log(tmp_path)
    first, *_, last = [record for record in read_records(tmp_path) if "2020" in record.path.name]
    append(tmp_path, 99, end=chain(tmp_path, 1, 30)).close()
    assert not [path for path in list_files(tmp_path) if "2020" in path.name]
    (marker,) = fields_of(tmp_path, "retention")
    assert marker["removed"]["first"] == {"seq": 1, "hash": first.hash, "file": ""}
    assert marker["removed"]["last"] == {"seq": 8, "hash": last.hash, "file": ""}
    assert (marker["removed"]["count"], marker["keep_days"], len(marker["files"])) == (8, 30, 4)
    assert subject(marker) == "8 records since the log began, in 4 files now"
    found = verify(tmp_path)
    assert (found.is_intact, found.first_seq, found.removed) == (True, 9, 8)
    assert found.notes == [f"retention removed 8 records, 1 to 8, of which the last had the hash {last.hash}"]
    assert verify(tmp_path, anchor=last.hash).is_intact
    assert not verify(tmp_path, anchor=NO_HASH).is_intact


def test_more_than_retention_removed_is_a_fault(tmp_path: Path) -> None:
    old_log(tmp_path)
    append(tmp_path, 99, end=chain(tmp_path, 1, 30)).close()
    whole = Log.read(tmp_path)
    rest = whole.with_lines(whole.lines[1:])
    rest.write(tmp_path)
    (fault,) = verify(tmp_path).faults
    assert "record 9 is missing at the beginning of the log, and retention did not remove them" in fault.what
    for keep_days in (None, 30, 1):  # whatever is removed or written afterwards
        append(tmp_path, 100, end=chain(tmp_path, 1, keep_days)).close()
        assert not verify(tmp_path).is_intact


def test_a_beginning_that_is_missing_does_not_become_a_work_of_retention(tmp_path: Path) -> None:
    old_log(tmp_path)
    list_files(tmp_path)[0].unlink()
    append(tmp_path, 99, end=chain(tmp_path, 1, 30)).close()
    (fault,) = verify(tmp_path).faults
    assert "records 1 to 2 are missing at the beginning: retention found none" in fault.what


def test_retention_goes_on_with_its_marker(tmp_path: Path) -> None:
    """The marker of the files that are removed now is the first one for all, so it may be removed itself."""
    old_log(tmp_path)
    append(tmp_path, 99, end=chain(tmp_path, 1, 30)).close()
    later = on("2027-06-01")
    append(tmp_path, 100, end=chain(tmp_path, 1, 30, later), time=later).close()
    found = verify(tmp_path)
    assert (found.is_intact, found.files) == (True, 1)
    (marker,) = fields_of(tmp_path, "retention")
    assert (marker["removed"]["first"]["seq"], marker["removed"]["count"]) == (1, found.first_seq - 1)


def test_retention_that_is_killed_in_the_middle_leaves_a_log_that_verifies(tmp_path: Path) -> None:
    for count in (1, 2, 4):
        folder = tmp_path / str(count)
        old_log(folder)
        killed(folder, "unlink", count, most_bytes=1, keep_days=30)
        found = verify(folder)
        assert found.is_intact
        assert f"records {2 * count - 1} to 8 are still there" in found.notes[-1]
        append(folder, 100, end=chain(folder, 1, 30)).close()
        assert verify(folder).is_intact
        assert not [path for path in list_files(folder) if "2020" in path.name]
        assert fields_of(folder, "retention")[-1]["removed"]["first"]["seq"] == 1


def test_a_file_is_not_removed_because_of_its_name(tmp_path: Path) -> None:
    append(tmp_path, 1, 2, time=on("2026-11-17")).close()
    (path,) = list_files(tmp_path)
    path.rename(tmp_path / "audit-2020-01-01-001.jsonl")
    append(tmp_path, 3, end=chain(tmp_path, 1, 30)).close()
    assert not fields_of(tmp_path, "retention")
    assert "this record began the file audit-2026-11-17-001.jsonl" in verify(tmp_path).faults[0].what


# Clock, disk, other programs


def test_a_clock_that_is_set_back_changes_neither_the_order_nor_the_chain(tmp_path: Path) -> None:
    for day in ("2026-11-18", "2020-01-01", "2026-11-18", "2031-01-01", "2026-11-19"):
        append(tmp_path, 1, time=on(day), end=chain(tmp_path, 1, time=on(day))).close()
    found = verify(tmp_path)
    assert (found.is_intact, found.records, found.notes) == (True, 5, [])
    assert [record.seq for record in read_records(tmp_path)] == [1, 2, 3, 4, 5]


def test_a_full_disk_stops_the_log_and_leaves_no_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(tmp_path)
    log.add("start", {}, is_important=True)
    assert log.flush(SECONDS)
    real, is_full = os.write, True

    def write(fd: int, data: Any) -> int:
        if is_full and len(data) > 40:
            return real(fd, bytes(data)[:40])
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)
    size = list_files(tmp_path)[0].stat().st_size
    log.add("decision", {"text": "x" * 1000}, is_important=True)
    assert not log.flush(SECONDS)
    assert "No space left" in log.problem
    assert list_files(tmp_path)[0].stat().st_size == size
    assert verify(tmp_path).is_intact
    is_full = False
    log.add("exit", {}, is_important=True)
    while log.waiting:
        log.flush(SECONDS)
    log.close()
    assert [record.fields["kind"] for record in read_records(tmp_path)] == ["start", "decision", "exit"]
    assert verify(tmp_path).is_intact


@pytest.mark.parametrize("moment", ["fdatasync", "rename"])
def test_a_head_that_cannot_be_written_does_not_repeat_the_records(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog(tmp_path)
    log.add("start", {}, is_important=True)
    assert log.flush(SECONDS)
    with monkeypatch.context() as patch:

        def fail(*given: Any, **named: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(os, moment, fail)
        log.add("decision", {}, is_important=True)
        assert not log.flush(SECONDS)
        assert log.waiting
    while log.waiting:
        log.flush(SECONDS)
    log.close()
    assert [record.fields["kind"] for record in read_records(tmp_path)] == ["start", "decision"]
    assert (verify(tmp_path).is_intact, verify(tmp_path).notes) == (True, [])


def test_records_that_are_not_important_are_named_by_the_head_as_well(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    log.add("prompt", {})
    until = time.monotonic() + SECONDS
    while (head := read_head(tmp_path) if tmp_path.exists() else None) is None or head.seq < 1:
        assert time.monotonic() < until
    log.close()


def test_two_programs_in_turns_write_one_chain(tmp_path: Path) -> None:
    ends = [chain(tmp_path, 2_000), chain(tmp_path, 2_000)]
    for number in range(40):
        append(tmp_path, number, number, end=ends[number % 2])
    for end in ends:
        end.close()
        assert not [notice for notice in end.notices if "changed" in notice]
    found = verify(tmp_path)
    assert (found.is_intact, found.records, found.notes) == (True, 80, [])


def test_a_log_is_checked_while_another_program_writes_it(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.proxy.audit_kit import append, chain\n"
        "folder = Path(sys.argv[1]); end = chain(folder, 3_000)\n"
        "for number in range(60): append(folder, number, end=end)"
    )
    append(tmp_path, 0).close()
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) as running:
        while running.poll() is None:
            found = verify(tmp_path)
            assert (found.is_intact, found.notes) == (True, [])
    assert (running.returncode, verify(tmp_path).records) == (0, 61)


def test_a_program_that_is_killed_among_others_harms_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from dragoman.proxy.audit.log import AuditLog\n"
        "log = AuditLog(Path(sys.argv[1]), most_bytes=5_000)\n"
        "for number in range(int(sys.argv[2])):\n"
        "    log.add('decision', {'number': number}, is_important=number % 2 == 0)\n"
        "    while not log.flush(60): pass\n"
        "    print(number, flush=True)\n"
        "log.close()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    others = [subprocess.Popen([*command, "50"], stdout=subprocess.DEVNULL) for _ in range(2)]
    for lines in (1, 7):
        with subprocess.Popen([*command, "100000"], stdout=subprocess.PIPE) as victim:
            assert victim.stdout is not None
            for _ in range(lines):
                assert victim.stdout.readline()
            victim.kill()
    assert [other.wait(SECONDS) for other in others] == [0, 0]
    append(tmp_path, 1, time="2999-01-01T00:00:00.000Z").close()
    found = verify(tmp_path)
    assert found.is_intact, found.faults
    assert found.records >= 109


def test_a_lock_that_another_program_keeps_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that keeps the log from being written stops the prompts, and not the log alone."""
    import fcntl

    from dragoman.proxy.audit import files

    monkeypatch.setattr(files, "_LOCK_SECONDS", 0.01)
    append(tmp_path, 1).close()
    with (tmp_path / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        log = AuditLog(tmp_path)
        log.add("start", {}, is_important=True)
        assert not log.flush(SECONDS)
        assert "another program holds the lock of the log" in log.problem
        assert verify(tmp_path).is_intact
    while log.waiting:
        log.flush(SECONDS)
    log.close()
    assert verify(tmp_path).last_seq == 2


# The first version of the format


def old_format(folder: Path, first: int, last: int, *, headed: int | None = None) -> Path:
    """A log of version 1, as it was written: no `opens`, no place in the head, not each record in it."""
    folder.mkdir(exist_ok=True)
    lines, prev, hashes = [], NO_HASH, {}
    for seq in range(1, last + 1):
        line, prev = make_line(
            {"v": 1, "kind": "decision", "time": "2026-11-17T08:00:00.000Z", "seq": seq, "prev": prev}
        )
        hashes[seq] = prev
        lines.append(line)
    name = "audit-2026-11-17-001.jsonl"
    (folder / name).write_bytes(b"".join(lines[first - 1 :]))
    seq = headed or last
    (folder / HEAD).write_text(f'{{"seq":{seq},"hash":"{hashes[seq]}","time":"t","file":"{name}"}}')
    return folder


def test_a_log_of_the_first_version_verifies_and_is_stated_as_such(tmp_path: Path) -> None:
    old_format(tmp_path, 1, 10, headed=8)
    found = verify(tmp_path)
    assert (found.is_intact, found.records) == (True, 10)
    assert "10 records have version 1 of the format, not 2" in found.notes[-1]
    append(tmp_path, 1, 2).close()
    found = verify(tmp_path)
    assert (found.is_intact, found.records, found.files) == (True, 12, 2)
    whole = Log.read(tmp_path)
    for count in range(1, 12):
        assert not verify(whole.with_lines(whole.lines[count:]).write(tmp_path)).is_intact
        assert not verify(whole.with_lines(whole.lines[:-count]).write(tmp_path)).is_intact


def test_a_log_of_the_first_version_without_its_beginning_or_head_is_not_intact(tmp_path: Path) -> None:
    """It left no marker, so retention cannot be told apart from a removal, and is not taken for granted."""
    old_format(tmp_path, 4, 10)
    assert "records 1 to 3 are missing at the beginning of the log" in verify(tmp_path).faults[0].what
    append(tmp_path, 1).close()
    assert not verify(tmp_path).is_intact
    old_format(tmp_path / "other", 1, 10)
    (tmp_path / "other" / HEAD).unlink()
    assert not verify(tmp_path / "other").is_intact


# Whose files they are


def every_file(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}


def write_all(folder: Path) -> None:
    """Write every file that the guard keeps: log, head, lock, counters of the day, conduct."""
    log = AuditLog(folder / "audit", most_bytes=1)
    for _ in range(2):
        log.add("start", {}, is_important=True)
        assert log.flush(SECONDS)
    log.close()
    GuardLimits([read_limit("day.turns=9")], folder / "guard").add("s", {"turns": 1}, ["/a"])
    Conduct("agent", folder / "guard").note("asked", "edit")


EXPECTED_FILES = 7


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_every_file_is_the_owners_alone_from_its_first_byte_under_any_umask(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, int]] = []
    real = os.open

    def opened(path: Any, flags: int, mode: int = 0o777, **named: Any) -> int:
        if flags & os.O_CREAT:
            made.append((flags, mode))
        return real(path, flags, mode, **named)

    monkeypatch.setattr(os, "open", opened)
    before = os.umask(umask)
    try:
        write_all(tmp_path / "state")
    finally:
        os.umask(before)
    modes = every_file(tmp_path)
    assert len(modes) == EXPECTED_FILES, modes
    assert set(modes.values()) == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_dir()} == {0o700}
    assert made
    assert all(mode == 0o600 and flags & os.O_EXCL and flags & os.O_NOFOLLOW for flags, mode in made)


def test_every_file_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name that a file is known by was given to a synced file, or its lines are synced."""
    synced: set[int] = set()

    def noted(real: Any) -> Any:
        def sync(fd: int) -> None:
            real(fd)
            synced.add(os.fstat(fd).st_ino)

        return sync

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, noted(getattr(os, name)))
    write_all(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and "lock" not in path.name]
    assert {path.name for path in files if path.stat().st_ino not in synced} == set()
    assert {path.name for path in tmp_path.iterdir() if path.stat().st_ino not in synced} == set(), (
        "names are synced too"
    )


@pytest.mark.parametrize("name", ["lock", "audit-2026-11-18-001.jsonl"])
@pytest.mark.parametrize("kind", ["link", "hard link", "folder", "pipe"])
def test_nothing_that_another_user_planted_is_written_to(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.proxy.audit.log.now", lambda: on("2026-11-18"))
    folder, target = tmp_path / "log", tmp_path / "target"
    folder.mkdir()
    target.write_text("precious")
    match kind:
        case "link":
            (folder / name).symlink_to(target)
        case "hard link":
            (folder / name).hardlink_to(target)
        case "folder":
            (folder / name).mkdir()
        case _:
            os.mkfifo(folder / name)
    with pytest.raises(OSError, match=r"."):
        append(folder, 1)
    assert target.read_text() == "precious"
    log = AuditLog(folder)
    log.add("start", {}, is_important=True)
    assert not log.flush(SECONDS)
    assert log.problem
    log.close()
    assert target.read_text() == "precious"


def test_a_link_in_the_place_of_the_head_is_replaced_and_not_followed(tmp_path: Path) -> None:
    folder, target = tmp_path / "log", tmp_path / "target"
    append(folder, 1).close()
    target.write_text("precious")
    (folder / HEAD).unlink()
    (folder / HEAD).symlink_to(target)
    append(folder, 2).close()
    assert target.read_text() == "precious"
    assert not (folder / HEAD).is_symlink()
    assert "head.json was something else" in verify(folder).faults[0].what


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    mine = os.geteuid()
    real = os.fstat

    class Status:
        def __init__(self, fd: int) -> None:
            self._status = real(fd)
            self.st_uid = mine + 1

        def __getattr__(self, name: str) -> Any:
            return getattr(self._status, name)

    monkeypatch.setattr(os, "fstat", Status)
    with pytest.raises(PermissionError, match="belongs to another user"):
        open_owned(path, os.O_RDWR)


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    append(tmp_path, 1).close()
    for path in tmp_path.iterdir():
        path.chmod(0o644)
    append(tmp_path, 2).close()
    assert set(every_file(tmp_path).values()) == {0o600}


def test_the_head_is_never_ahead_of_a_log_that_another_program_continued(tmp_path: Path) -> None:
    """A program that syncs later what it wrote must not put back a head that names less."""
    first = AuditLog(tmp_path)
    first.add("prompt", {})
    append(tmp_path, 1, 2, 3).close()
    assert first.flush(SECONDS)
    first.close()
    head = msgspec.json.decode((tmp_path / HEAD).read_bytes(), type=AuditHead)
    assert head.seq == verify(tmp_path).last_seq == 4
