"""Slash commands with odd words behind them: a clear sentence each time, and nothing is lost."""

import asyncio
import json
from pathlib import Path

import pytest

from dragoman.builtin.context import command
from dragoman.builtin.context.command import Command
from dragoman.schema import v1
from tests.builtin.http_service import Service, ask, recording_model

LONG = "x" * 200_000
HOSTILE = "\u202e\x1b[31m evil \x00"


async def test_every_answer_is_short_plain_and_about_what_was_wrong(tmp_path: Path) -> None:
    answers = {
        f"/{LONG}": "There is no command /xxx",
        "/Undo": "There is no command /Undo. Did you mean /undo?",
        f"/mode {LONG}": "There is no mode 'xxx",
        f"/mode {HOSTILE}": "There is no mode",
        "/mode EDIT": "There is no mode 'EDIT'. The mode is edit.",
        "/mode full": "The mode stays edit: full is chosen in the editor",
        f"/model {LONG}": "no model has a name of 200,000 characters",
        "/model no such": "no model is called 'no such'",
        f"/remember {LONG}": "The line has 200000 characters",
        "/remember user -": "Write what to remember",
        f"/rewind {'9' * 5000}": "There is no turn '999",
        "/rewind ²": "There is no turn '²'",
        "/rewind -1": "There is no turn '-1'",
        "/rewind 'a b'": "there are 1 to 1",
        "/mcp no such": "There are no MCP servers.",
        "/redo": "There is nothing to bring back",
        "/compact": "There is nothing to shorten",
        f"/agents {LONG}": "`explore`",
        f"/skills {HOSTILE}": "There are no skills.",
        "/hooks x": "There are no hooks.",
    }
    async with Service(tmp_path, mode="edit").session("allow_once") as session:
        await ask(session, f"say one {HOSTILE}")
        for line, words in answers.items():
            await ask(session, line)
            text = session.state.turns[-1].text
            assert words in text, line[:40]
            assert len(text) < 3_000, line[:40]
            assert not set(text) & {"\x1b", "\u202e", "\x00"}, line[:40]
        await ask(session, "/rewind")
        assert "- 1: say one" in session.state.turns[-1].text
        assert "\x1b" not in session.state.turns[-1].text


@pytest.mark.parametrize("name", ["clear", "undo", "redo"])
async def test_a_command_that_takes_no_words_does_nothing_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """They may be meant for the model: `/clear the cache`, `/undo 3`."""
    model = recording_model(monkeypatch)
    async with Service(tmp_path).session() as session:
        await ask(session, "say one")
        await ask(session, f"/{name} the last three")
        assert f"Nothing was done: /{name} takes no words" in session.state.turns[-1].text
        await ask(session, "say two")
        assert model.words == ["say one", "one", "say two"]


async def test_a_command_during_a_turn_waits_for_its_end(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    async with service.session() as session, service.client() as remote:
        running = asyncio.create_task(
            ask(session, "write a.txt x", "run until [ -e ../go ]; do sleep 0.02; done", "say done")
        )
        while not (service.project / "a.txt").exists():  # noqa: ASYNC110 - written by a tool
            await asyncio.sleep(0.01)
        other = await remote.load_session(session.id, service.project)  # it takes the turn over
        undoing = asyncio.create_task(ask(other, "/undo"))
        (tmp_path / "go").touch()
        async with asyncio.timeout(60):
            await running
            await undoing
        assert "The last turn is taken back" in other.state.turns[-1].text
        assert not (service.project / "a.txt").exists()
        await ask(other, "/redo")
        assert "Files as they were after it:\n- `a.txt`" in other.state.turns[-1].text


async def test_hooks_are_listed_with_their_owner_and_what_the_project_proposes(tmp_path: Path) -> None:
    service = Service(tmp_path)
    hooks = {
        "before_tool": [{"matcher": "bash", "command": f"check {HOSTILE}", "timeout": 9}],
        "Stop": [{"command": "x"}],
    }
    edits = [{"files": "*.py", "format": "fmt {file}"}]
    service.home.mkdir()
    (service.home / "settings.json").write_text(json.dumps({"hooks": hooks, "after_edit": edits}))
    (service.project / ".git").mkdir()
    (service.project / ".dragoman").mkdir()
    (service.project / ".dragoman/settings.json").write_text(json.dumps({"hooks": {"stop": [{"command": "theirs"}]}}))
    async with service.session() as session:
        await ask(session, "/hooks")
        text = session.state.turns[-1].text
    assert "- `before_tool` for `bash`: `check" in text
    assert "(yours, at most 9 s)" in text
    assert "- `Stop`: `x`" in text
    assert "- after an edit of `*.py`: format `fmt {file}`" in text
    assert "- `stop`: `theirs`; `dragoman agents accept --hook stop-" in text
    assert not set(text) & {"\x1b", "\u202e"}


async def test_a_setting_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    service = Service(tmp_path)
    service.home.mkdir()
    (service.home / "settings.json").write_text('{"hooks": {"sotp": []}}')
    async with service.session() as session:
        updates = await ask(session, "/hooks")
    words = "".join(
        each.content.text
        for each in updates
        if isinstance(each, v1.AgentMessageChunk) and isinstance(each.content, v1.TextContent)
    )
    assert "No hook runs, because the settings cannot be read" in words
    assert "'sotp' is not a moment" in words


def test_long_words_are_not_taken_apart_at_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that takes grows with the square of their length, and blocks every session."""
    import shlex

    def refuse(text: str) -> list[str]:
        assert len(text) <= command._QUOTED_CHARACTERS
        return text.split()

    monkeypatch.setattr(shlex, "split", refuse)
    assert Command("x", "", body="Do $1.").expand(f"it {LONG}") == "Do it."
    assert Command("x", "", body="Do $ARGUMENTS.").expand(LONG) == f"Do {LONG}."
