"""Review, rewind, traffic, export and report as a user meets them, with a real host and a real agent."""

from __future__ import annotations

import asyncio
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("textual")

from dragoman.trace.reader import open_trace
from tests.cli.warm_python import WarmPython
from tests.tui import here
from tests.tui.here import UserHere

SCRIPTED = {**here.SCRIPTED, "allow": ("edit",)}
KEY = "sk-a-secret-of-the-user-123"


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_python: WarmPython) -> Iterator[UserHere]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    found = UserHere(tmp_path, monkeypatch, warm_python)
    (found.project / "a.txt").write_text("hello\n")
    found.settings(agents={"x": {"command": ["/bin/x"], "env": {"MY_TOKEN": "a-token-in-the-settings"}}})
    try:
        yield found
    finally:
        found.end()


def contents(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name.rpartition("/")[2]: archive.read(name).decode() for name in archive.namelist()}


async def test_a_turn_is_reviewed_rewound_and_reported_on_the_full_screen(user: UserHere) -> None:
    file = user.project / "a.txt"
    async with user.host_here(), user.screen(**SCRIPTED) as client:
        await client.until("F1 help")
        client.type("edit a.txt hello => bye\r")
        await client.until("✔ edit")
        await client.until("Enter send")
        client.type("\x1bd")
        await client.until("review · turn 1 of 1 · 1 file, 1 hunk · 1 open")
        shown = await client.until("+    1  bye")
        assert "-    1  hello" in shown
        assert "by the agent: 1" in shown
        client.type("x")
        await client.until("taken back: a.txt, hunk 1")
        assert file.read_text() == "hello\n"
        client.type("u")
        await client.until("brought back: a.txt")
        assert file.read_text() == "bye\n"
        client.type("q")
        await client.until("Enter send")
        client.type("\x1b")
        client.type("\x1b")
        await client.until("rewind · 1 turn")
        await client.until("❯ now")
        client.type("k")
        await client.until("restore   a.txt")
        assert "edit a.txt hello => bye" in client.text
        client.type("\r")
        await client.until("y changes 1 paths")
        assert file.read_text() == "bye\n"
        client.type("y")
        await client.until("1 path changed; /redo brings it back")
        assert file.read_text() == "hello\n"
        client.type("q")
        await client.until("❯ edit a.txt hello => bye\n– its changes were taken back")
        client.type("\x1bt")
        await client.until("0 broken rules")
        await client.until("end_turn")
        client.type("g")
        await client.until("prompt edit a.txt hello => bye")
        client.type("q")
        await client.until("Enter send")
        client.type("/export md out.md\r")
        await client.until("wrote")
        assert "edit a.txt hello => bye" in (user.project / "out.md").read_text()
        assert os.stat(user.project / "out.md").st_mode & 0o777 == 0o600
        client.type("/report\r")
        await client.until("recording.jsonl")
        assert not list(user.project.glob("*.zip"))
        client.type("w")
        await client.until("write the report to")
        client.type("\x15r.zip\r")
        await client.until("wrote")
        found = contents(user.project / "r.zip")
        whole = "\n".join(found.values())
        assert not any(secret in whole for secret in (KEY, "a-token-in-the-settings", "hello", str(user.project)))
        assert '"MY_TOKEN": "[removed]"' in found["settings-user.json"]
        assert "tool edit: completed, change +1 -1" in found["transcript.txt"]
        (user.project / "recording.jsonl").write_text(found["recording.jsonl"])
        assert open_trace(user.project / "recording.jsonl").header.redacted
        client.type("q")
        await client.until("Enter send")
        await asyncio.to_thread(_report_by_command, user)


def _report_by_command(place: UserHere) -> None:
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


async def test_the_same_in_plain_mode(user: UserHere) -> None:
    file = user.project / "a.txt"
    async with user.host_here(), user.plain(**SCRIPTED) as client:

        async def answer(number: str) -> None:
            await client.answer(number)
            assert "came before" not in await client.until("note: ")

        client.type("/diff")
        client.type("edit a.txt hello => bye")
        await client.until("-- done")
        client.type("/diff")
        await client.until("file: a.txt, modified, the agent, +1 -1, open")
        await client.until("  +1 bye")
        client.type("/diff 7")
        await client.until("error: this session has turns 1 to 1")
        client.type("/dragoman:rewind")
        await client.until("1 path, edit a.txt hello => bye")
        client.type("/dragoman:rewind 1")
        await client.until("  restore a.txt")
        await answer("2")
        assert file.read_text() == "bye\n"
        client.type("/dragoman:rewind 1")
        await answer("1")
        assert file.read_text() == "hello\n"
        client.type("/dragoman:redo")
        await answer("1")
        assert file.read_text() == "bye\n"
        client.type("/export json s.json")
        await client.until("note: wrote")
        assert json.loads((user.project / "s.json").read_text())["schema"] == "dragoman.session/1"
        (user.project / "s.json").write_text("mine")
        client.type("/export json s.json")
        await client.until("question: ")
        await answer("2")
        assert (user.project / "s.json").read_text() == "mine"
        client.type("/export odd")
        await client.until("error: /export takes md, html, json")
        client.type("/report r.zip")
        await client.until("part: recording.jsonl")
        await answer("1")
        assert "versions.json" in contents(user.project / "r.zip")
        await client.end()
