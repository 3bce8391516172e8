"""Settings, keys, help, and the lists of models and options."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")

from rich.style import Style

from dragoman.client import Session
from dragoman.errors import RequestError
from dragoman.schema import v1
from dragoman.settings.file import UiMembers
from dragoman.state import fold
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.screen.conversation.transcript import Transcript
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.keys.actions import ACTIONS, client_action
from dragoman.tui.screen.keys.keymap import Keymap, wrong_key
from dragoman.tui.screen.start import ScreenStart
from dragoman.tui.start.preferences import Preferences
from tests.tui.grids import check_grid, grid
from tests.tui.opened import opened, painted

SIZES = pytest.mark.parametrize("size", [(80, 24), (160, 50)])
MODELS = v1.SessionConfigSelect(
    id="model",
    name="Model",
    category="model",
    current_value="sonnet",
    options=[
        v1.SessionConfigSelectGroup(
            group="claude",
            name="Claude",
            options=[
                v1.SessionConfigSelectOption(value="sonnet", name="Sonnet 5", description="fast"),
                v1.SessionConfigSelectOption(value="opus", name="Opus 5", description="deep \x1b]0;evil\x07"),
            ],
        ),
        v1.SessionConfigSelectGroup(
            group="other", name="Other", options=[v1.SessionConfigSelectOption(value="mini", name="Mini")]
        ),
    ],
)
SWITCH = v1.SessionConfigBoolean(id="web", name="Web search", category="model_config", current_value=False)
MODES = v1.SessionModeState(
    current_mode_id="ask",
    available_modes=[v1.SessionMode(id="ask", name="Ask"), v1.SessionMode(id="plan", name="Plan")],
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    (tmp_path / "config").mkdir()
    return tmp_path


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What was set in the session."""
    found: list[tuple[str, Any]] = []

    async def set_option(self: HostedConversation, option_id: str, value: Any) -> None:
        found.append((option_id, value))

    async def set_mode(self: HostedConversation, mode_id: str) -> None:
        found.append(("mode", mode_id))
        fold(self.state, v1.CurrentModeUpdate(mode_id))

    monkeypatch.setattr(HostedConversation, "set_option", set_option)
    monkeypatch.setattr(HostedConversation, "set_mode", set_mode)
    return found


# The settings screen


@SIZES
async def test_the_settings_screen_shows_every_value_and_where_it_comes_from(
    home: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    monkeypatch.setenv("HOME", str(home))
    (home / "config" / "settings.json").write_text('{"ui": {"theme": "light", "keys": {"sessions": ["ctrl+y"]}}}')
    preferences = Preferences(home / "data" / "terminal.json")
    preferences.remember("claude", "model", "opus")
    ui = UiMembers(theme="light", keys={"sessions": ("ctrl+y",)})
    start = ScreenStart(ui=ui, preferences=preferences, overridden={"ascii": "--ascii"})
    async with opened(monkeypatch, size, start=start) as (app, pilot):
        app.action_do("settings")
        await pilot.pause()
        check_grid("settings", app)
        await pilot.press(*"forgets", "escape", *"claude")
        await pilot.pause()
        assert "opus" in "\n".join(grid(app))
        await pilot.press("escape", "escape")


async def test_a_value_is_changed_in_the_file_and_used_at_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "config" / "settings.json"
    path.write_text('{\n  // mine\n  "ui": {\n    "theme": "dark"\n  }\n}\n')
    async with opened(monkeypatch, start=ScreenStart(ui=UiMembers(theme="dark"))) as (app, pilot):
        assert app.theme == "dragoman-dark"
        app.action_do("settings")
        await pilot.pause()
        await pilot.press("down", "enter")
        await pilot.pause()
        assert "// mine" in path.read_text()
        assert '"theme": "light"' in path.read_text()
        assert app.theme == "dragoman-light"
        await pilot.press("ctrl+r")
        assert "theme" not in path.read_text()
        await pilot.press(*"thoughts", "enter")
        await pilot.pause()
        assert app.query_one(Transcript).is_open
        path.write_text("{ broken")
        await pilot.press("enter")
        await pilot.pause()
        assert "settings.json:1:" in grid(app)[-1]


def colours_of(app: Any) -> tuple[set[str], set[str]]:
    """The colours on the screen: of letters and of backgrounds; `default` is the terminal's."""
    fronts, backs = set(), set()
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            style = segment.style or Style()
            backs.add(style.bgcolor.name if style.bgcolor is not None else "default")
            if segment.text.strip():
                fronts.add(style.color.name if style.color is not None else "default")
    return fronts, backs


@pytest.mark.parametrize(("is_light", "theme"), [(True, "ansi-light"), (False, "ansi-dark"), (None, "ansi-dark")])
async def test_the_colours_of_the_terminal_are_left_to_it(
    monkeypatch: pytest.MonkeyPatch, home: Path, is_light: bool | None, theme: str
) -> None:
    async with opened(monkeypatch, start=ScreenStart(is_light=is_light)) as (app, pilot):
        await pilot.pause()
        assert app.theme == theme
        fronts, backs = colours_of(app)
        assert backs <= {"default", "color(0)", "color(7)", "color(15)"}  # those of the cursor
        assert not any(name.startswith("#") for name in fronts)


async def becomes(pilot: Any, is_true: Callable[[], bool]) -> None:
    """Waits until something is so: the settings are written and read in a thread, which a busy machine may hold up."""
    async with asyncio.timeout(60):
        while not is_true():
            await pilot.pause()


@pytest.mark.convention("theme", "full screen")
async def test_a_theme_paints_every_cell_and_is_remembered(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    path = home / "config" / "settings.json"
    async with opened(monkeypatch) as (app, pilot):

        def is_painted(background: str) -> bool:
            return background in colours_of(app)[1]

        def is_stored(members: dict[str, Any]) -> bool:
            return bool(json.loads(path.read_text()) == members)

        for name, background in (("light", "#ffffff"), ("dark", "#191918")):
            await pilot.press(*f"/theme {name}", "enter")
            await becomes(pilot, partial(is_painted, background))
            fronts, backs = colours_of(app)
            assert background in backs
            assert len(backs) <= 2  # the other is that of the cursor
            assert all(front.startswith("#") for front in fronts)
            await becomes(pilot, partial(is_stored, {"ui": {"theme": name}}))
        await pilot.press(*"/theme pink", "enter")
        await becomes(pilot, lambda: "no theme is called pink; there are auto, dark, light" in "\n".join(grid(app)))
        await pilot.press(*"/theme auto", "enter")
        await becomes(pilot, partial(is_painted, "default"))
        await becomes(pilot, partial(is_stored, {}))


async def test_a_remembered_value_is_forgotten_with_r(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preferences = Preferences(home / "terminal.json")
    preferences.remember("claude", "web", True)
    async with opened(monkeypatch, start=ScreenStart(preferences=preferences)) as (app, pilot):
        app.action_do("settings")
        await pilot.pause()
        await pilot.press("end", "ctrl+r")
        await pilot.pause()
        assert preferences.all() == {}


# Keys


def test_the_keys_of_actions_do_not_collide() -> None:
    assert Keymap({}).problems == []
    keys = [key for action in ACTIONS for key in action.keys]
    assert len(keys) == len(set(keys))
    assert all(not wrong_key(key) for key in keys), [key for key in keys if wrong_key(key)]


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"sesions": ["ctrl+x"]}, "there is no action sesions; did you mean sessions"),
        ({"sessions": ["ctlr+x"]}, "ctlr+x is not a key: did you mean ctrl"),
        ({"sessions": ["pgup"]}, "pgup is not a key: did you mean pageup"),
        ({"sessions": ["x"]}, "x only types"),
        ({"sessions": ["enter"]}, "enter only types"),
        ({"sessions": ["alt+1"]}, "Alt+1 answers questions"),
        ({"sessions": ["ctrl+y"], "new": ["ctrl+y"]}, "Ctrl+Y is given to sessions already"),
        ({"sessions": ["ctrl+t"]}, "Ctrl+T is sessions, so that open is /open"),
    ],
)
def test_a_wrong_key_is_named_with_the_nearest(keys: dict[str, list[str]], problem: str) -> None:
    found = Keymap(keys)
    assert len(found.problems) == 1
    assert problem in found.problems[0]
    assert found.keys("leave") == ("ctrl+d",)


async def test_every_action_can_be_bound_to_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    keys: dict[str, tuple[str, ...]] = {
        action.name: (("ctrl+" if number < 20 else "shift+") + f"f{number % 20 + 1}",)
        for number, action in enumerate(ACTIONS)
    }
    async with opened(monkeypatch, start=ScreenStart(ui=UiMembers(keys=keys))) as (app, pilot):
        monkeypatch.setattr(app, "action_do", lambda name, argument="": done.append(name))
        assert app.keymap.problems == []
        await pilot.press(*(each[0] for each in keys.values()))
        assert done == [action.name for action in ACTIONS]
        done.clear()
        await pilot.press("ctrl+q", "ctrl+p", "ctrl+d", "f1")
        assert done == [], "the old keys do nothing, also not what Textual binds to them"


async def test_footer_and_help_show_what_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    ui = UiMembers(keys={"sessions": ("ctrl+y",), "help": ("f9",), "leave": ()})
    async with opened(monkeypatch, start=ScreenStart(ui=ui)) as (app, pilot):
        await painted(app, pilot)
        assert "Ctrl+Y sessions" in grid(app)[-1]
        assert "F9 help" in grid(app)[-1]
        assert "leave" not in grid(app)[-1]
        await pilot.press("f9", *"sessions")
        await pilot.pause()
        assert any(line.strip().startswith(("❯ Ctrl+Y", "Ctrl+Y")) and "(yours)" in line for line in grid(app))


# Help


@SIZES
async def test_the_help_shows_every_key_and_command(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    async with opened(monkeypatch, size) as (app, pilot):
        fold(
            app.conversation.state,
            v1.AvailableCommandsUpdate([v1.AvailableCommand("compact", "shorten \x1b[2J the conversation")]),
        )
        await pilot.press("question_mark")
        await pilot.pause()
        monkeypatch.setattr(app, "version", "")
        app.screen.right = ""  # type: ignore[attr-defined]
        app.screen.list.refresh()  # type: ignore[attr-defined]
        await pilot.pause()
        check_grid("help", app)
        assert all(line.isprintable() for line in grid(app))
        text = "\n".join(grid(app))
        for _ in range(len(ACTIONS)):
            if "/compact" in text:
                break
            await pilot.press("pagedown")
            text += "\n".join(grid(app))
        assert all(f"/{action.name} " in text or f"/{action.name}\n" in text for action in ACTIONS)
        assert "/compact" in text
        await pilot.press(*"the next mode")
        await pilot.pause()
        assert "Shift+Tab" in grid(app)[2]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("help", "help"),
        ("model", "model"),
        ("model claude", None),
        ("rewind", None),
        ("dragoman:rewind", "rewind"),
        ("queue", "queue"),
        ("mode full", "mode"),
        ("nothing", None),
    ],
)
def test_a_command_of_the_agent_goes_first_but_for_our_lists(text: str, found: str | None) -> None:
    word, _, argument = text.partition(" ")
    action = client_action(word, argument, {"help", "model", "mode", "rewind"})
    assert (action and action.name) == found


async def test_a_note_goes_away_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch) as (app, pilot):
        app.note("something was done")
        app._paint()
        await pilot.pause()
        assert any("something was done" in line for line in grid(app))
        app.notes = [(when - 31, text) for when, text in app.notes]
        app._paint()
        await pilot.pause()
        assert not any("something was done" in line for line in grid(app))


async def test_a_question_mark_in_a_text_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch) as (app, pilot):
        await pilot.press("w", "question_mark")
        assert app.query_one(PromptInput).text == "w?"
        assert len(app.screen_stack) == 1


# Models and options


@SIZES
async def test_a_model_is_chosen_from_a_grouped_list(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, taken: list[tuple[str, Any]], size: tuple[int, int]
) -> None:
    preferences = Preferences(tmp_path / "terminal.json")
    async with opened(monkeypatch, size, start=ScreenStart(preferences=preferences)) as (app, pilot):
        fold(app.conversation.state, v1.ConfigOptionUpdate([MODELS, SWITCH]))
        await pilot.press("alt+m")
        await pilot.pause()
        check_grid("models", app)
        await pilot.press(*"opus", "enter")
        await pilot.pause()
        await pilot.pause()
        assert taken == [("model", "opus")]
        assert preferences.of("claude") == {"model": "opus"}
        await pilot.press(*"/model mini", "enter")
        await pilot.pause()
        await pilot.pause()
        assert taken[-1] == ("model", "mini")
        await pilot.press(*"/model gpt", "enter")
        await painted(app, pilot)
        assert any("there is no model gpt" in line for line in grid(app))
        await pilot.press(*"/options", "enter")
        await pilot.pause()
        text = "\n".join(grid(app))
        assert "Web search" in text
        assert "Model · Claude" in text


async def test_shift_tab_goes_through_the_modes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, taken: list[tuple[str, Any]]
) -> None:
    async with opened(monkeypatch, start=ScreenStart(preferences=Preferences(tmp_path / "t.json"))) as (app, pilot):
        monkeypatch.setattr(type(app.conversation.state), "modes", MODES)
        fold(app.conversation.state, v1.CurrentModeUpdate("ask"))
        await pilot.press("shift+tab")
        await pilot.pause()
        assert taken == [("mode", "plan")]


async def test_an_agent_with_models_and_without_modes_says_so(
    monkeypatch: pytest.MonkeyPatch, taken: list[tuple[str, Any]]
) -> None:
    """Codex, if its settings are none of its modes."""
    async with opened(monkeypatch) as (app, pilot):
        fold(app.conversation.state, v1.ConfigOptionUpdate([MODELS]))
        await pilot.press("shift+tab")
        await painted(app, pilot)
        assert any("the agent has no modes" in line for line in grid(app))
        await pilot.press("alt+m", *"opus", "enter")
        await painted(app, pilot)
        assert taken == [("model", "opus")]


class FakeSession:
    """A session that takes what it offers."""

    def __init__(self) -> None:
        from dragoman.state import SessionState

        self.state = SessionState()
        fold(self.state, v1.ConfigOptionUpdate([MODELS, SWITCH]))
        self.taken: list[tuple[str, Any]] = []

    async def set_config_option(self, option: str, value: Any) -> None:
        if option == "web":
            raise RequestError(-32603, "not today")
        self.taken.append((option, value))


async def test_remembered_values_are_set_before_the_first_prompt_and_never_keep_a_session_from_opening(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    preferences = Preferences(tmp_path / "t.json")
    for option, value in (("model", "opus"), ("gone", "x"), ("mode", "plan")):
        preferences.remember("claude", option, value)
    preferences.remember("claude", "web", True)
    async with opened(monkeypatch, start=ScreenStart(preferences=preferences)) as (app, pilot):
        session: Any = FakeSession()
        prepared: Session = session
        await app.prepare_values(prepared, "claude --acp")
        assert session.taken == [("model", "opus")]
        await painted(app, pilot)
        assert any("was not taken: not today" in line for line in grid(app))
        other: Any = FakeSession()
        await app.prepare_values(other, "codex")
        assert other.taken == []


def test_preferences_survive_a_broken_file_and_say_when_they_cannot_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"agents": {"a": {"x": 1, "y": "z"}, "b": 3}}')
    assert Preferences(path).all() == {"a": {"y": "z"}}
    path.write_text("broken")
    assert Preferences(path).of("a") == {}
    Preferences(path).remember("a", "m", "n")
    assert json.loads(path.read_text()) == {"agents": {"a": {"m": "n"}}}


async def test_before_the_agent_is_ready_nothing_is_stated_about_what_it_offers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(monkeypatch) as (app, pilot):
        app.conversation.phase = "opening"
        for key in ("shift+tab", "alt+m"):
            await pilot.press(key)
            await painted(app, pilot)
            shown = "\n".join(grid(app))
            assert "there is nothing to choose before the agent is ready" in shown
            assert "the agent has" not in shown
