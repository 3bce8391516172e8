"""The review screen with real snapshots of a real folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("textual")

from dragoman.schema import v1
from dragoman.snapshots.attribution import AgentClaims
from dragoman.tui.changes.review_model import ReviewModel
from dragoman.tui.screen.changes.review import ReviewScreen
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.questions.card import QuestionCard
from dragoman.tui.values import AskedQuestion
from tests.snapshots.kit import Folder
from tests.tui.grids import check_grid, grid
from tests.tui.screens_kit import opened, press, sentence, shown, turns_of, type_in

EVIL = "\x1b]0;evil\x07\x1b[2J\x9b31m\u202e"
IMPORTER = [f"    step_{number}()\n" for number in range(30)]


def project(tmp_path: Path) -> Folder:
    """A turn that changes, creates, deletes and renames files, one of them binary."""
    folder = Folder(tmp_path)
    folder.write("importer.py", "".join(["def load(path):\n", *IMPORTER, "    return rows\n"]))
    folder.write("old_name.txt", "".join(f"line {n}\n" for n in range(40)))
    folder.write("gone.txt", "gone\n")

    def work() -> None:
        text = folder.read("importer.py").decode()
        text = text.replace("step_3()", "first_step()").replace("step_20()", "last_step()\n    and_more()")
        folder.write("importer.py", text)
        folder.write("tests/test_importer.py", "def test_empty():\n    assert load(EMPTY) == []\n")
        folder.write("data/sample.bin", b"\0\1\2" * 400)
        (folder.root / "old_name.txt").rename(folder.root / "new_name.txt")
        (folder.root / "gone.txt").unlink()

    claims = AgentClaims()
    claims.add_write(str(folder.root / "tests/test_importer.py"), b"def test_empty():\n    assert load(EMPTY) == []\n")
    folder.turn(lambda: folder.write("earlier.txt", "an earlier turn\n"))
    folder.turn(work, claims=claims)
    return folder


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_the_files_and_hunks_of_a_turn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: tuple[int, int]
) -> None:
    folder = project(tmp_path)
    async with shown(monkeypatch, size) as (app, pilot):
        await opened(app, pilot, ReviewScreen(app, turns_of(folder), 2))
        await press(app, pilot, "J", "J")
        check_grid("review", app)
        if size == (80, 24):
            await press(app, pilot, "s")
            check_grid("review-sides", app)


async def test_hunks_are_kept_taken_back_and_brought_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = project(tmp_path)
    before = folder.read("importer.py")
    async with shown(monkeypatch) as (app, pilot):
        screen = await opened(app, pilot, ReviewScreen(app, turns_of(folder), 2))
        while screen.model.row is not None and screen.model.row.name != "importer.py":
            await press(app, pilot, "J")
        await press(app, pilot, "space")
        assert screen.model.hunk == 1, "the next hunk comes by itself"
        lines = await press(app, pilot, "x")
        assert b"    step_20()\n" in folder.read("importer.py")
        assert b"first_step()" in folder.read("importer.py"), "the other hunk stays"
        assert "taken back: importer.py, hunk 2; u brings it back" in sentence(lines)
        assert any("importer.py" in line and "decided" in line for line in lines)
        lines = await press(app, pilot, "q")
        screen = await opened(app, pilot, ReviewScreen(app, turns_of(folder), 2))
        assert (screen.model.counts["kept"], screen.model.counts["reverted"]) == (1, 1), "it was remembered"
        while screen.model.row is not None and screen.model.row.name != "importer.py":
            await press(app, pilot, "J")
        lines = await press(app, pilot, "j", "u")
        assert folder.read("importer.py") == before
        assert "brought back: importer.py, hunk 2" in sentence(lines)
        await press(app, pilot, "A")
        assert screen.model.counts["open"] == 0


async def test_files_without_lines_are_taken_back_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = project(tmp_path)
    async with shown(monkeypatch) as (app, pilot):
        screen = await opened(app, pilot, ReviewScreen(app, turns_of(folder), 2))
        for name in ("data/sample.bin", "gone.txt", "old_name.txt -> new_name.txt", "tests/test_importer.py"):
            while screen.model.row is not None and screen.model.row.name != name:
                await press(app, pilot, "J")
            await press(app, pilot, "x")
            assert screen.model.row is not None
            assert screen.model.row.state == "reverted", screen.message
            screen.model.at = 0
        assert not (folder.root / "data/sample.bin").exists()
        assert not (folder.root / "tests/test_importer.py").exists()
        assert folder.read("gone.txt") == b"gone\n"
        assert (folder.root / "old_name.txt").exists()
        assert not (folder.root / "new_name.txt").exists()
        await press(app, pilot, "u", "u", "u", "u")
        assert folder.read("data/sample.bin") == b"\0\1\2" * 400
        assert not (folder.root / "gone.txt").exists()


async def test_what_others_changed_meanwhile_is_never_overwritten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = project(tmp_path)
    async with shown(monkeypatch) as (app, pilot):
        screen = await opened(app, pilot, ReviewScreen(app, turns_of(folder), 2))
        while screen.model.row is not None and screen.model.row.name != "importer.py":
            await press(app, pilot, "J")
        mine = folder.read("importer.py").replace(b"first_step()", b"my_step()")
        folder.write("importer.py", mine)
        folder.write("data/sample.bin", b"\0mine")
        lines = await press(app, pilot, "x")
        assert "not done: the lines around line 5 were changed since the turn" in sentence(lines)
        lines = await press(app, pilot, "X")
        assert "not done" in sentence(lines)
        assert folder.read("importer.py") == mine
        screen.model.at = 0
        lines = await press(app, pilot, "x")
        assert "not done: data/sample.bin: it was changed since the turn" in sentence(lines)
        assert folder.read("data/sample.bin") == b"\0mine"


async def test_a_comment_quotes_the_hunk_behind_the_draft(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = project(tmp_path)
    async with shown(monkeypatch) as (app, pilot):
        await pilot.press(*"draft")
        await opened(app, pilot, ReviewScreen(app, turns_of(folder), 2))
        await type_in(app, pilot, "/", "last_step")
        await press(app, pilot, "c")
        field = app.query_one(PromptInput)
        assert field.text == ("draft\n\nimporter.py:22\n> -    step_20()\n> +    last_step()\n> +    and_more()\n\n")
        assert field.has_focus


async def test_turns_search_and_an_editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = project(tmp_path)
    monkeypatch.setenv("EDITOR", f"{sys.executable} -c pass")
    async with shown(monkeypatch) as (app, pilot):
        screen = await opened(app, pilot, ReviewScreen(app, turns_of(folder), 2))
        lines = await press(app, pilot, "[")
        assert "turn 1 of 2 · 1 file, 1 hunk" in lines[0]
        assert any("an earlier turn" in line for line in lines)
        lines = await press(app, pilot, "[")
        assert "there is no other turn" in sentence(lines)
        await press(app, pilot, "]")
        lines = await type_in(app, pilot, "/", "nowhere")
        assert "not found: nowhere" in sentence(lines)
        await type_in(app, pilot, "/", "and_more")
        assert screen.model.row is not None
        assert (screen.model.row.name, screen.model.hunk) == ("importer.py", 1)
        lines = await press(app, pilot, "e")
        assert "this terminal cannot be handed over" in sentence(lines)


async def test_names_and_lines_of_files_cannot_act_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = Folder(tmp_path)
    name = "a\x1b]0;evil\x07\u202eb.txt"
    folder.turn(lambda: (folder.write(name, f"text {EVIL}\n" * 3), folder.write("\udcff.txt", b"\xff\xfe\n")))
    async with shown(monkeypatch) as (app, pilot):
        await opened(app, pilot, ReviewScreen(app, turns_of(folder), 1))
        for _ in range(3):
            lines = grid(app)
            assert all(line.isprintable() for line in lines), lines
            await press(app, pilot, "j")
        assert "<U+001B>]0;evil" in "\n".join(await press(app, pilot, "k", "k", "s"))


async def test_a_huge_change_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.turn(lambda: folder.write("big.txt", "".join(f"{n} {'x' * 80}\n" for n in range(40_000))))
    async with shown(monkeypatch) as (app, pilot):
        screen = await opened(app, pilot, ReviewScreen(app, turns_of(folder), 1))
        assert screen.model.row is not None
        assert len(screen.model.row.rows or ()) <= 5_001
        assert "+40000 -0" in "\n".join(grid(app))
        assert any("+   19  18 xxx" in line for line in await press(app, pilot, "pagedown"))
        for _ in range(400):
            screen.do_page_down()
        assert any("more lines: e opens the file" in line for line in await press(app, pilot, "pagedown"))


def test_neighbouring_hunks_share_the_lines_between_them(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("a.txt", "one\ntwo\nthree\nfour\nfive\n")
    folder.turn(lambda: folder.write("a.txt", "ONE\ntwo\nthree\nfour\nFIVE\n"))
    model = ReviewModel(turns_of(folder), 1)
    model.load()
    assert model.row is not None
    rows = [(each.hunk, each.head or (each.new or (0, ""))[1]) for each in model.row.rows or ()]
    assert rows == [(0, "1,1"), (0, "ONE"), (0, "two"), (0, "three"), (0, "four"), (1, "5,1"), (1, "FIVE")]


async def test_a_question_is_announced_and_not_answered_behind_the_review(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = project(tmp_path)
    async with shown(monkeypatch) as (app, pilot):
        call = v1.ToolCallPatch("1", title="Run a command", kind="execute", raw_input={"command": "rm -rf build"})
        options = [v1.PermissionOption(option_id="no", name="Reject", kind="reject_once")]
        asked = AskedQuestion("q", v1.RequestPermissionRequest(session_id="s", tool_call=call, options=options), 0.0)
        app.conversation.questions.append(asked)
        app.asked(asked)
        app._paint()
        await pilot.pause()
        app.query_one(QuestionCard)._painted_at = 0.0  # long ago
        await opened(app, pilot, ReviewScreen(app, turns_of(folder), 2))
        lines = await press(app, pilot, "alt+1", "j")
        assert not asked.answer.done()
        assert "the agent waits for your answer" in sentence(lines)
        await press(app, pilot, "q")
        await press(app, pilot, "alt+1")
        assert asked.answer.result() == "no"
