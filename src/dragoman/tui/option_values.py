"""The modes, the models and the options of an agent as values to choose from. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dragoman.schema import v1
from dragoman.tui.start.preferences import MODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.state import SessionState

KnownOption: TypeAlias = "v1.SessionConfigSelect | v1.SessionConfigBoolean"


class OptionValue(NamedTuple):
    """A value of an option that can be chosen."""

    option: str
    """The id of the option; `MODE` for a mode that is not an option."""
    value: str | bool
    name: str
    group: str = ""
    description: str = ""
    is_current: bool = False
    category: str = ""
    """Of the option, as the agent names it; empty if it names none."""


def known_options(state: SessionState) -> list[KnownOption]:
    """Return the options of an agent, without those of a kind that this version does not know."""
    return [
        option
        for option in state.config_options
        if isinstance(option, v1.SessionConfigSelect | v1.SessionConfigBoolean)
    ]


def values_of(option: KnownOption, *, with_name: bool = False) -> list[OptionValue]:
    """Return the values of an option, with their groups; a switch is on or off."""
    id, title, current = option.id, option.name, option.current_value
    category = option.category if isinstance(option.category, str) else ""
    if isinstance(option, v1.SessionConfigBoolean):
        return [
            OptionValue(id, value, name, title, "", current is value, category)
            for value, name in ((True, "on"), (False, "off"))
        ]
    values: list[OptionValue] = []
    for offer in option.options:
        is_group = isinstance(offer, v1.SessionConfigSelectGroup)
        heading = " · ".join(filter(None, [title if with_name else "", offer.name if is_group else ""]))
        for value in offer.options if isinstance(offer, v1.SessionConfigSelectGroup) else (offer,):
            note = value.description if isinstance(value.description, str) else ""
            values.append(OptionValue(id, value.value, value.name, heading, note, value.value == current, category))
    return values


def options_of(state: SessionState, category: str) -> list[KnownOption]:
    """Return the options of a category, such as `model`."""
    return [option for option in known_options(state) if option.category == category]


def models_of(state: SessionState) -> list[OptionValue]:
    """Return the models; empty if the agent offers no choice."""
    return [value for option in options_of(state, "model") for value in values_of(option)]


def modes_of(state: SessionState) -> list[OptionValue]:
    """Return the modes. Many agents offer them twice, the second time as an option; the host keeps both in step."""
    if state.modes is None or not state.modes.available_modes:
        return [value for option in options_of(state, "mode") for value in values_of(option)]
    return [
        OptionValue(
            *(MODE, mode.id, mode.name, "mode", mode.description if isinstance(mode.description, str) else ""),
            mode.id == state.mode,
            "mode",
        )
        for mode in state.modes.available_modes
    ]


def all_values(state: SessionState) -> list[OptionValue]:
    """Return modes and the values of every option."""
    values = [] if options_of(state, "mode") else modes_of(state)
    for option in known_options(state):
        values += values_of(option, with_name=True)
    return values


def named(values: Sequence[OptionValue], name: str) -> list[OptionValue]:
    """Return the values that a typed name means: those that are it, else those that contain it."""
    wanted = name.casefold()
    same = [value for value in values if wanted in (str(value.value).casefold(), value.name.casefold())]
    return same or [value for value in values if wanted in f"{value.value} {value.name}".casefold()]
