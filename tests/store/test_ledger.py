"""The ledger of sessions: what it keeps, finds and forgets, with many programs at once and with programs that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.errors import StoreError
from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.store.ledger import EndedTurn, Ledger, NewEntry, TouchedFile
from dragoman.store.ledger_record import RECORD_BYTES, pack, record_prompt, record_turn, replay_turns, texts_of, unpack
from dragoman.view import blocks_of
from tests.view.conversation import TERMINALS, conversation

RECORD = pack(record_prompt([v1.TextContent("Fix it")]))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(tmp_path / "ledger.db")
    yield opened
    opened.close()


def add(ledger: Ledger, session_id: str, agent: str = "a", folder: str = "/p", title: str | None = None) -> int:
    entry = NewEntry(agent=agent, command=("x",), session_id=session_id, folder=folder, first_prompt="Fix it")
    number = ledger.begin_turn(entry, RECORD, is_new=True).result()
    ledger.end_turn(number, RECORD, EndedTurn(exit_code=0, title=title)).result()
    return number


def test_turn_is_kept_with_everything_that_was_shown() -> None:
    state = conversation()
    record = unpack(pack(record_turn(state, state.turns[-1], TERMINALS.values())))
    again, terminals = replay_turns([record])
    # The image of the prompt is kept as a description.
    assert blocks_of(again, terminals)[1:] == blocks_of(state, TERMINALS)[1:]
    texts = list(texts_of(record))
    for words in ("Fix <this>", "Let me look.", "Look", "three", "npm test", "1 failed", "found it"):
        assert any(words in text for text in texts), words


def test_cancelled_turn_shows_its_calls_as_cancelled_again() -> None:
    state = SessionState()
    state.begin_turn([v1.TextContent("go")])
    fold(state, v1.ToolCall("t", "Slow", status="in_progress"))
    state.end_turn("cancelled")
    again, _ = replay_turns([record_turn(state, state.turns[-1])])
    assert again.tool_calls["t"].is_cancelled


def test_record_of_an_endless_turn_is_bounded() -> None:
    state = SessionState()
    state.begin_turn([v1.TextContent("go" * 100_000), v1.ImageContent("A" * 10_000_000, "image/png")])
    for number in range(2_000):
        fold(state, v1.ToolCall(f"t{number}", "Read", raw_output="x" * 10_000))
    state.end_turn("end_turn")
    record = record_turn(state, state.turns[-1])
    assert record.left_out == 1_600
    assert len(pack(record)) < RECORD_BYTES
    again, _ = replay_turns([record])
    assert [notice.title for notice in again.notices] == ["1600 items of this turn were not kept"]


def test_sessions_are_found_by_number_id_title_and_their_beginnings(ledger: Ledger) -> None:
    add(ledger, "abc-1", title="The login bug")
    add(ledger, "abd-2", title="Something else")
    add(ledger, "xyz-3", agent="b")

    def ids(word: str, agent: str | None = None) -> list[str]:
        return [entry.session_id for entry in ledger.find(word, agent=agent)]

    assert ids("@1") == ["abc-1"]
    assert ids("abd-2") == ids("abd") == ids("SOMETHING  else") == ids("something") == ["abd-2"]
    assert ids("ab") == ["abd-2", "abc-1"]
    assert ids("xyz", "a") == ids("@9") == ids("nothing") == ids(" ") == []


def test_id_that_an_agent_uses_again_is_another_session(ledger: Ledger) -> None:
    first, second = add(ledger, "s"), add(ledger, "s")
    other = add(ledger, "s", agent="b")
    assert {entry.number: entry.is_replaced for entry in ledger.entries()} == {first: True, second: False, other: False}
    assert [entry.number for entry in ledger.find("s", agent="a")] == [second]
    assert len(ledger.find("s")) == 2


def test_continued_session_gets_another_turn_and_keeps_its_files(ledger: Ledger) -> None:
    number = add(ledger, "s")
    entry = NewEntry(agent="a", command=("x",), session_id="s", folder="/p")
    assert ledger.begin_turn(entry, RECORD, is_new=False).result() == number
    [found] = ledger.entries()
    assert (found.turns, found.state, found.exit_code) == (2, "running", None)
    for path in ("/b", "/a"):
        ledger.end_turn(number, None, EndedTurn(exit_code=3, files=(TouchedFile(path, "created"),))).result()
    [found] = ledger.entries()
    assert (found.state, found.exit_code, [each.path for each in found.files]) == ("ended", 3, ["/a", "/b"])
    assert [record.prompt for record in ledger.turns(number)] == [[{"type": "text", "text": "Fix it"}]] * 2


def test_rename_keeps_the_agents_title_for_later(ledger: Ledger) -> None:
    number = add(ledger, "s", title="Agent's")
    ledger.rename(number, "Mine")
    assert ledger.entries()[0].title == "Mine"
    ledger.rename(number, "")
    assert ledger.entries()[0].title == "Agent's"


def test_oldest_sessions_go_first_and_the_newest_stays(ledger: Ledger) -> None:
    for number in range(5):
        add(ledger, f"s{number}")
    assert ledger.prune(sessions=3).result() == 2
    assert [entry.session_id for entry in ledger.entries()] == ["s4", "s3", "s2"]
    assert ledger.prune(days=-1).result() == 2
    assert ledger.prune(size_bytes=0).result() == 0
    assert [entry.session_id for entry in ledger.entries()] == ["s4"]


def test_deleted_session_is_not_left_in_the_file(ledger: Ledger, tmp_path: Path) -> None:
    number = add(ledger, "s", title="swordfish swordfish")
    add(ledger, "t")
    ledger.delete([number])
    ledger.close()
    for path in tmp_path.glob("ledger.db*"):
        assert path.is_dir() or b"swordfish" not in path.read_bytes(), path.name


def test_file_and_its_log_are_private(ledger: Ledger, tmp_path: Path) -> None:
    add(ledger, "s")
    for path in tmp_path.glob("ledger.db*"):
        assert path.stat().st_mode & 0o077 == 0, path.name


def test_newer_file_is_refused_with_a_remedy(ledger: Ledger, tmp_path: Path) -> None:
    import sqlite3

    ledger.close()
    with sqlite3.connect(tmp_path / "ledger.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match=r"newer dragoman.*--no-ledger"):
        Ledger.open(tmp_path / "ledger.db")


WRITER = """
import sys
from pathlib import Path
from dragoman.store.ledger import EndedTurn, Ledger, NewEntry
ledger = Ledger.open(Path(sys.argv[1]), busy_seconds=30)
for number in range(int(sys.argv[3])):
    entry = NewEntry(agent=sys.argv[2], command=("x",), session_id=f"{sys.argv[2]}-{number}", folder="/p")
    made = ledger.begin_turn(entry, b"x", is_new=True).result()
    ledger.save_turn(made, b"y").result()
    print(made, flush=True)
    if sys.argv[4] == "ends":
        ledger.end_turn(made, None, EndedTurn(exit_code=0)).result()
    else:
        sys.stdin.read()
ledger.close()
"""


def writer(path: Path, name: str, count: int, habit: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count), habit],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_many_programs_write_at_once_also_when_the_file_is_new(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ledger.db"
    programs = [writer(path, f"agent{number}", 20, "ends") for number in range(4)]
    numbers = []
    for program in programs:
        out, _ = program.communicate(timeout=60)
        assert program.returncode == 0
        numbers += out.split()
    assert len(set(numbers)) == 80
    ledger = Ledger.open(path)
    assert {entry.state for entry in ledger.entries()} == {"ended"}
    assert len(ledger.entries()) == 80
    ledger.close()


def test_killed_program_loses_nothing_and_its_turn_is_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with writer(path, "a", 1, "waits") as program:
        assert program.stdout is not None
        assert program.stdout.readline()
        ledger = Ledger.open(path)
        assert [entry.state for entry in ledger.entries()] == ["running"]
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
        assert [entry.state for entry in ledger.entries()] == ["interrupted"]
        ledger.close()
