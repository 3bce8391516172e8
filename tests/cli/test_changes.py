"""What a run changed in its folder: the result, the patch, and `dragoman sessions diff`, `review`, `rewind`, `redo`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.cli.exec_kit import Place, place
from tests.cli.step_kit import play, script, tool
from tests.cli.terminal_kit import at_terminal

__all__ = ["place"]


def sessions(place: Place, *words: str, code: int = 0) -> str:
    done = place.run(*words, verb="sessions")
    assert done.code == code, done.err
    return done.out


def files(place: Place) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(place.project.iterdir()) if path.is_file()}


def prepare(place: Place) -> list[Any]:
    """A folder with three files, and the steps of a turn that changes two and creates one."""
    for name in ("shown.txt", "silent.txt", "same.txt"):
        (place.project / name).write_text("one\ntwo\n")
    root = place.project
    diff = {"type": "diff", "path": str(root / "shown.txt"), "oldText": "one\ntwo\n", "newText": "one\n2\n"}
    return [
        ["write", str(root / "shown.txt"), "one\n2\n"],
        tool(kind="edit", status="completed", content=[diff]),
        ["write", str(root / "silent.txt"), "changed by a command\n"],
        ["write", str(root / "new.txt"), "new\n"],
        ["say", "done"],
    ]


def test_a_run_reports_everything_that_changed_and_by_whom(place: Place) -> None:
    before = {**files(place), **dict.fromkeys(("same.txt", "shown.txt", "silent.txt"), "one\ntwo\n")}
    steps = prepare(place)
    done = play(place, steps, "--output", "json", "--patch", str(place.home / "x.patch"))
    changes = done.result["changes"]
    assert changes["is_complete"]
    root = str(place.project)
    assert [(each["path"].removeprefix(root), each["kind"], each["by"]) for each in changes["paths"]] == [
        ("/new.txt", "created", "turn"),
        ("/shown.txt", "modified", "agent"),
        ("/silent.txt", "modified", "turn"),
    ]
    seen = {os.path.basename(each["path"]): each["seen_by"] for each in done.result["files_changed"]}
    assert seen == {"new.txt": ["snapshot"], "shown.txt": ["tool_call"], "silent.txt": ["snapshot"]}
    assert done.result["patch"]["left_out"] == []
    after = files(place)
    # The patch is complete: git takes all of it back.
    reverse = ["git", "apply", "-R", str(place.home / "x.patch")]
    subprocess.run(reverse, cwd=place.project, check=True, timeout=30)
    assert files(place) == before
    subprocess.run(["git", "apply", str(place.home / "x.patch")], cwd=place.project, check=True, timeout=30)
    assert files(place) == after
    shown = sessions(place, "diff", "--stat")
    assert "modified  the agent        +1 -1  shown.txt" in shown
    assert "created   during the turn  +1 -0  new.txt" in shown
    found = json.loads(sessions(place, "diff", "last", "--json"))
    assert [each["path"] for each in found["folders"][0]["changes"]] == ["new.txt", "shown.txt", "silent.txt"]


def test_a_turn_is_reviewed_rewound_and_redone_from_the_command_line(place: Place) -> None:
    done = play(place, prepare(place))
    assert "changed 3 files (+3 -3); dragoman sessions diff" in done.err
    after = files(place)
    sessions(place, "review", "--keep", "new.txt", "--revert", "shown.txt:1")
    assert files(place)["shown.txt"] == "one\ntwo\n"
    refused = place.run("review", "--revert", "shown.txt:1", "--revert", "nothing.txt", verb="sessions")
    assert refused.code == 8
    assert "as before the turn already" in refused.err
    assert "nothing.txt was not changed" in refused.err
    sessions(place, "redo", "--yes")
    assert files(place) == after
    plan = json.loads(sessions(place, "rewind", "--dry-run", "--json"))
    assert {each["path"]: each["action"] for each in plan[0]["paths"]} == {
        "new.txt": "delete",
        "shown.txt": "write",
        "silent.txt": "write",
    }
    assert files(place) == after
    asked = place.run("rewind", verb="sessions")  # no user can be asked here
    assert (asked.code, "--yes" in asked.err) == (2, True)
    (place.project / "silent.txt").write_text("mine\n")
    assert "conflict" in sessions(place, "rewind", "--yes")
    assert files(place) == {"same.txt": "one\ntwo\n", "shown.txt": "one\ntwo\n", "silent.txt": "mine\n"}
    again = place.run("rewind", "--yes", verb="sessions")
    assert "taken back already" in again.err
    sessions(place, "redo", "--yes")
    assert files(place) == {**after, "silent.txt": "mine\n"}
    assert str(place.project) in sessions(place, "storage")
    sessions(place, "storage", "--free", ".")
    assert place.run("diff", verb="sessions").code == 2


def test_without_snapshots_nothing_is_stored(place: Place) -> None:
    done = play(place, prepare(place), "--no-snapshots", "--output", "json")
    assert done.result["changes"] is None
    assert [os.path.basename(each["path"]) for each in done.result["files_changed"]] == ["shown.txt"]
    assert not (place.home / "dragoman" / "data" / "snapshots").exists()


def test_the_home_folder_is_refused_aloud_and_named_files_are_followed(place: Place) -> None:
    place.environment["HOME"] = str(place.project)
    steps = prepare(place)
    old = 1_700_000_000
    for path in place.project.iterdir():
        os.utime(path, (old, old))
    done = play(place, steps, "--output", "json")
    assert "changes are tracked only for files the agent names: it is your home folder" in done.err
    changes = done.result["changes"]
    assert not changes["is_complete"]
    assert "home folder" in changes["reasons"][0]
    again = place.run("diff", "--stat", verb="sessions")
    assert "only files that the agent named were tracked" in again.err


def test_a_run_that_is_interrupted_still_has_its_changes(place: Place) -> None:
    (place.project / "a.txt").write_text("one\n")
    steps = [["write", str(place.project / "a.txt"), "two\n"], ["exit", 3]]
    done = play(place, steps, "--output", "json")
    assert done.code == 4
    assert [each["kind"] for each in done.result["changes"]["paths"]] == ["modified"]
    sessions(place, "rewind", "--yes")
    assert files(place) == {"a.txt": "one\n"}


def test_a_turn_that_changed_a_file_in_silence_is_not_tried_again(place: Place) -> None:
    steps = [["write", str(place.project / "a.txt"), "x\n"], ["exit", 3]]
    done = play(place, steps, "--output", "json", "--retries", "2")
    assert done.result["retries"] == []


def test_review_asks_about_every_hunk_on_a_terminal(place: Place) -> None:
    play(place, prepare(place))
    with at_terminal(place, "sessions", "review") as terminal:
        for answer, hunk in (("y", "new.txt:1"), ("n", "shown.txt:1"), ("s", "silent.txt:1")):
            terminal.until(hunk)
            terminal.until("keep it?")
            terminal.type(f"{answer}\n")
        assert terminal.wait() == 0
    assert files(place)["shown.txt"] == "one\ntwo\n"
    assert files(place)["silent.txt"] == "changed by a command\n"
    found = json.loads(sessions(place, "review", "--json"))
    assert [each["is_kept"] for each in found["files"]] == [True, False, False]


def test_names_that_act_on_a_terminal_or_are_not_utf8_do_no_harm(place: Place, tmp_path: Path) -> None:
    odd = os.fsencode(place.project) + b"/\x1b[31mred \xff\nline"
    with open(odd, "wb") as file:
        file.write(b"one\n")
    done = play(place, [["write", os.fsdecode(odd), "two\n"], ["say", "x"]], "--output", "json")
    assert len(done.result["changes"]["paths"]) == 1
    for words in (["diff", "--stat"], ["diff", "--json"], ["review"], ["rewind", "--dry-run"], ["rewind", "--yes"]):
        shown = sessions(place, *words)
        assert "\x1b" not in shown
    with open(odd, "rb") as file:
        assert file.read() == b"one\n"


def test_what_an_agent_wrote_does_not_act_on_the_terminal_that_shows_it(place: Place) -> None:
    (place.project / "a.txt").write_text("one\n")
    play(place, [["write", str(place.project / "a.txt"), "\x1b]0;owned\x07\x9b31m harmless\n"], ["say", "x"]])
    place.environment["NO_COLOR"] = "1"
    for words in (["diff"], ["rewind", "--dry-run"]):
        with at_terminal(place, "sessions", *words) as terminal:
            terminal.wait()
        assert "\x1b" not in terminal.text
        assert "\x9b" not in terminal.text
        assert "harmless" in terminal.text or words != ["diff"]


def test_files_that_the_run_itself_writes_are_not_changes_of_the_turn(place: Place) -> None:
    done = play(place, [["say", "x"]], "--record", "run.trace", "--patch", "run.patch", "--output", "json")
    assert done.result["changes"]["paths"] == []
    assert {path.name for path in place.project.iterdir()} == {"run.trace", "run.patch"}


def test_output_that_is_redirected_into_the_folder_is_not_a_change(place: Place) -> None:
    words = place.words("exec", "x", "--output", "events", odd=script(place, [["say", "a"], ["say", "b"]]))
    with open(place.project / "out", "wb") as out, open(place.project / "err", "wb") as err:
        subprocess.run(
            words,
            cwd=place.project,
            env=place.environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            check=True,
        )
    last = json.loads((place.project / "out").read_text().splitlines()[-1])
    assert last["result"]["changes"]["paths"] == []
