"""The rewind menu with real snapshots: it opens on now, shows what would change, and asks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

pytest.importorskip("textual")

from dragoman.schema import v1
from dragoman.state import fold
from dragoman.tui.changes.session_changes import NotFollowed, turn_number
from dragoman.tui.screen.changes.rewind import RewindScreen
from tests.snapshots.kit import Folder, contents
from tests.tui.grids import check_grid, grid
from tests.tui.screens_kit import opened, press, sentence, settled, shown, turns_of


def project(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write("notes.txt", "one\ntwo\nthree\n")
    folder.write("other.txt", "other\n")
    tracker = folder.tracker()
    for prompt, work in (
        ("write it in capitals", lambda: folder.write("notes.txt", "ONE\ntwo\nthree\n")),
        ("what is this project?", lambda: None),
        ("add a file", lambda: (folder.write("new.txt", "new\n"), folder.write("other.txt", "changed\n"))),
    ):
        tracker = folder.tracker()
        tracker.begin(session_id="s1", agent="an-agent")
        work()
        tracker.end(prompt=prompt)
    return folder


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_the_menu_opens_on_now_and_shows_what_each_place_would_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: tuple[int, int]
) -> None:
    folder = project(tmp_path)
    folder.write("other.txt", "mine\n")
    before = contents(folder.root)
    async with shown(monkeypatch, size) as (app, pilot):
        fold(app.conversation.state, v1.AvailableCommandsUpdate([v1.AvailableCommand("rewind", "go back")]))
        screen = RewindScreen(app, turns_of(folder))
        times = [records[0].started_at for records in screen.model.session_turns.turns]
        monkeypatch.setattr(screen.model, "_clock", lambda: max(times))
        await opened(app, pilot, screen)
        assert screen.model.at is None
        assert any(line.startswith("❯ now") for line in grid(app))
        lines = await press(app, pilot, "enter", "y", "y")
        assert "this is now" in "\n".join(lines)
        await press(app, pilot, "k", "k", "k")
        screen.model.rows = [row._replace(age_seconds=3600.0 * (4 - row.number)) for row in screen.model.rows]
        screen.paint()
        await settled(app, pilot)
        check_grid("rewind", app)
        assert contents(folder.root) == before, "nothing changes before a yes"


def test_without_a_number_the_last_turn_with_changes_is_meant(tmp_path: Path) -> None:
    found = turns_of(project(tmp_path))
    assert turn_number(found, "") == 3
    earlier = msgspec.structs.replace(found, turns=found.turns[:2])
    assert turn_number(earlier, "") == 1, "the second one changed nothing"
    assert turn_number(earlier, " 2 ") == 2
    with pytest.raises(NotFollowed, match="turns 1 to 2"):
        turn_number(earlier, "3")


async def test_a_rewind_keeps_what_others_changed_and_can_be_redone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = project(tmp_path)
    folder.write("other.txt", "mine\n")
    async with shown(monkeypatch) as (app, pilot):
        screen = await opened(app, pilot, RewindScreen(app, turns_of(folder)))
        await press(app, pilot, "k", "k", "k")
        lines = await press(app, pilot, "y")
        assert (folder.root / "new.txt").exists(), "a yes counts only after the plan was entered"
        lines = await press(app, pilot, "enter")
        assert "y changes 2 paths" in sentence(lines)
        assert any("keep" in line and "other.txt  it was changed since the turn" in line for line in lines)
        lines = await press(app, pilot, "y")
        assert "2 paths changed, 1 kept as they are; /redo brings it back" in sentence(lines)
        assert not (folder.root / "new.txt").exists()
        assert folder.read("notes.txt") == b"one\ntwo\nthree\n"
        assert folder.read("other.txt") == b"mine\n"
        assert not any(row.is_active for row in screen.model.rows)
        lines = await press(app, pilot, "r")
        assert "redo: bringing back the last rewind would" in "\n".join(lines)
        assert not (folder.root / "new.txt").exists()
        await press(app, pilot, "y")
        assert folder.read("new.txt") == b"new\n"
        assert folder.read("notes.txt") == b"ONE\ntwo\nthree\n"
        assert screen.model.at is None


async def test_a_conflict_can_be_taken_and_leaving_the_plan_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = project(tmp_path)
    folder.write("other.txt", "mine\n")
    async with shown(monkeypatch) as (app, pilot):
        await opened(app, pilot, RewindScreen(app, turns_of(folder), only=3))
        await press(app, pilot, "enter", "j", "t", "escape")
        assert folder.read("other.txt") == b"mine\n"
        assert not isinstance(app.screen, RewindScreen)
        await opened(app, pilot, RewindScreen(app, turns_of(folder), first=3))
        lines = await press(app, pilot, "enter", "j", "m")
        assert "y changes 2 paths" in sentence(lines)
        lines = await press(app, pilot, "y")
        assert "not changed: other.txt: it cannot be merged" in sentence(lines)
        assert folder.read("other.txt") == b"mine\n"
        folder.redo()
        await opened(app, pilot, RewindScreen(app, turns_of(folder), first=3))
        await press(app, pilot, "enter", "j", "t", "y")
        assert folder.read("other.txt") == b"other\n"


async def test_no_rewind_while_a_turn_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = project(tmp_path)
    async with shown(monkeypatch) as (app, pilot):
        await opened(app, pilot, RewindScreen(app, turns_of(folder), first=3))
        app.conversation.is_foreign_turn = True
        lines = await press(app, pilot, "enter", "y")
        assert "a turn runs" in sentence(lines)
        assert (folder.root / "new.txt").exists()


async def test_two_escapes_open_the_menu_only_with_an_empty_input(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = project(tmp_path)

    async def found(conversation: object) -> object:
        return turns_of(folder)

    monkeypatch.setattr("dragoman.tui.screen.changes.rewind.find_changes", found)
    async with shown(monkeypatch) as (app, pilot):
        await press(app, pilot, *"hi")
        await press(app, pilot, "escape", "escape")
        assert len(app.screen_stack) == 1
        await press(app, pilot, "backspace", "backspace", "escape")
        assert len(app.screen_stack) == 1
        app._escaped_at -= 1.0  # too long ago
        await press(app, pilot, "escape")
        assert len(app.screen_stack) == 1
        await press(app, pilot, "escape")
        await settled(app, pilot)
        assert isinstance(app.screen, RewindScreen)
        await press(app, pilot, "alt+1", "tab", "escape")
        assert len(app.screen_stack) == 1
