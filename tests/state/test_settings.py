"""Modes and options, and how they are kept in step."""

from __future__ import annotations

import pytest

from dragoman.schema import UNSET, Unknown
from dragoman.schema.v1 import (
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionConfigBoolean,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)
from dragoman.state import SessionState
from tests.state.make import folded


def modes(current: str = "ask") -> SessionModeState:
    return SessionModeState(current, [SessionMode("ask", "Ask"), SessionMode("code", "Code")])


def select(current: str, *values: str, category: str = "mode", option_id: str = "mode") -> SessionConfigSelect:
    options = [SessionConfigSelectOption(value, value.title()) for value in values]
    return SessionConfigSelect(option_id, option_id.title(), current, options, category=category)


def values(state: SessionState) -> dict[str, object]:
    return {
        option.id: option.current_value for option in state.config_options if not isinstance(option, Unknown)
    }  # fmt: skip


MODEL = select("big", "big", "small", category="model", option_id="model")
FLAG = SessionConfigBoolean("auto", "Auto", True)


def test_a_new_state_has_neither() -> None:
    state = SessionState()
    assert (state.mode, state.modes, state.config_options) == (None, None, ())


@pytest.mark.rule(174)
def test_a_mode_update_moves_the_mode() -> None:
    state = SessionState()
    state.open(modes())
    assert state.mode == "ask"
    folded(CurrentModeUpdate("code"), into=state)
    assert state.mode == "code"
    assert state.modes == modes("code")


def test_a_mode_is_known_even_where_the_modes_are_not() -> None:
    assert folded(CurrentModeUpdate("code")).mode == "code"


def test_options_are_replaced_as_a_whole() -> None:
    unknown = Unknown("slider", {"type": "slider", "id": "x"})
    state = SessionState()
    state.open(config_options=[MODEL, FLAG])
    assert values(state) == {"model": "big", "auto": True}
    folded(ConfigOptionUpdate([FLAG, unknown]), into=state)
    assert state.config_options == (FLAG, unknown)
    assert state.mode is None


@pytest.mark.parametrize("absent", [None, UNSET])
def test_what_an_answer_leaves_out_stays(absent: None) -> None:
    state = SessionState()
    state.open(modes(), [MODEL])
    before = state.revision
    state.open(absent, absent)
    assert (state.mode, state.config_options) == ("ask", (MODEL,))
    assert state.revision > before


def test_an_answer_replaces_what_it_has() -> None:
    state = SessionState()
    state.open(modes("ask"), [MODEL])
    state.open(modes("code"), [])
    assert (state.mode, state.modes, state.config_options) == ("code", modes("code"), ())


class TestInStep:
    def both(self) -> SessionState:
        state = SessionState()
        state.open(modes(), [MODEL, select("ask", "ask", "code")])
        return state

    def test_a_mode_update_moves_the_option(self) -> None:
        state = folded(CurrentModeUpdate("code"), into=self.both())
        assert values(state) == {"model": "big", "mode": "code"}

    def test_an_option_update_moves_the_mode(self) -> None:
        state = folded(ConfigOptionUpdate([MODEL, select("code", "ask", "code")]), into=self.both())
        assert (state.mode, state.modes) == ("code", modes("code"))

    def test_an_option_within_groups_is_moved_too(self) -> None:
        group = SessionConfigSelectGroup("g", "G", [SessionConfigSelectOption("code", "Code")])
        state = SessionState()
        state.open(modes(), [SessionConfigSelect("mode", "Mode", "ask", [group], category="mode")])
        folded(CurrentModeUpdate("code"), into=state)
        assert values(state) == {"mode": "code"}

    def test_an_option_alone_gives_the_mode(self) -> None:
        state = SessionState()
        state.open(config_options=[select("plan", "plan", "build")])
        assert (state.mode, state.modes) == ("plan", None)
        folded(CurrentModeUpdate("build"), into=state)
        assert (state.mode, values(state)) == ("build", {"mode": "build"})

    def test_a_mode_the_option_does_not_have_leaves_the_option(self) -> None:
        state = folded(CurrentModeUpdate("secret"), into=self.both())
        assert (state.mode, values(state)["mode"]) == ("secret", "ask")

    def test_a_value_that_is_not_a_mode_leaves_the_mode(self) -> None:
        state = folded(ConfigOptionUpdate([select("turbo", "ask", "turbo")]), into=self.both())
        assert (state.mode, state.modes) == ("ask", modes())

    def test_an_option_of_another_category_is_not_the_mode(self) -> None:
        other = select("code", "ask", "code", category="collaboration_mode")
        state = folded(ConfigOptionUpdate([other]), into=self.both())
        assert state.mode == "ask"
        folded(CurrentModeUpdate("code"), into=state)
        assert state.config_options == (other,)

    def test_a_flag_of_category_mode_is_not_the_mode(self) -> None:
        flag = SessionConfigBoolean("plan", "Plan", False, category="mode")
        options: list[SessionConfigOption] = [flag, select("code", "ask", "code")]
        state = folded(ConfigOptionUpdate(options), into=self.both())
        assert state.mode == "code"
        folded(CurrentModeUpdate("ask"), into=state)
        assert values(state) == {"plan": False, "mode": "ask"}

    def test_the_option_wins_where_both_come_at_once(self) -> None:
        state = SessionState()
        state.open(modes("ask"), [select("code", "ask", "code")])
        assert (state.mode, state.modes) == ("code", modes("code"))
