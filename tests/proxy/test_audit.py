"""The audit log: chained, rotated, shared, and every change of it found."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.main import main
from dragoman.proxy.audit.export import FORMS, export
from dragoman.proxy.audit.files import HEAD, list_files, make_line, read_line
from dragoman.proxy.audit.log import AuditLog
from dragoman.proxy.audit.verify import read_records, verify

SECONDS = 60.0


def written(folder: Path, count: int, **options: object) -> Path:
    """A log with so many records."""
    log = AuditLog(folder, **options)  # type: ignore[arg-type]  # passed on
    for number in range(count):
        log.add("decision", {"session": "s", "number": number, "text": 'ä "x"'}, is_important=number % 3 == 0)
    assert log.flush(SECONDS)
    log.close()
    return folder


def only_file(folder: Path) -> Path:
    (path,) = list_files(folder)
    return path


def test_records_are_chained_and_only_the_user_can_read_them(tmp_path: Path) -> None:
    folder = written(tmp_path / "log", 10)
    found = verify(folder)
    assert (found.is_intact, found.records, found.last_seq, found.notes) == (True, 10, 10, [])
    assert os.stat(only_file(folder)).st_mode & 0o777 == 0o600
    assert os.stat(folder).st_mode & 0o777 == 0o700
    records = list(read_records(folder))
    assert [record.fields["prev"] for record in records[1:]] == [record.hash for record in records[:-1]]


def test_another_run_continues_the_chain(tmp_path: Path) -> None:
    for _ in range(3):
        written(tmp_path, 4)
    assert verify(tmp_path).last_seq == 12
    assert len({record.fields["run"] for record in read_records(tmp_path)}) == 3


def test_a_full_file_is_followed_by_another_one_in_the_same_chain(tmp_path: Path) -> None:
    written(tmp_path, 5, most_bytes=1)
    written(tmp_path, 5, most_bytes=1)
    assert len(list_files(tmp_path)) >= 2
    assert verify(tmp_path).is_intact


@pytest.mark.parametrize("line", [0, 3, 9])
def test_a_changed_record_is_found_and_located(line: int, tmp_path: Path) -> None:
    path = only_file(written(tmp_path, 10))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b'"number":%d' % line, b'"number":%d' % (line + 50))
    path.write_bytes(b"".join(lines))
    assert verify(tmp_path).faults[0].line == line + 1


def test_a_removed_an_added_and_a_moved_record_are_found(tmp_path: Path) -> None:
    path = only_file(written(tmp_path, 10))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4] + lines[5:]))
    assert "record 5 is missing before this line" in verify(tmp_path).faults[0].what
    path.write_bytes(b"".join([*lines[:5], lines[4], *lines[5:]]))
    assert verify(tmp_path).faults[0].line == 6
    path.write_bytes(b"".join([*lines[:4], lines[5], lines[4], *lines[6:]]))
    assert verify(tmp_path).faults[0].line == 5


def test_records_that_were_cut_off_at_the_end_are_found(tmp_path: Path) -> None:
    path = only_file(written(tmp_path, 10))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:6]))
    assert "records 7 to 10 are missing at the end of the log" in verify(tmp_path).faults[0].what


def test_a_log_that_was_written_again_is_found_by_a_hash_that_was_kept(tmp_path: Path) -> None:
    written(tmp_path / "log", 5)
    kept = verify(tmp_path / "log").last_hash
    written(tmp_path / "log", 2)
    assert verify(tmp_path / "log", anchor=kept).is_intact
    for path in (only_file(tmp_path / "log"), tmp_path / "log" / HEAD):
        path.unlink()
    written(tmp_path / "log", 7)
    assert verify(tmp_path / "log").is_intact
    assert "was written again" in verify(tmp_path / "log", anchor=kept).faults[0].what


@given(at=st.integers(0), bit=st.integers(0, 7))
def test_any_changed_bit_is_found(at: int, bit: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "bits"
    if not folder.exists():
        written(folder, 7)  # the last one is important, so the head names it
    path = only_file(folder)
    good = path.read_bytes()
    bad = bytearray(good)
    bad[at % len(bad)] ^= 1 << bit
    path.write_bytes(bytes(bad))
    try:
        assert not verify(folder).is_intact
    finally:
        path.write_bytes(good)


@pytest.mark.parametrize("kept", [1, 40, 100])
def test_half_a_line_of_a_killed_program_is_harmless(kept: int, tmp_path: Path) -> None:
    path = only_file(written(tmp_path, 4))
    half = make_line({"seq": 5, "prev": "x" * 64, "kind": "a"})[0][:kept]
    with path.open("ab") as file:
        file.write(half)
    found = verify(tmp_path)
    assert found.is_intact
    assert "the program was killed" in found.notes[0]
    written(tmp_path, 2)
    found = verify(tmp_path)
    assert (found.is_intact, found.last_seq) == (True, 6)
    assert "the next record states it" in found.notes[0]
    path.write_bytes(path.read_bytes().replace(half + b"\n", half + b"x\n", 1))
    assert not verify(tmp_path).is_intact


def test_several_programs_write_one_chain(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.proxy.test_audit import written\n"
        "for _ in range(5): written(Path(sys.argv[1]), 20)"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=os.getcwd()) for _ in range(2)]
    assert [each.wait(SECONDS) for each in running] == [0, 0]
    found = verify(tmp_path)
    assert (found.is_intact, found.records) == (True, 200)


def test_a_disk_that_refuses_is_a_problem_until_it_does_not(tmp_path: Path) -> None:
    blocked = tmp_path / "log"
    blocked.write_text("a file where the folder should be")
    log = AuditLog(blocked)
    log.add("start", {})
    assert not log.flush(SECONDS)
    assert str(blocked) in log.problem
    assert log.waiting == 1
    blocked.unlink()
    log.add("exit", {}, is_important=True)
    while log.waiting:
        log.flush(SECONDS)
    log.close()
    assert [record.fields["kind"] for record in read_records(blocked)] == ["start", "exit"]


def test_a_log_of_best_effort_states_what_it_lost(tmp_path: Path) -> None:
    blocked = tmp_path / "log"
    blocked.write_text("x")
    log = AuditLog(blocked, is_best_effort=True)
    log.add("lost", {})
    assert not log.flush(SECONDS)
    assert log.waiting == 0
    blocked.unlink()
    log.add("kept", {})
    while log.problem:
        log.flush(SECONDS)
    log.close()
    assert [record.fields["kind"] for record in read_records(blocked)] == ["gap", "kept"]


def test_a_line_is_the_same_for_every_reader() -> None:
    line, digest = make_line({"b": 1, "a": "half \ud83d a character"})
    assert line.startswith(b'{"a":"half ? a character","b":1,"hash":"')
    assert read_line(line[:-1]) == ({"a": "half ? a character", "b": 1}, digest)
    assert read_line(line) is None
    assert read_line(b"") is None
    assert read_line(b"{}") is None


@pytest.mark.parametrize("form", FORMS)
def test_records_in_other_forms(form: str, tmp_path: Path) -> None:
    log = AuditLog(tmp_path, shared={"host": "h"})
    log.add("command", {"session": "s", "command": "=cmd", "terminal": "t", "grade": "enforced"})
    log.add("file", {"session": "s", "file": {"path": "/a", "op": "write"}})
    log.add("violation", {"session": "s", "violation": {"title": "T", "action": "reported", "by": "deny x"}})
    log.close()
    text = "".join(export(read_records(tmp_path), form))
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["kind"] for row in rows] == ["command", "file", "violation"]
        assert rows[0]["what"] == "'=cmd"
        return
    documents = [json.loads(line) for line in text.splitlines()]
    assert len(documents) == 3
    if form == "otlp":
        entry = documents[2]["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
        assert (entry["severityText"], entry["eventName"]) == ("ERROR", "dragoman.audit.violation")
    elif form == "ocsf":
        assert [each["class_uid"] for each in documents] == [1007, 1001, 2004]
    elif form == "cloudevents":
        assert documents[0]["id"] == "h/1"


def test_the_command_says_where_the_log_was_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = only_file(written(tmp_path, 4))
    assert main(["audit", "verify", str(tmp_path)]) == 0
    assert "intact: 4 records in 1 files" in capsys.readouterr().out
    assert main(["audit", "show", str(tmp_path), "--kind", "decision"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["audit", "export", str(tmp_path), "--as", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    path.write_bytes(path.read_bytes().replace(b'"number":2', b'"number":7'))
    assert main(["audit", "verify", str(tmp_path)]) == 8
    assert f"{path}:3: this line was changed" in capsys.readouterr().out
    assert main(["audit", "verify", "--json", str(tmp_path)]) == 8
    assert json.loads(capsys.readouterr().out)["faults"][0]["line"] == 3
    assert main(["audit", "verify", str(tmp_path / "none")]) == 2
