"""Modes and options of the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.text.visible import label
from dragoman.tui.screen.parts import Choice

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp


def next_mode(app: TerminalApp, argument: str = "") -> None:
    """Go to the next mode."""
    modes = app.talk.state.modes
    if modes is None or not modes.available_modes:
        app.note("the agent has no modes")
        return
    ids = [mode.id for mode in modes.available_modes]
    current = app.talk.state.mode
    app.start(app.talk.set_mode(ids[(ids.index(current) + 1) % len(ids)] if current in ids else ids[0]))


def choose_option(app: TerminalApp, argument: str = "") -> None:
    """Choose a mode or a value of an option."""
    choices: list[tuple[str, Any]] = []
    state = app.talk.state
    # Many agents offer their modes twice, the second time as an option.
    has_option = any(getattr(option, "category", None) == "mode" for option in state.config_options)
    for mode in () if state.modes is None or has_option else state.modes.available_modes:
        mark = "*" if mode.id == state.mode else " "
        choices.append((f"{mark} mode: {label(mode.name, 60)}", (app.talk.set_mode, mode.id)))
    for option in state.config_options:
        for value, name in _values(option):
            mark = "*" if value == getattr(option, "current_value", None) else " "
            text = f"{mark} {label(str(getattr(option, 'name', '')), 30)}: {label(name, 60)}"
            choices.append((text, (app.talk.set_option, getattr(option, "id", ""), value)))
    if not choices:
        app.note("the agent has neither modes nor options")
        return

    def use(chosen: int | None) -> None:
        if chosen is not None:
            call, *arguments = choices[chosen][1]
            app.start(call(*arguments))

    _ = app.push_screen(Choice("modes and options", [text for text, _ in choices]), use)


def _values(option: Any) -> list[tuple[str | bool, str]]:
    """The values of an option, with their names; a switch is on or off."""
    if isinstance(getattr(option, "current_value", None), bool):
        return [(True, "on"), (False, "off")]
    found: list[tuple[str | bool, str]] = []
    for each in getattr(option, "options", None) or ():
        inner = getattr(each, "options", None)
        found += [(value.value, value.name) for value in (inner if inner is not None else (each,))]
    return found
