"""Mode, configuration options and commands that the agent offers.

Mode and options are two views of one thing in most agents, and are kept in step. Agents offer modes, or an option of
category `mode`, or both, and after a change many report through the other view only. So a mode that the option knows
sets the option, and an option value that is a known mode sets the mode; a value the other view does not know leaves
that view as it was. Where both come at once the option wins: it is the newer form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman.schema.v1 import SessionConfigSelect, SessionConfigSelectGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.schema.v1 import (
        AvailableCommand,
        AvailableCommandsUpdate,
        ConfigOptionUpdate,
        CurrentModeUpdate,
        SessionConfigOption,
        SessionModeState,
    )


class SessionSettings:
    """The current mode, the configuration options and the slash commands of a session."""

    __slots__ = ("commands", "config_options", "mode", "modes")

    def __init__(self) -> None:
        self.mode: str | None = None
        self.modes: SessionModeState | None = None
        self.config_options: tuple[SessionConfigOption, ...] = ()
        self.commands: tuple[AvailableCommand, ...] = ()

    def fold_commands(self, update: AvailableCommandsUpdate) -> None:
        """Replace the list of commands."""
        self.commands = tuple(update.available_commands)

    def fold_mode(self, update: CurrentModeUpdate) -> None:
        """Set the current mode, and the option of category `mode` if it has this value."""
        mode = update.current_mode_id
        self._set_mode(mode)
        option = self.mode_option()
        if option is not None and mode in option_values(option):
            moved = replace(option, current_value=mode)
            self.config_options = tuple(moved if one is option else one for one in self.config_options)

    def fold_config_options(self, update: ConfigOptionUpdate) -> None:
        """Replace the list of options."""
        self.set_config_options(update.config_options)

    def set_modes(self, modes: SessionModeState) -> None:
        """Replace the list of modes and the current one."""
        self.modes = modes
        self.mode = modes.current_mode_id

    def set_config_options(self, options: Sequence[SessionConfigOption]) -> None:
        """Replace the whole list: options come and go with the values of others."""
        self.config_options = tuple(options)
        option = self.mode_option()
        if option is None:
            return
        if self.modes is None or any(option.current_value == mode.id for mode in self.modes.available_modes):
            self._set_mode(option.current_value)

    def _set_mode(self, mode: str) -> None:
        self.mode = mode
        if self.modes is not None:
            self.modes = replace(self.modes, current_mode_id=mode)

    def mode_option(self) -> SessionConfigSelect | None:
        """Return the option of category `mode`, if there is one."""
        for option in self.config_options:
            if type(option) is SessionConfigSelect and option.category == "mode":
                return option
        return None


def option_values(option: SessionConfigSelect) -> set[str]:
    """Return all values an option offers, those in groups included."""
    values: set[str] = set()
    for one in option.options:
        leaves = one.options if isinstance(one, SessionConfigSelectGroup) else [one]
        values.update(leaf.value for leaf in leaves)
    return values
