"""What is decided before and after the screen: the terminal's colours and notifications, and what stays in it."""

from __future__ import annotations

import os
import pty
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("textual")

from textual.drivers._writer_thread import WriterThread

from dragoman.errors import ConfigError
from dragoman.schema import v1
from dragoman.settings.file import UiMembers
from dragoman.state import SessionState, fold
from dragoman.tui import full
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.screen.app import TerminalApp
from dragoman.tui.screen.header import HeaderFacts, header_line
from dragoman.tui.screen.input.input_hint import InputHint
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.sessions.surroundings import Notifier
from dragoman.tui.screen.start import ScreenStart, last_exchange
from dragoman.tui.start import machine_facts
from dragoman.tui.terminal import notifications, terminal_facts
from dragoman.tui.values import AskedQuestion
from dragoman.view.rails import RailView
from dragoman.workspace.git_branch import branch_of
from tests.tui.grids import grid, reversed_lines
from tests.tui.opened import Nowhere, opened, painted

# Colours


@pytest.mark.parametrize(
    ("answer", "is_light"),
    [
        ("rgb:ffff/ffff/ffff", True),
        ("rgb:ff/ff/f0", True),
        ("rgba:0000/0000/0000/ffff", False),
        ("rgb:1e1e/1e1e/2e2e", False),
        ("rgb:x/y/z", None),
        ("#ffffff", None),
        ("rgb:ff/ff", None),
    ],
)
def test_an_answer_of_the_terminal_is_light_or_dark(answer: str, is_light: bool | None) -> None:
    assert terminal_facts.is_light_answer(answer) is is_light


def test_without_an_answer_the_variable_counts_and_then_dark() -> None:
    assert terminal_facts.is_light_by_variable({"COLORFGBG": "0;15"}) is True
    assert terminal_facts.is_light_by_variable({"COLORFGBG": "15;default;0"}) is False
    assert terminal_facts.is_light_by_variable({}) is None


@pytest.mark.parametrize("answer", [b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\", b"\x1b]11;rgb:ffff/ffff/ffff\x07"])
def test_keys_that_are_typed_while_the_terminal_is_asked_are_kept(answer: bytes) -> None:
    import termios

    master, slave = pty.openpty()
    try:
        before = termios.tcgetattr(slave)
        question = terminal_facts.BackgroundQuestion(slave, slave)
        question.ask()
        assert os.read(master, 100) == b"\x1b]11;?\x1b\\"
        os.write(master, b"he" + answer + b"y\r")
        question.read()
        assert (question.is_light, question.typed) == (True, b"hey\r")
        assert termios.tcgetattr(slave) == before
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize(
    ("answer", "name", "has_graphics"),
    [
        (b"OK", b"kitty(0.28.0)", True),
        (b"OK", b"kitty(0.43.1)", True),
        (b"OK", b"kitty(1.0.0)", True),
        (b"OK", b"ghostty 1.2.3", True),
        (b"OK", b"kitty(0.26.5)", False),
        (b"OK", b"WezTerm 20240203-110809-5046fc22", False),
        (b"EINVAL:no", b"kitty(0.43.1)", False),
        (b"", b"", False),
    ],
)
def test_a_terminal_is_asked_for_pictures_first_and_its_colour_ends_the_waiting(
    answer: bytes, name: bytes, has_graphics: bool
) -> None:
    master, slave = pty.openpty()
    try:
        question = terminal_facts.BackgroundQuestion(slave, slave, asks_graphics=True)
        question.ask()
        assert os.read(master, 100) == b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[>q\x1b]11;?\x1b\\"
        known = b"h\x1b_Gi=31;" + answer + b"\x1b\\\x1bP>|" + name + b"\x1b\\e" if answer else b"he"
        os.write(master, known + b"\x1b]11;rgb:ffff/8080/0000\x07y")
        question.read()
        assert question.answers == terminal_facts.TerminalAnswers((255, 128, 0), has_graphics)
        assert question.typed == b"hey"
    finally:
        os.close(master)
        os.close(slave)


def test_a_terminal_that_does_not_answer_costs_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_facts, "ANSWER_SECONDS", 0.0)
    master, slave = pty.openpty()
    try:
        question = terminal_facts.BackgroundQuestion(slave, slave)
        question.ask()
        question.read()
        assert (question.is_light, question.typed) == (None, b"")
    finally:
        os.close(master)
        os.close(slave)


def test_a_late_answer_is_not_typed() -> None:
    assert terminal_facts.without_late_answer("a\x1b]11;rgb:ffff/ffff/ffff\x1b\\b") == "ab"
    assert terminal_facts.without_late_answer("a\x1b_Gi=31;OK\x1b\\b\x1bP>|kitty(0.43.1)\x1b\\c") == "abc"
    assert terminal_facts.without_late_answer("\x1b[A\x1b]") == "\x1b[A\x1b]"


async def test_keys_that_came_before_the_screen_are_typed_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.tui.screen.input.prompt_input import PromptInput

    async with opened(monkeypatch, start=ScreenStart(typed=b"early")) as (app, pilot):
        for _ in range(3):
            await pilot.pause()
        assert app.query_one(PromptInput).text == "early"


async def test_without_colours_the_cursor_and_the_choice_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(monkeypatch) as (app, pilot):
        await pilot.press("x", "left")
        await painted(app, pilot)
        assert app.no_color
        assert reversed_lines(app), "the cursor is in reverse video"
        await pilot.press("f1", "down")
        await pilot.pause()
        assert [line[0] for line in grid(app)].count("❯") == 1
        for strip in app.screen._compositor.render_strips():
            colours = [segment.style.color for segment in strip if segment.style is not None]
            assert all(colour is None or colour.name == "default" for colour in colours)


async def test_a_question_on_a_small_screen_leaves_the_input_in_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    call = v1.ToolCallPatch("1", title="Run", kind="execute", raw_input={"command": "echo\n" * 30})
    options = [v1.PermissionOption(option_id="no", name="Reject", kind="reject_once")]
    async with opened(monkeypatch, (40, 10)) as (app, pilot):
        asked = AskedQuestion("q", v1.RequestPermissionRequest(session_id="s", tool_call=call, options=options), 0.0)
        app.conversation.questions.append(asked)
        await painted(app, pilot)
        await pilot.press(*"typed")
        await painted(app, pilot)
        shown = grid(app)
        assert "typed" in shown[8]
        assert "needs your answer" in shown[6]
        assert "question" in "".join(shown)


async def test_what_stays_in_the_terminal_does_not_claim_that_the_agent_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def leave(self: HostedConversation) -> None:
        self.state.end_turn(None, None)  # as a closed connection does

    monkeypatch.setattr(HostedConversation, "leave", leave)
    async with opened(monkeypatch) as (app, _):
        app.conversation.state.begin_turn([v1.TextContent("work")])
        fold(app.conversation.state, v1.AgentMessageChunk(v1.TextContent("at it")))
    assert app.last_exchange == ["❯ work", "│ at it"]


@pytest.mark.parametrize(
    ("words", "setting", "environment", "form"),
    [
        ([], "full", {}, "full"),
        ([], "plain", {}, "plain"),
        (["--plain"], "full", {}, "plain"),
        ([], "full", {"ACCESSIBLE": "1"}, "plain"),
        ([], "inline", {"TERM": "dumb"}, "plain"),
    ],
)
def test_options_and_the_terminal_decide_before_the_setting(
    monkeypatch: pytest.MonkeyPatch, words: list[str], setting: str, environment: dict[str, str], form: str
) -> None:
    from dragoman.cli.command import parse
    from dragoman.cli.commands import attach

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("ACCESSIBLE", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert attach._form(parse("attach", attach.COMMAND, words).given, setting)[0] == form


def test_settings_that_cannot_be_read_do_not_keep_the_client_from_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.cli.commands import attach

    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.json").symlink_to("settings.json")  # a loop: the file cannot be opened
    ui, notes = attach._read_ui()
    assert ui == UiMembers()
    assert "cannot be read" in notes[0]
    (tmp_path / "config" / "settings.json").unlink()
    (tmp_path / "config" / "settings.json").write_text('{"ui": {"screen": "ful"}}')
    with pytest.raises(ConfigError, match="did you mean full"):
        attach._read_ui()


# Notifications

TERMINALS = [
    ({"TERM_PROGRAM": "iTerm.app"}, "\x1b]9;it needs you\x07"),
    ({"KITTY_WINDOW_ID": "1", "TERM_PROGRAM": "iTerm.app"}, "\x1b]99;i=dragoman:d=1;it needs you\x1b\\"),
    ({"TERM": "foot"}, "\x1b]99;i=dragoman:d=1;it needs you\x1b\\"),
    ({"TERM_PROGRAM": "WezTerm"}, "\x1b]777;notify;dragoman;it needs you\x07"),
    ({"TERM": "xterm-ghostty"}, "\x1b]777;notify;dragoman;it needs you\x07"),
    ({"WT_SESSION": "x"}, ""),
    ({"TERM": "alacritty"}, ""),
    ({"TMUX": "/tmp/x", "KITTY_WINDOW_ID": "1"}, ""),
]


@pytest.mark.parametrize(("environment", "written"), TERMINALS)
def test_each_terminal_gets_the_one_sequence_it_understands(environment: dict[str, str], written: str) -> None:
    assert notifications.notification("it needs you", environment) == written


def test_tmux_gets_the_wrapped_form_only_if_it_passes_it_on() -> None:
    environment = {"TMUX": "/tmp/x", "TERM": "tmux-256color", "TERM_PROGRAM": "tmux", "LC_TERMINAL": "iTerm2"}
    written = notifications.notification("hi", environment, passes_tmux=True)
    assert written == "\x1bPtmux;\x1b\x1b]9;hi\x07\x1b\\"
    assert notifications.notification("hi", environment) == ""


@pytest.mark.parametrize("text", ["4;100", "4;1;50 evil", "\x1b]0;evil\x07", "a\nb", "x" * 500])
def test_no_text_is_a_progress_bar_or_ends_the_sequence(text: str) -> None:
    for environment, _ in TERMINALS[:5]:
        written = notifications.notification(text, environment)
        assert "]9;4;" not in written
        assert written.count("\x1b") + written.count("\x07") == 2
        assert len(written) < 260


def test_a_user_who_looks_elsewhere_is_notified_at_most_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM_PROGRAM", "WezTerm")
    for name in ("TMUX", "KITTY_WINDOW_ID", "WT_SESSION"):
        monkeypatch.delenv(name, raising=False)
    written: list[str] = []
    notifier = Notifier("all", written.append)
    assert not notifier.notify("one", is_focused=True)
    assert written == []
    notifier.notify("one", is_focused=False)
    notifier.notify("two", is_focused=False)
    assert [text for text in written if "]777" in text] == ["\x1b]777;notify;dragoman;one\x07"]
    assert written.count("\x07") == 2, "the bell rings each time"
    now = notifier.pace._last or 0.0
    assert not notifier.pace.may_notify(now + 9.9)
    assert notifier.pace.may_notify(now + 10.1)


def test_notifications_can_be_switched_off_and_programs_are_never_run_over_ssh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TMUX", "KITTY_WINDOW_ID", "TERM_PROGRAM", "LC_TERMINAL", "SSH_TTY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    written: list[str] = []
    off = Notifier("off", written.append)
    off.start()
    off.show_title("project", "needs you")
    assert not off.notify("x", is_focused=False)
    assert (written, off.ending()) == ([], "")
    bell = Notifier("bell", written.append)
    bell.show_title("project", "needs you")
    assert not bell.notify("x", is_focused=False)
    assert written == ["\x07"]
    assert Notifier("all", written.append).notify("x", is_focused=False), "a desktop may show it"
    monkeypatch.setenv("SSH_CONNECTION", "1 2 3 4")
    assert not Notifier("all", written.append).notify("x", is_focused=False)


def test_the_title_carries_the_state_and_is_restored() -> None:
    written: list[str] = []
    notifier = Notifier("all", written.append)
    notifier.start()
    notifier.show_title("pro\x1b]0;x\x07ject", "needs you")
    notifier.show_title("pro\x1b]0;x\x07ject", "needs you")
    assert written[0] == "\x1b[22;2t"
    assert written[1].startswith("\x1b]2;* pro")
    assert written[1].endswith(": needs you\x07")
    assert written[1].count("\x07") == 1
    assert len(written) == 2
    assert notifier.ending().endswith("\x1b[23;2t")


# The lines around, and what stays


@pytest.mark.parametrize("width", [200, 120, 80, 60, 40, 20])
def test_the_header_fits_and_leaves_out_the_least_important_first(width: int) -> None:
    state = SessionState()
    fold(state, v1.SessionInfoUpdate(title="fix the importer"))
    fold(state, v1.UsageUpdate(size=100, used=38, cost=v1.Cost(amount=0.42, currency="USD")))
    facts = HeaderFacts("/home/user/myproject", "claude --acp", "main", "idea", 14)
    text = "".join(part for part, _ in header_line(state, facts, width))
    assert len(text) <= max(width, 30)
    assert "ctx" in text
    assert ("main" in text) == (width >= 80)
    assert ("worktree idea" in text) == (width >= 80)
    assert ("████░░░░░░" in text) == (width >= 120)


def test_the_whole_last_exchange_stays_within_limits() -> None:
    state = SessionState()
    for number in range(3):
        state.begin_turn([v1.TextContent(f"question {number}")])
        fold(state, v1.AgentMessageChunk(v1.TextContent(f"answer {number}\n" + "line\n" * 30)))
        state.end_turn("end_turn", None)
    lines = last_exchange(state, RailView(80))
    assert lines[0] == "❯ question 2"
    assert any("answer 2" in line for line in lines)
    assert not any("question 1" in line for line in lines)
    assert len(lines) > 30, "all of it, not only the last lines"
    fold(state, v1.AgentMessageChunk(v1.TextContent("more\n" * 1000)))
    lines = last_exchange(state, RailView(80))
    assert lines[0] == "❯ question 2"
    assert "lines before" in lines[1]
    assert len(lines) < 200
    assert last_exchange(SessionState(), RailView(80)) == []


def test_the_branch_is_read_from_files(tmp_path: Path) -> None:
    assert branch_of(str(tmp_path)) == ""
    git = tmp_path / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/feature/x\n")
    (tmp_path / "sub").mkdir()
    assert branch_of(str(tmp_path / "sub")) == "feature/x"
    (git / "HEAD").write_text("0123456789abcdef\n")
    assert branch_of(str(tmp_path)) == "01234567"
    linked = tmp_path / "linked"
    linked.mkdir()
    (git / "worktrees").mkdir()
    (git / "worktrees" / "HEAD").write_text("ref: refs/heads/other\n")
    (linked / ".git").write_text(f"gitdir: {git}/worktrees\n")
    assert branch_of(str(linked)) == "other"


def test_a_full_disk_and_folders_that_cannot_be_written_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    assert machine_facts.problems_here(str(tmp_path)) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(1, 1, 0))
    assert "is full" in machine_facts.problems_here(str(tmp_path))[0]
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = machine_facts.problems_here(str(tmp_path))
    assert found[0].startswith("this project cannot be written")
    assert len(found) == 4


def test_the_agents_of_this_machine_are_named_with_their_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.tui.start.machine_facts import agents_here

    for name in list(os.environ):
        if name.endswith(("_KEY", "_TOKEN", "_AUTH")):
            monkeypatch.delenv(name)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("codex-acp", "goose"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    agents_here.cache_clear()
    found = agents_here()
    agents_here.cache_clear()
    assert found == "claude (logged in), codex (not logged in), goose (installed), built-in (no model key)"


def test_an_error_of_the_screen_itself_is_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(self: TerminalApp, **settings: object) -> None:
        self._return_code = 1  # as Textual does after an exception

    monkeypatch.setattr(TerminalApp, "run", fail)
    monkeypatch.setattr(full, "_warm", lambda: None)
    assert full.run(Nowhere(), None, None) == 1


async def test_an_input_that_outlives_the_parts_around_it_does_not_end_the_client_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(monkeypatch) as (app, pilot):
        await app.query_one(InputHint).remove()  # as while the screen is taken down
        app.query_one(PromptInput).text = "typed"
        await pilot.pause(0.2)  # longer than the input waits between two looks
        assert app.return_code is None


async def test_nothing_is_painted_for_a_terminal_that_has_not_taken_the_last_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(monkeypatch) as (app, _):
        writer = WriterThread(sys.stdout)  # it is not started, as one that waits for its terminal
        monkeypatch.setattr(app, "_driver", SimpleNamespace(_writer_thread=writer))
        painted: list[bool] = []
        monkeypatch.setattr(app, "_paint_parts", lambda: painted.append(True))
        app._paint()
        assert painted == [True]
        for _ in range(3):
            writer.write("a piece")
        app._paint()
        assert painted == [True]
        monkeypatch.undo()
