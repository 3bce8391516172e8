"""Another program on the terminal of the full screen: whatever happens to it, the screen comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("textual")

from textual.drivers.headless_driver import HeadlessDriver

from dragoman.client.login import LoginMethod
from dragoman.errors import DragomanError, LoginFailed
from dragoman.tui.screen.changes.review import edit_file
from dragoman.tui.screen.outside import handed_over
from dragoman.tui.screen.questions import login
from tests.tui.screens_kit import shown
from tests.tui.test_input import until


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done with the terminal; the driver can be suspended, as that of a real terminal."""
    done: list[str] = []
    monkeypatch.setattr(HeadlessDriver, "can_suspend", property(lambda self: True))
    monkeypatch.setattr(HeadlessDriver, "suspend_application_mode", lambda self: done.append("suspend"))
    monkeypatch.setattr(HeadlessDriver, "resume_application_mode", lambda self: done.append("resume"))
    return done


@pytest.fixture
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program can be started: there is no terminal to run it on."""

    async def run(*words: object, **options: object) -> int:
        raise DragomanError("there is no terminal to run this on")

    for module in ("dragoman.tui.external", "dragoman.tui.screen.changes.review"):
        monkeypatch.setattr(f"{module}.run_in_foreground", run)


async def test_what_is_raised_meanwhile_is_raised_after_the_screen_is_back(
    monkeypatch: pytest.MonkeyPatch, handed: list[str]
) -> None:
    async with shown(monkeypatch) as (app, _):

        def fail() -> None:
            with handed_over(app):
                assert (handed, app.is_outside) == (["suspend"], True)
                raise LoginFailed("refused", method_id="key")

        with pytest.raises(LoginFailed):
            fail()
        assert (handed, app.is_outside) == (["suspend", "resume"], False)


@pytest.mark.parametrize("key", ["ctrl+g", "ctrl+o"])
async def test_an_editor_or_pager_that_cannot_run_gives_the_screen_back(
    monkeypatch: pytest.MonkeyPatch, handed: list[str], no_terminal: None, key: str
) -> None:
    for name in ("VISUAL", "EDITOR", "PAGER"):
        monkeypatch.setenv(name, "sh")
    async with shown(monkeypatch) as (app, pilot):
        await pilot.press(key)
        await until(pilot, lambda: any("there is no terminal" in text for _, text in app.notes))
        assert handed == ["suspend", "resume"]


async def test_a_file_is_edited_while_nothing_else_writes_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, handed: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("text")
    ran: list[tuple[list[str], bool]] = []
    async with shown(monkeypatch) as (app, _):

        async def run(words: list[str], **options: object) -> int:
            ran.append((words, app.is_outside))
            return 0

        monkeypatch.setattr("dragoman.tui.screen.changes.review.run_in_foreground", run)
        monkeypatch.setenv("VISUAL", "sh -x")
        assert await edit_file(app, str(file), 7) == ""
        assert ran == [(["sh", "-x", str(file)], True)]
        assert handed == ["suspend", "resume"]


async def test_a_review_goes_on_when_its_editor_cannot_run(
    monkeypatch: pytest.MonkeyPatch, handed: list[str], no_terminal: None, tmp_path: Path
) -> None:
    monkeypatch.setenv("VISUAL", "sh")
    (tmp_path / "a.txt").write_text("text")
    async with shown(monkeypatch) as (app, _):
        assert await edit_file(app, str(tmp_path / "a.txt")) == "not done: there is no terminal to run this on"
        assert handed == ["suspend", "resume"]


async def test_nothing_is_written_to_the_terminal_while_a_login_program_has_it(
    monkeypatch: pytest.MonkeyPatch, handed: list[str]
) -> None:
    async with shown(monkeypatch) as (app, pilot):
        seen: list[bool] = []

        async def log_in(conversation: object, method: object) -> None:
            seen.append(app.is_outside)

        monkeypatch.setattr(login, "log_in_by_terminal", log_in)
        await login._use(app, LoginMethod("key", "Log in", "terminal", ""))
        await pilot.pause()
        assert seen == [True]
        assert handed == ["suspend", "resume"]
