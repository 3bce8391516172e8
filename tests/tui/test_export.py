"""The preview of a report, and files that are never replaced without a question."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("textual")

from dragoman.errors import DragomanError
from dragoman.schema import v1
from dragoman.state import fold
from dragoman.trace.bug_report import ReportPart
from dragoman.tui.reporting import exporting
from dragoman.tui.reporting.exporting import ExportWish
from dragoman.tui.reporting.private_file import FileExists, write_private
from dragoman.tui.screen.parts import Choice
from dragoman.tui.screen.reporting.export import ReportScreen
from tests.tui.grids import check_grid, grid
from tests.tui.screens_kit import opened, press, sentence, settled, shown, type_in

PARTS = [
    ReportPart("README.txt", "what is in this file", b"A report of dragoman.\n"),
    ReportPart("versions.json", "versions of dragoman, Python and the protocol", b'{\n  "dragoman": "1"\n}\n'),
    ReportPart(
        "stderr.txt", "the agent's last error output; read it first", b"Error: \x1b]0;evil\x07 out of memory\n" * 60
    ),
]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_the_parts_of_a_report_are_shown_before_it_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with shown(monkeypatch, size) as (app, pilot):
        app.conversation.folder, app.conversation.session_id = str(tmp_path), "0198c3a1"
        await opened(app, pilot, ReportScreen(app, PARTS))
        await press(app, pilot, "j", "j")
        assert all(line.isprintable() for line in grid(app))
        check_grid("report", app)
        if size != (80, 24):
            return
        assert os.listdir(tmp_path) == []
        await pilot.press("w", "escape")
        assert os.listdir(tmp_path) == []
        lines = await type_in(app, pilot, "w", "r.zip")
        assert "readable by you only" in sentence(lines)
        assert os.stat(tmp_path / "r.zip").st_mode & 0o777 == 0o600
        lines = await type_in(app, pilot, "w", "missing/r.zip")
        assert "not done" in sentence(lines)


async def test_an_export_asks_before_it_replaces_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with shown(monkeypatch) as (app, pilot):
        app.conversation.folder, app.conversation.session_id = str(tmp_path), "0198c3a1-22"
        fold(app.conversation.state, v1.AgentMessageChunk(v1.TextContent("an answer")))

        async def state(conversation: object) -> object:
            return app.conversation.state

        monkeypatch.setattr(exporting, "whole_state", state)
        for form, words in (("md", "## Agent"), ("html", "<main>"), ("json", '"dragoman.session/1"')):
            app.action_do("export", form)
            await settled(app, pilot)
            path = tmp_path / f"session-0198c3a1.{form}"
            while not path.exists():
                await pilot.pause()
            assert words in path.read_text()
        path = tmp_path / "session-0198c3a1.md"
        path.write_text("mine")
        for keys, kept in ((("escape",), True), (("enter",), True), (("down", "enter"), False)):
            app.action_do("export", "md")
            while not isinstance(app.screen, Choice):
                await pilot.pause()
            await pilot.press(*keys)
            await settled(app, pilot)
            while not kept and path.read_text() == "mine":
                await pilot.pause()
            assert (path.read_text() == "mine") is kept


def test_the_words_behind_export(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Talk:
        session_id = "0198c3a1-22"
        folder = str(tmp_path)

    def read(words: str) -> tuple[str, str]:
        wish = ExportWish(words, Talk())  # type: ignore[arg-type]  # two of its members are read
        return wish.form, os.path.relpath(wish.path, tmp_path)

    assert read("") == ("md", "session-0198c3a1.md")
    assert read("html") == ("html", "session-0198c3a1.html")
    assert read("json a b.txt") == ("json", "a b.txt")
    assert read("out.HTML") == ("html", "out.HTML")
    assert read("folder/notes") == ("md", "folder/notes")
    with pytest.raises(DragomanError, match="md, html, json"):
        read("pdf")


def test_a_file_is_private_and_replaced_only_on_purpose(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_private(str(path), b"one")
    with pytest.raises(FileExists):
        write_private(str(path), b"two")
    path.chmod(0o644)
    write_private(str(path), b"two", replaces=True)
    assert path.read_bytes() == b"two"
    assert os.stat(path).st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExists):
        write_private(str(tmp_path / "link"), b"three")
    assert not (tmp_path / "nowhere").exists()
