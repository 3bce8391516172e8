"""Attacks on an audit log: each is found, located, and still found after a guard went on writing."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.proxy.audit.files import HEAD, AuditHead, make_line, read_line
from dragoman.proxy.audit.verify import Verification, read_records, verify
from tests.proxy.audit_kit import Log, append, chain

COUNT = 95
SECONDS = 60.0
MOVED = "records or files were moved"
TWICE = "records were moved, or are there twice"


class Attack(NamedTuple):
    """A changed log, and the fault that must be among those that are found."""

    name: str
    log: Log
    what: str
    file: str | None = None


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A log of 95 records in several files, written in batches of three."""
    folder = tmp_path_factory.mktemp("whole") / "log"
    end = chain(folder, 6_000)
    for first in range(0, COUNT - 2, 3):
        append(folder, *range(first, first + 3), end=end)
    append(folder, COUNT - 2, COUNT - 1, end=end)
    end.close()
    found = verify(folder)
    assert (found.is_intact, found.records, found.notes) == (True, COUNT, [])
    assert found.files >= 4
    return Log.read(folder)


def records(first: int, last: int) -> str:
    return f"record {first} is missing" if first == last else f"records {first} to {last} are missing"


# Attacks


def removed_record(log: Log) -> Iterator[Attack]:
    lines = log.lines
    for seq in range(1, COUNT + 1):
        where = {1: " at the beginning", COUNT: " at the end"}.get(seq, "")
        name = log.place(min(COUNT - (seq == COUNT), seq + (seq < COUNT)))[0]
        yield Attack(f"{seq}", log.with_lines(lines[: seq - 1] + lines[seq:]), records(seq, seq) + where, name)


def removed_prefix(log: Log) -> Iterator[Attack]:
    for count, keeps_empty in itertools.product(range(1, COUNT), (False, True)):
        rest = log.with_lines(log.lines[count:], keeps_empty=keeps_empty)
        yield Attack(f"{count}", rest, records(1, count) + " at the beginning", log.place(count + 1)[0])


def removed_suffix(log: Log) -> Iterator[Attack]:
    for count, keeps_empty in itertools.product(range(1, COUNT + 1), (False, True)):
        rest = log.with_lines(log.lines[:-count], keeps_empty=keeps_empty)
        yield Attack(f"{count}", rest, records(COUNT - count + 1, COUNT) + " at the end of the log")


def removed_suffix_and_head(log: Log) -> Iterator[Attack]:
    for attack in removed_suffix(log):
        what = "head.json: this file is missing"
        yield attack._replace(log=attack.log._replace(head=None), what=what)


def removed_middle(log: Log) -> Iterator[Attack]:
    lines = log.lines
    for first, last in itertools.combinations(range(2, COUNT, 7), 2):
        rest = log.with_lines(lines[: first - 1] + lines[last:])
        yield Attack(f"{first} to {last}", rest, records(first, last), log.place(last + 1)[0])


def removed_files(log: Log) -> Iterator[Attack]:
    names = log.names
    for count in range(1, len(names) + 1):
        for gone in itertools.combinations(names, count):
            rest = {name: lines for name, lines in log.files.items() if name not in gone}
            what = "missing with the file"
            if names[0] in gone:
                what = "missing at the beginning of the log"
            if names[-1] in gone:
                what = f"missing at the end of the log, with the file {names[-1]}"
            yield Attack(" ".join(gone), log._replace(files=rest), what)


def emptied(log: Log) -> Iterator[Attack]:
    yield Attack("files empty", log.with_lines([], keeps_empty=True), records(1, COUNT) + " at the end")
    yield Attack("files gone", log.with_lines([]), records(1, COUNT) + " at the end")
    yield Attack("all gone", Log({}, None), "head.json: this file is missing, and so is every record")
    yield Attack("head gone", Log({name: [] for name in log.names}, None), "and so is every record")


def swapped_records(log: Log) -> Iterator[Attack]:
    for one, other in itertools.combinations(range(0, COUNT, 6), 2):
        lines = log.lines
        (file, line), (other_file, other_line) = lines[one], lines[other]
        lines[one], lines[other] = (file, other_line), (other_file, line)
        yield Attack(f"{one} {other}", log.with_lines(lines), "records were moved|is missing|are missing")


def swapped_files(log: Log) -> Iterator[Attack]:
    for one, other in itertools.combinations(log.names, 2):
        files = {**log.files, one: log.files[other], other: log.files[one]}
        yield Attack(f"{one} {other}", log._replace(files=files), f"began the file {one}: {MOVED}")


def moved_records(log: Log) -> Iterator[Attack]:
    """All records in order, but in other files."""
    for count, (one, other) in itertools.product((1, 5), itertools.pairwise(log.names)):
        files = {name: list(lines) for name, lines in log.files.items()}
        files[one], files[other] = files[one] + files[other][:count], files[other][count:]
        yield Attack(
            f"{other} {count}", log._replace(files=files), f"began the file {other}: records or files were moved"
        )
        files = {name: list(lines) for name, lines in log.files.items()}
        files[one], files[other] = files[one][:-count], files[one][-count:] + files[other]
        yield Attack(
            f"{one} {count}", log._replace(files=files), f"began the file {other}: records or files were moved"
        )


def renamed_files(log: Log) -> Iterator[Attack]:
    for number, name in enumerate(log.names):
        old = [*log.names[:number], f"{name[:-6]}0.jsonl", *log.names[number + 1 :]]
        yield Attack(name, log._replace(files=dict(zip(old, log.files.values(), strict=True))), MOVED)


def repeated(log: Log) -> Iterator[Attack]:
    lines = log.lines
    for seq in range(1, COUNT + 1):
        again = log.with_lines([*lines[:seq], lines[seq - 1], *lines[seq:]])
        yield Attack(f"{seq}", again, f"record {seq} follows record {seq}: {TWICE}")
    for first, last in itertools.combinations(range(1, COUNT, 11), 2):
        copies = [(lines[last - 1][0], line) for _, line in lines[first - 1 : last]]
        again = log.with_lines([*lines[:last], *copies, *lines[last:]])
        yield Attack(f"{first} {last}", again, f"record {first} follows record {last}: {TWICE}")
    for number, name in enumerate(log.names):
        files = {**log.files, f"audit-2999-01-01-00{number + 1}.jsonl": log.files[name]}
        yield Attack(name, log._replace(files=files), f"records were moved|{MOVED}")


def changed_record(log: Log) -> Iterator[Attack]:
    lines = log.lines
    for index, (name, line) in enumerate(lines):
        changed = line.replace(b'"kind":"decision"', b'"kind":"derision"')
        log_of = [*lines[:index], (name, changed), *lines[index + 1 :]]
        yield Attack(f"{index + 1}", log.with_lines(log_of), "this line was changed: its hash does not fit", name)


def forged_record(log: Log) -> Iterator[Attack]:
    """A record that fits its own hash in the place of another one."""
    lines = log.lines
    for index, (name, line) in enumerate(lines):
        found = read_line(line[:-1])
        assert found is not None
        forged, _ = make_line({**found[0], "kind": "derision"})
        what = f"record {index + 2} does not follow the one before it: one of them was replaced"
        if index == COUNT - 1:
            what = f"record {COUNT} is not the one that head.json names: the log was written again"
        yield Attack(f"{index + 1}", log.with_lines([*lines[:index], (name, forged), *lines[index + 1 :]]), what)


def cut_line(log: Log) -> Iterator[Attack]:
    *lines, (name, last) = log.lines
    for kept in range(1, len(last)):
        rest = log.with_lines([*lines, (name, last[:kept])])
        yield Attack(f"{kept}", rest, "this line is cut off: it was whole before", name)


def other_head(log: Log) -> Iterator[Attack]:
    yield Attack(
        "missing", log._replace(head=None), "head.json: this file is missing: whether records are missing at the"
    )
    for garbage in (b"", b"{", b"[]", b'{"seq":"x"}', b"\xff"):
        yield Attack(repr(garbage), log._replace(head=garbage), "head.json is not the head of an audit log")
    assert log.head is not None
    head = msgspec.json.decode(log.head, type=AuditHead)
    for seq in (1, 50, COUNT):
        other = msgspec.structs.replace(head, seq=seq, hash="a" * 64)
        what = f"record {seq} is not the one that head.json names: the log was written again"
        yield Attack(f"{seq}", log._replace(head=msgspec.json.encode(other)), what)
    ahead = msgspec.structs.replace(head, seq=COUNT + 3, hash="a" * 64)
    what = records(COUNT + 1, COUNT + 3) + " at the end"
    yield Attack("ahead", log._replace(head=msgspec.json.encode(ahead)), what)


ATTACKS: dict[str, Callable[[Log], Iterator[Attack]]] = {
    attack.__name__: attack
    for attack in (
        *(
            removed_record,
            removed_prefix,
            removed_suffix,
            removed_suffix_and_head,
            removed_middle,
            removed_files,
            emptied,
        ),
        *(swapped_records, swapped_files, moved_records, renamed_files, repeated),
        *(changed_record, forged_record, cut_line, other_head),
    )
}


def assert_found(found: Verification, attack: Attack) -> None:
    told = [str(fault) for fault in found.faults]
    shown = f"{attack.name}: {attack.what!r} is not in {told}"
    assert any(re.search(attack.what, each) and (attack.file or "") in each for each in told), shown


@pytest.mark.parametrize("kind", ATTACKS)
def test_an_attack_is_reported_with_what_is_missing_and_where(kind: str, log: Log, tmp_path: Path) -> None:
    for attack in ATTACKS[kind](log):
        assert_found(verify(attack.log.write(tmp_path / "log")), attack)


@pytest.mark.parametrize("kind", ATTACKS)
def test_an_attack_is_found_after_a_guard_went_on_writing(kind: str, log: Log, tmp_path: Path) -> None:
    """A guard that continues the chain, and replaces the head, must not make a changed log look whole."""
    attacks = [attack for attack in ATTACKS[kind](log) if attack.log.files or attack.log.head]  # else a new log begins
    for attack in attacks[:: 1 + len(attacks) // 40]:
        folder = attack.log.write(tmp_path / "log")
        append(folder, 1, 2).close()
        append(folder, 3).close()
        found = verify(folder)
        assert found.faults, f"{attack.name} is not found any more"
        assert len(list(read_records(folder))) >= 3


@given(
    places=st.lists(st.tuples(st.integers(0), st.integers(0, 3_000)), min_size=1, max_size=3),
    inserted=st.binary(max_size=3),
    is_repeated=st.booleans(),
)
def test_any_bytes_that_are_removed_added_or_repeated_are_found(
    places: list[tuple[int, int]],
    inserted: bytes,
    is_repeated: bool,
    log: Log,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    files = {name: b"".join(lines) for name, lines in log.files.items()}
    changed = dict(files)
    for place, count in places:
        name = log.names[place % len(files)]
        data = changed[name]
        start = place % (len(data) + 1)
        removed = data[start : start + count]
        changed[name] = data[:start] + inserted + removed * (2 if is_repeated else 0) + data[start + count :]
    last = log.names[-1]
    # What follows the record that the head names may be half a line of a program that was killed.
    if {**changed, last: changed[last][: len(files[last])]} == files:
        return
    folder = tmp_path_factory.getbasetemp() / "edited"
    assert not verify(log._replace(files={name: [data] for name, data in changed.items()}).write(folder)).is_intact


def consistent_heads(log: Log) -> Iterator[Log]:
    """Logs that were cut off at the end, with a head that fits."""
    for count in range(1, COUNT):
        rest = log.with_lines(log.lines[:-count])
        name, line = rest.lines[-1]
        found = read_line(line[:-1])
        assert found is not None
        head = AuditHead(found[0]["seq"], found[1], "", name, sum(map(len, rest.files[name])))
        yield rest._replace(head=msgspec.json.encode(head))


def test_a_running_guard_notices_that_log_and_head_were_cut_off_together(log: Log, tmp_path: Path) -> None:
    """A program knows the last record that it wrote."""
    for rest in itertools.islice(consistent_heads(log), None, None, 13):
        end = append(log.write(tmp_path / "log"), 0)
        folder = rest.write(tmp_path / "log")
        assert verify(folder).is_intact, "nothing in the folder shows it"
        append(folder, 1, end=end).close()
        told = [fault.what for fault in verify(folder).faults]
        assert any(f"to {COUNT + 1} are missing" in each for each in told), told
        assert any(f"record {COUNT + 1}, which this program had written, was not there" in each for each in told), told
        assert "the audit log was changed: " in end.notices[-1]


def test_a_tail_that_is_missing_together_with_the_head_is_shown_by_a_hash_that_was_kept(
    log: Log, tmp_path: Path
) -> None:
    kept = verify(log.write(tmp_path / "log")).last_hash
    for rest in consistent_heads(log):
        folder = rest.write(tmp_path / "log")
        assert verify(folder).is_intact, "this is what cannot be proven without it"
        assert "was written again, or cut off" in verify(folder, anchor=kept).faults[0].what
        rest._replace(head=None).write(tmp_path / "log")
        told = [str(fault) for fault in verify(folder, anchor=kept).faults]
        assert len(told) == 2
        assert "head.json: this file is missing" in told[0]
        assert f"no record has the hash {kept}" in told[1]


def test_two_logs_that_were_exchanged_are_shown_by_the_hash_that_was_kept(log: Log, tmp_path: Path) -> None:
    append(tmp_path / "other", *range(COUNT)).close()
    other = Log.read(tmp_path / "other")
    kept = verify(log.write(tmp_path / "log")).last_hash
    for files, head in ((other.files, log.head), (log.files, other.head)):
        assert not verify(Log(files, head).write(tmp_path / "log")).is_intact, "the head is of the other log"
    folder = other.write(tmp_path / "log")
    assert verify(folder).is_intact, "a whole log is a log"
    assert not verify(folder, anchor=kept).is_intact
    for name in log.names:
        mixed = {**log.files, name: next(iter(other.files.values()))}
        assert not verify(log._replace(files=mixed).write(folder)).is_intact


def test_a_hash_that_was_kept_proves_all_that_is_before_it(log: Log, tmp_path: Path) -> None:
    folder = log.write(tmp_path / "log")
    for seq in range(1, COUNT + 1, 13):
        found = read_line(log.lines[seq - 1][1][:-1])
        assert found is not None
        result = verify(folder, anchor=found[1])
        assert (result.is_intact, result.notes) == (True, [f"record {seq} has the hash that you kept"])


def as_program(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dragoman", "audit", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.mark.parametrize("kind", ATTACKS)
def test_the_command_ends_with_8_and_says_what_is_missing(kind: str, log: Log, tmp_path: Path) -> None:
    *_, attack = ATTACKS[kind](log)
    folder = attack.log.write(tmp_path / "log")
    done = as_program("verify", str(folder))
    assert (done.returncode, done.stderr) == (8, "")
    *faults, last = [line for line in done.stdout.splitlines() if not line.startswith("note: ")]
    assert all(line.startswith(f"fault: {folder}") for line in faults)
    assert any(re.search(attack.what, line) for line in faults)
    assert last.startswith("not intact: ")


def test_the_hash_to_keep_is_printed_by_a_command(log: Log, tmp_path: Path) -> None:
    folder = log.write(tmp_path / "log")
    printed = as_program("head", str(folder))
    assert (printed.returncode, printed.stderr) == (0, "")
    kept = printed.stdout.strip()
    assert kept == verify(folder).last_hash
    assert json.loads(as_program("head", "--json", str(folder)).stdout)["hash"] == kept
    assert as_program("verify", "--head", kept[:-1], str(folder)).returncode == 2
    assert as_program("verify", "--head", kept, str(folder)).returncode == 0
    *_, rest = consistent_heads(log)
    rest.write(folder)
    done = as_program("verify", "--head", kept, str(folder))
    assert done.returncode == 8
    assert f"no record has the hash {kept}" in done.stdout
    rest._replace(head=log.head).write(folder)
    assert as_program("head", str(folder)).returncode == 8
    rest._replace(head=None).write(folder)
    assert as_program("head", str(folder)).returncode == 8


def test_a_file_of_the_log_that_is_something_else_is_a_fault(log: Log, tmp_path: Path) -> None:
    folder = log.write(tmp_path / "log")
    path = folder / log.names[1]
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert "this is a link" in str(verify(folder).faults[0])
    path.unlink()
    path.mkdir()
    assert "this is not a regular file" in str(verify(folder).faults[0])
    path.rmdir()
    elsewhere.rename(path)
    (folder / HEAD).rename(elsewhere)
    (folder / HEAD).symlink_to(elsewhere)
    assert "head.json: this is a link" in str(verify(folder).faults[0])
