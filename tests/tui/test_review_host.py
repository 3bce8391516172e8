"""Review, rewind, traffic, export and report as a user meets them: a real terminal, a real host, a real agent."""

from __future__ import annotations

import json
import os
import signal
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from dragoman.trace.reader import open_trace
from tests.host.local.kit import HostPlaceKit, local_place, wait_for
from tests.tui.kit import Plain
from tests.tui.test_terminal import Terminal

SCRIPTED = ("-a", "dragoman", "--model", "scripted", "--allow", "edit")
KEY = "sk-a-secret-of-the-user-123"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[HostPlaceKit]:
    with local_place(tmp_path) as found:
        (found.project / "a.txt").write_text("hello\n")
        found.settings(agents={"x": {"command": ["/bin/x"], "env": {"MY_TOKEN": "a-token-in-the-settings"}}})
        found.environment["OPENAI_API_KEY"] = KEY
        yield found


def contents(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name.rpartition("/")[2]: archive.read(name).decode() for name in archive.namelist()}


def test_a_turn_is_reviewed_rewound_and_reported_in_a_terminal(place: HostPlaceKit) -> None:
    terminal = Terminal(place, *SCRIPTED)
    file = place.project / "a.txt"
    try:
        terminal.until("F1 help")
        terminal.type("edit a.txt hello => bye\r")
        terminal.until("✔ edit")
        terminal.until("Enter send")
        terminal.type("\x1bd")
        terminal.until("review · turn 1 of 1 · 1 file, 1 hunk · 1 open")
        shown = terminal.until("+    1  bye")
        assert "-    1  hello" in shown
        assert "by the agent: 1" in shown
        terminal.type("x")
        terminal.until("taken back: a.txt, hunk 1")
        assert file.read_text() == "hello\n"
        terminal.type("u")
        terminal.until("brought back: a.txt")
        assert file.read_text() == "bye\n"
        terminal.type("q")
        terminal.until("Enter send")
        terminal.type("\x1b")
        terminal.read(0.2)
        terminal.type("\x1b")
        terminal.until("rewind · 1 turn")
        terminal.until("❯ now")
        terminal.type("k")
        terminal.until("restore   a.txt")
        assert "edit a.txt hello => bye" in terminal.text
        terminal.type("\r")
        terminal.until("y changes 1 paths")
        assert file.read_text() == "bye\n"
        terminal.type("y")
        terminal.until("1 path changed; /redo brings it back")
        assert file.read_text() == "hello\n"
        terminal.type("q")
        terminal.until("Enter send")
        terminal.type("\x1bt")
        terminal.until("0 broken rules")
        terminal.until("end_turn")
        terminal.type("g")
        terminal.until("prompt edit a.txt hello => bye")
        terminal.type("q")
        terminal.until("Enter send")
        terminal.type("/export md out.md\r")
        terminal.until("wrote")
        assert "edit a.txt hello => bye" in (place.project / "out.md").read_text()
        assert os.stat(place.project / "out.md").st_mode & 0o777 == 0o600
        terminal.type("/report\r")
        terminal.until("recording.jsonl")
        assert not list(place.project.glob("*.zip"))
        terminal.type("w")
        terminal.until("write the report to")
        terminal.type("\x15r.zip\r")
        terminal.until("wrote")
        found = contents(place.project / "r.zip")
        whole = "\n".join(found.values())
        assert not any(secret in whole for secret in (KEY, "a-token-in-the-settings", "hello", str(place.project)))
        assert '"MY_TOKEN": "[removed]"' in found["settings-user.json"]
        assert "tool edit: completed, change +1 -1" in found["transcript.txt"]
        (place.project / "recording.jsonl").write_text(found["recording.jsonl"])
        assert open_trace(place.project / "recording.jsonl").header.redacted
        terminal.type("q")
        terminal.until("Enter send")
        _report_by_command(place)
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(terminal.pid, signal.SIGKILL)
            os.waitpid(terminal.pid, 0)
        terminal.close()


def _report_by_command(place: HostPlaceKit) -> None:
    listed = json.loads(place.run("list", "--json", verb="sessions").out)
    id = listed[0]["host_session_id"]
    done = place.run("report", id, "--dry-run", verb="sessions")
    assert done.code == 0
    assert "recording.jsonl" in done.out
    done = place.run("report", id, "-o", "by-command.zip", verb="sessions")
    assert done.code == 0
    assert "wrote by-command.zip" in done.err
    path = place.project / "by-command.zip"
    assert os.stat(path).st_mode & 0o777 == 0o600
    found = contents(path)
    assert {"versions.json", "terminal.json", "recording.jsonl", "transcript.txt", "README.txt"} <= found.keys()
    assert '"session/prompt"' in found["recording.jsonl"]
    done = place.run("report", id, "-o", "by-command.zip", verb="sessions")
    assert done.code != 0
    assert "is there already" in done.err
    assert place.run("report", "nobody", verb="sessions").code != 0


def test_the_same_in_plain_mode(place: HostPlaceKit) -> None:
    client = Plain(place, *SCRIPTED)
    file = place.project / "a.txt"

    def answer(number: str) -> None:
        def took() -> bool:
            client.type(number)
            return "came before" not in client.until("note: ")

        client.until("note: answer with a number")
        wait_for(took)

    try:
        client.type("/diff")
        client.type("edit a.txt hello => bye")
        client.until("-- done")
        client.type("/diff")
        client.until("file: a.txt, modified, the agent, +1 -1, open")
        client.until("  +1 bye")
        client.type("/diff 7")
        client.until("error: this session has turns 1 to 1")
        client.type("/dragoman:rewind")
        client.until("1 path, edit a.txt hello => bye")
        client.type("/dragoman:rewind 1")
        client.until("  restore a.txt")
        answer("2")
        assert file.read_text() == "bye\n"
        client.type("/dragoman:rewind 1")
        answer("1")
        assert file.read_text() == "hello\n"
        client.type("/dragoman:redo")
        answer("1")
        assert file.read_text() == "bye\n"
        client.type("/export json s.json")
        client.until("note: wrote")
        assert json.loads((place.project / "s.json").read_text())["schema"] == "dragoman.session/1"
        (place.project / "s.json").write_text("mine")
        client.type("/export json s.json")
        client.until("question: ")
        answer("2")
        assert (place.project / "s.json").read_text() == "mine"
        client.type("/export odd")
        client.until("error: /export takes md, html, json")
        client.type("/report r.zip")
        client.until("part: recording.jsonl")
        answer("1")
        assert "versions.json" in contents(place.project / "r.zip")
        assert client.end() == 0
    finally:
        client.close()
