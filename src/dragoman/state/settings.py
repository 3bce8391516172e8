"""Mode and configuration options: two views of one thing in most agents, kept in step.

Agents offer modes, or an option of category `mode`, or both, and after a change many report through the other view
only. So a mode that the option knows moves the option, and an option value that is a known mode moves the mode; a
value the other view does not know leaves that view as it was. Where both come at once the option wins: it is the
newer form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman.schema.v1 import SessionConfigSelect, SessionConfigSelectGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.schema.v1 import ConfigOptionUpdate, CurrentModeUpdate, SessionConfigOption
    from dragoman.state.session import SessionState


def fold_mode(state: SessionState, update: CurrentModeUpdate) -> None:
    mode = update.current_mode_id
    _set_mode(state, mode)
    option = _mode_option(state._config_options)
    if option is not None and mode in _values(option):
        moved = replace(option, current_value=mode)
        state._config_options = tuple(moved if one is option else one for one in state._config_options)


def fold_config_options(state: SessionState, update: ConfigOptionUpdate) -> None:
    set_config_options(state, update.config_options)


def set_config_options(state: SessionState, options: Sequence[SessionConfigOption]) -> None:
    """Replace the whole list: options come and go with the values of others."""
    state._config_options = tuple(options)
    option = _mode_option(state._config_options)
    if option is None:
        return
    modes = state._modes
    if modes is None or any(option.current_value == mode.id for mode in modes.available_modes):
        _set_mode(state, option.current_value)


def _set_mode(state: SessionState, mode: str) -> None:
    state._mode = mode
    if state._modes is not None:
        state._modes = replace(state._modes, current_mode_id=mode)


def _mode_option(options: tuple[SessionConfigOption, ...]) -> SessionConfigSelect | None:
    for option in options:
        if type(option) is SessionConfigSelect and option.category == "mode":
            return option
    return None


def _values(option: SessionConfigSelect) -> set[str]:
    values: set[str] = set()
    for one in option.options:
        leaves = one.options if isinstance(one, SessionConfigSelectGroup) else [one]
        values.update(leaf.value for leaf in leaves)
    return values
