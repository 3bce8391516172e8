"""A permission mode lasts for its session, and one that asks for nothing is never entered by accident."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from dragoman.process.sandbox import available
from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.inline.terminal import status_line
from dragoman.tui.mode_gate import unasked_words
from dragoman.tui.remembered_values import prepare_by
from dragoman.tui.screen.app import TerminalApp
from dragoman.tui.screen.header import HeaderFacts, header_line
from dragoman.tui.screen.start import ScreenStart
from dragoman.tui.start.preferences import Preferences
from dragoman.view.rails import UNICODE
from tests.host.local.kit import HostPlaceKit
from tests.tui.grids import grid
from tests.tui.here import SCRIPTED, UserHere
from tests.tui.opened import opened, painted
from tests.tui.test_terminal import SCRIPTED as SCRIPTED_WORDS
from tests.tui.test_terminal import Terminal

WORDS = "acts without asking"


def modes(*ids: str, current: str = "") -> v1.SessionModeState:
    offered = [v1.SessionMode(id=id, name=id.capitalize()) for id in ids]
    return v1.SessionModeState(current_mode_id=current or ids[0], available_modes=offered)


OURS = modes("ask", "edit", "plan", "auto", "full")


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modes that were set in the session."""
    found: list[str] = []

    async def set_mode(self: HostedConversation, mode_id: str) -> None:
        found.append(mode_id)
        fold(self.state, v1.CurrentModeUpdate(mode_id))

    monkeypatch.setattr(HostedConversation, "set_mode", set_mode)
    return found


def offer(app: TerminalApp, offered: v1.SessionModeState, agent: str = "dragoman") -> None:
    app.conversation.agent = agent
    app.conversation.state.open(offered, None)


# The key


async def test_shift_tab_passes_the_mode_that_asks_nothing(monkeypatch: pytest.MonkeyPatch, taken: list[str]) -> None:
    async with opened(monkeypatch) as (app, pilot):
        offer(app, OURS)
        for _ in range(5):
            await pilot.press("shift+tab")
            await pilot.pause()
        assert taken == ["edit", "plan", "auto", "ask", "edit"]


@pytest.mark.parametrize(
    ("agent", "offered", "expected"),
    [
        ("claude", modes("auto", "default", "acceptEdits", "plan", "bypassPermissions", current="plan"), "default"),
        ("gemini", modes("default", "autoEdit", "yolo", "plan"), "autoEdit"),
        ("somebodys-agent", modes("ask", "turbo", "plan"), "plan"),
    ],
)
async def test_shift_tab_passes_it_with_every_agent(
    monkeypatch: pytest.MonkeyPatch, taken: list[str], agent: str, offered: v1.SessionModeState, expected: str
) -> None:
    async with opened(monkeypatch) as (app, pilot):
        offer(app, offered, agent)
        for _ in range(4):
            await pilot.press("shift+tab")
            await pilot.pause()
        assert taken[0] == expected
        assert not {"auto", "bypassPermissions", "yolo", "turbo"} & set(taken)


async def test_a_mode_that_was_left_by_the_key_is_reached_by_it_again(
    monkeypatch: pytest.MonkeyPatch, taken: list[str]
) -> None:
    async with opened(monkeypatch) as (app, pilot):
        offer(app, modes("code", "plan", "other"), "somebodys-agent")
        for _ in range(2):
            await pilot.press("shift+tab")
            await pilot.pause()
        assert taken == ["plan", "code"]


async def test_if_no_mode_is_known_to_ask_the_key_says_so(monkeypatch: pytest.MonkeyPatch, taken: list[str]) -> None:
    async with opened(monkeypatch) as (app, pilot):
        offer(app, modes("code", "turbo"), "somebodys-agent")
        await pilot.press("shift+tab")
        await painted(app, pilot)
        assert any("no other mode is known to ask; /mode NAME chooses one: turbo" in line for line in grid(app))
        assert taken == []


# The confirmation


async def test_the_widest_mode_is_confirmed_once_a_session(monkeypatch: pytest.MonkeyPatch, taken: list[str]) -> None:
    async with opened(monkeypatch) as (app, pilot):
        offer(app, OURS)
        fold(app.conversation.state, v1.AvailableCommandsUpdate([v1.AvailableCommand("mode", "of the agent")]))
        await pilot.press(*"/mode full", "enter")
        await pilot.pause()
        shown = " ".join(" ".join(grid(app)).split())
        assert f"mode Full: dragoman {WORDS}, until you choose another mode or the session ends" in shown
        await pilot.press("enter")  # the row that is marked first changes nothing
        await pilot.pause()
        assert taken == []
        await pilot.press(*"/mode full", "enter")
        await pilot.pause()
        await pilot.press("down", "enter")
        await painted(app, pilot)
        assert taken == ["full"]
        assert f"Full: {WORDS}" in grid(app)[0]
        for name in ("ask", "full"):
            await pilot.press(*f"/mode {name}", "enter")
            await painted(app, pilot)
        assert taken == ["full", "ask", "full"], "it was confirmed in this session"
        app.conversation.session_id = "another"
        fold(app.conversation.state, v1.CurrentModeUpdate("ask"))
        await pilot.press(*"/mode full", "enter")
        await pilot.pause()
        assert len(app.screen_stack) == 2, "a new session asks again"


async def test_a_mode_of_which_nothing_is_known_is_confirmed_too(
    monkeypatch: pytest.MonkeyPatch, taken: list[str]
) -> None:
    async with opened(monkeypatch) as (app, pilot):
        offer(app, modes("ask", "turbo"), "somebodys-agent")
        await pilot.press(*"/mode turbo", "enter")
        await pilot.pause()
        shown = " ".join(" ".join(grid(app)).split())
        assert "mode Turbo: it is not known what somebodys-agent does in it without asking" in shown
        assert taken == []


# What is remembered


async def test_a_mode_is_not_remembered_and_a_model_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, taken: list[str]
) -> None:
    preferences = Preferences(tmp_path / "terminal.json")
    async with opened(monkeypatch, start=ScreenStart(preferences=preferences)) as (app, pilot):
        offer(app, OURS)
        await pilot.press("shift+tab")
        await painted(app, pilot)
        assert taken == ["edit"]
        assert any("Edit, for this session" in line for line in grid(app))
        assert not (tmp_path / "terminal.json").exists()


class NewSession:
    """A new session that takes what it offers."""

    def __init__(self) -> None:
        choice = [v1.SessionConfigSelectOption(value=value, name=value) for value in ("on", "off")]
        permissions = v1.SessionConfigSelect("allow_all", "Allow all", "off", choice, category="permissions")
        effort = v1.SessionConfigSelect("effort", "Effort", "off", choice, category="thought_level")
        switch = v1.SessionConfigBoolean(id="auto_approve", name="Auto", current_value=False)
        self.state = SessionState()
        self.state.open(OURS, [permissions, effort, switch])
        self.taken: list[tuple[str, Any]] = []

    async def set_mode(self, mode: str) -> None:
        self.taken.append(("mode", mode))

    async def set_config_option(self, option: str, value: Any) -> None:
        self.taken.append((option, value))


async def test_modes_and_permissions_that_an_earlier_version_remembered_are_dropped_with_one_notice(
    tmp_path: Path,
) -> None:
    path = tmp_path / "terminal.json"
    wide = {"mode": "full", "allow_all": "on", "auto_approve": True, "effort": "on"}
    path.write_text(json.dumps({"agents": {"dragoman": wide, "claude": {"mode": "bypassPermissions"}}}))
    preferences, notes = Preferences(path), list[str]()
    assert preferences.of("dragoman").get("mode") is None
    for _ in range(2):
        session: Any = NewSession()
        await prepare_by(preferences, notes.append)(session, "dragoman")
        assert session.taken == [("effort", "on")]
    assert notes == [
        "the remembered mode of dragoman, claude was dropped: a mode lasts for its session",
        "allow_all = on is no longer remembered: what an agent may do lasts for its session",
        "auto_approve = True is no longer remembered: what an agent may do lasts for its session",
    ]
    assert json.loads(path.read_text()) == {"agents": {"dragoman": {"effort": "on"}}}


async def test_the_mode_of_the_command_line_is_that_of_the_first_session_only(tmp_path: Path) -> None:
    notes = list[str]()
    prepare = prepare_by(Preferences(tmp_path / "t.json"), notes.append, "full")
    first, second, third = NewSession(), NewSession(), NewSession()
    for session in (first, second):
        made: Any = session
        await prepare(made, "dragoman")
    assert (first.taken, second.taken) == ([("mode", "full")], [])
    made = third
    await prepare_by(None, notes.append, "nothing")(made, "dragoman")
    assert notes == ["--mode nothing: the agent does not offer it; it offers ask, edit, plan, auto, full"]


# How it is shown


@pytest.mark.parametrize("width", [200, 80, 60, 40])
def test_the_header_has_it_in_words_and_in_the_colour_of_a_warning_at_every_width(width: int) -> None:
    state = SessionState()
    state.open(modes("ask", "full", current="full"), None)
    fold(state, v1.SessionInfoUpdate(title="fix the importer"))
    line = header_line(state, HeaderFacts("/home/user/myproject", "dragoman", "main", "", 14), width)
    assert [text.strip() for text, style in line if style == "warn"] == [f"Full: {WORDS}"]
    fold(state, v1.CurrentModeUpdate("ask"))
    line = header_line(state, HeaderFacts("/home/user/myproject", "dragoman", "main", "", 14), width)
    assert all(style != "warn" for _, style in line)


def test_the_status_line_of_inline_mode_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shown:
        state = SessionState()
        questions: tuple[Any, ...] = ()
        queued: tuple[Any, ...] = ()
        phase, is_running, folder, agent = "ready", False, "/p", "dragoman"

    conversation: Any = Shown()
    conversation.state.open(modes("ask", "full", current="full"), None)
    line = status_line(conversation, UNICODE, 80, is_answering=False, hint="")
    assert line[0][1] == "warn"
    assert line[0][0].startswith(f"Full: {WORDS}")
    hinted = status_line(conversation, UNICODE, 80, is_answering=False, hint="something else")
    assert hinted[0] == line[0]


def test_an_option_that_permits_everything_is_shown_like_a_mode() -> None:
    state = SessionState()
    switch = v1.SessionConfigBoolean(id="auto_approve", name="Auto-approve tools", current_value=True)
    state.open(None, [switch])
    assert unasked_words(state, "cline") == f"Auto-approve tools on: {WORDS}"
    assert unasked_words(state, "somebodys-agent") == f"Auto-approve tools on: {WORDS}"
    state.open(None, [v1.SessionConfigBoolean(id="auto_approve", name="Auto-approve tools", current_value=False)])
    assert unasked_words(state, "somebodys-agent") == ""
    state.open(None, [v1.SessionConfigBoolean(id="web", name="Web search", current_value=True)])
    assert unasked_words(state, "somebodys-agent") == ""


# As a user meets it


def colour_of(screen: Any, text: str) -> str:
    """The colour of a text in the terminal emulator."""
    row = next(number for number, line in enumerate(screen.display) if text in line)
    return str(screen.buffer[row][screen.display[row].index(text)].fg)


@pytest.mark.convention("mode", "plain")
async def test_a_mode_of_one_session_is_not_that_of_the_next(user: UserHere) -> None:
    async with user.host_here():
        async with user.plain(**SCRIPTED) as client:
            await client.until("note: session")
            client.type("/mode full")
            await client.until(
                f"warning: mode Full: dragoman {WORDS}, until you choose another mode or the session ends"
            )
            client.type("/mode full")
            assert "\x1b" not in await client.until(f"warning: mode Full: {WORDS}")
            client.type("/new")
            await client.until("note: session")
            client.type("/mode")
            await client.until("1: Ask (ask), chosen")
        async with user.plain(**SCRIPTED, mode="full") as client:
            await client.until(f"warning: mode Full: {WORDS}")
            client.type("/mode ask")
            await client.until("note: the agent asks again")


@pytest.mark.convention("mode", "inline")
async def test_inline_mode_passes_it_by_and_keeps_it_in_sight(user: UserHere) -> None:
    async with user.host_here(), user.inline(**SCRIPTED) as client:
        await client.until("Enter send")
        for name in ("Edit", "Plan", *(["Auto"] if available().backends else []), "Ask", "Edit"):
            client.type("\x1b[Z")
            await client.until(f"{name} · ")
        for shown in ("type the same again", f"Full: {WORDS} · "):
            client.type("/mode full\r")
            await client.until(shown)
        assert colour_of(client.screen, f"Full: {WORDS} · ") != "default"


@pytest.mark.convention("mode", "full screen")
def test_the_full_screen_shows_it_in_colour_and_asks_first(place: HostPlaceKit, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(place, *SCRIPTED_WORDS))
    terminal.until("F1 help")
    terminal.until("Ask")
    for name in ("Edit", "Plan", *(["Auto"] if available().backends else []), "Ask", "Edit"):
        terminal.type("\x1b[Z")
        terminal.until(f"{name}, for this session")
    terminal.type("/mode full\r")
    terminal.until("yes, Full for this session")
    terminal.type("\x1b[B\r")
    terminal.until(f"Full: {WORDS}")
    assert colour_of(terminal.screen, f"Full: {WORDS}") != "default"
    terminal.type("\x04")
    assert terminal.wait() == 0
