"""The modes and config options that a session offers, and the check of a choice against them.

Owns the last complete list of each kind. Pure: sends nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman.errors import LocalProtocolError, RequestError
from dragoman.schema import Unknown, v1

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class OfferedSettings:
    """The modes and config options that one session offers, with their current values."""

    __slots__ = ("config_options", "modes", "takes_booleans")

    def __init__(self, *, takes_booleans: bool) -> None:
        # Whether the client advertised session.configOptions.boolean; without it boolean options stay with the
        # agent, which works with their defaults (rules 150, 153).
        self.takes_booleans = takes_booleans
        self.modes: v1.SessionModeState | None = None
        self.config_options: list[v1.SessionConfigOption] | None = None

    def offer_modes(self, modes: v1.SessionModeState) -> None:
        """Raises: LocalProtocolError when the current mode is not one of the available ones (rule 170)."""
        if all(mode.id != modes.current_mode_id for mode in modes.available_modes):
            raise LocalProtocolError(f"the current mode {modes.current_mode_id!r} is not among the available modes")
        self.modes = modes

    def offer_options(self, options: Iterable[v1.SessionConfigOption]) -> list[v1.SessionConfigOption]:
        """Take the complete list and return the part this client may see.

        Raises: LocalProtocolError for a current value that is not among the values (rule 149).
        """
        listed = list(options)
        for option in listed:
            if isinstance(option, v1.SessionConfigSelect) and option.current_value not in _values(option):
                raise LocalProtocolError(
                    f"config option {option.id!r} has no value {option.current_value!r} to be its current one"
                )
        self.config_options = listed
        return self.visible()

    def visible(self) -> list[v1.SessionConfigOption]:
        """Return the offered options without those the client cannot show."""
        options = self.config_options or []
        if self.takes_booleans:
            return list(options)
        return [option for option in options if not isinstance(option, v1.SessionConfigBoolean)]

    def check_mode(self, mode_id: str) -> None:
        """Raises: RequestError -32602 for a mode that is not offered (rule 172)."""
        if self.modes is None or all(mode.id != mode_id for mode in self.modes.available_modes):
            raise RequestError.invalid_params(f"Unknown mode {mode_id!r}", path="$.modeId")

    def change_mode(self, mode_id: str) -> None:
        """Take note of the mode the session is in from now on.

        Raises: LocalProtocolError for a mode that is not among those the session offered.
        """
        if self.modes is None:
            return
        if all(mode.id != mode_id for mode in self.modes.available_modes):
            raise LocalProtocolError(f"mode {mode_id!r} is not among the modes this session offers")
        self.modes = replace(self.modes, current_mode_id=mode_id)

    def check_option(self, config_id: str, value: str | bool, *, is_open: bool = False) -> None:
        """Raises: RequestError -32602 for an option or value that is not offered (rule 166).

        Args:
            is_open: any text is a value of this option.
        """
        for option in self.visible():
            if isinstance(option, Unknown) or option.id != config_id:
                continue
            if isinstance(option, v1.SessionConfigBoolean):
                is_offered = isinstance(value, bool)
            else:
                is_offered = value in _values(option) or (is_open and isinstance(value, str))
            if not is_offered:
                raise RequestError.invalid_params(f"Config option {config_id!r} has no such value", path="$.value")
            return
        raise RequestError.invalid_params(f"Unknown config option {config_id!r}", path="$.configId")

    def choose_option(self, config_id: str, value: str | bool) -> None:
        """Take note of a checked choice."""
        self.config_options = [
            replace(option, current_value=value)
            if not isinstance(option, Unknown) and option.id == config_id
            else option
            for option in self.config_options or []
        ]

    def follow_mode(self) -> v1.ConfigOptionUpdate | None:
        """Set the option of category `mode` to the current mode (rule 167); return the update to send, if any."""
        option, modes = self._mode_option(), self.modes
        if option is None or modes is None or modes.current_mode_id == option.current_value:
            return None
        if modes.current_mode_id not in _values(option):
            return None
        self.choose_option(option.id, modes.current_mode_id)
        return v1.ConfigOptionUpdate(self.config_options or [])

    def follow_options(self) -> v1.CurrentModeUpdate | None:
        """Set the mode to the value of the option of category `mode`; return the update to send, if any."""
        option, modes = self._mode_option(), self.modes
        if option is None or modes is None or modes.current_mode_id == option.current_value:
            return None
        if all(mode.id != option.current_value for mode in modes.available_modes):
            return None
        self.change_mode(option.current_value)
        return v1.CurrentModeUpdate(option.current_value)

    def _mode_option(self) -> v1.SessionConfigSelect | None:
        for option in self.config_options or []:
            if isinstance(option, v1.SessionConfigSelect) and option.category == "mode":
                return option
        return None


def _values(option: v1.SessionConfigSelect) -> Sequence[str]:
    values: list[str] = []
    for entry in option.options:
        if isinstance(entry, v1.SessionConfigSelectGroup):
            values.extend(choice.value for choice in entry.options)
        else:
            values.append(entry.value)
    return values
