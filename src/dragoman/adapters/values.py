"""What an adapter and the agent around it exchange next to chunks: permission options and answers, settings, sessions.

Owns these types and how they are written in the protocol. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from dragoman.errors import DragomanError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Sequence

Scope: TypeAlias = Literal["once", "session", "always"]


class AdapterError(DragomanError):
    """The wrapped source cannot be used, or failed. The text is written for the user: what happened, what to do."""


class AskOption(Struct, frozen=True):
    """One answer that the user can give to a permission question.

    What `session` and `always` mean, and that they are remembered, is up to the source that offers them.
    """

    id: str
    label: str
    allows: bool = True
    scope: Scope = "once"
    input: Any = UNSET
    """What the call runs with if this option is chosen, where that differs from what was asked about."""
    edits: bool = False
    """The user changes the input in a form first. Offered to clients that can show forms only."""

    @property
    def kind(self) -> Literal["allow_once", "allow_always", "reject_once", "reject_always"]:
        """The protocol's word for it."""
        if self.allows:
            return "allow_once" if self.scope == "once" else "allow_always"
        return "reject_once" if self.scope == "once" else "reject_always"


ALLOW = AskOption("allow", "Allow")
REJECT = AskOption("reject", "Reject", allows=False)


class AskAnswer(Struct, frozen=True):
    """The user's answer to a permission question. It is true only for a yes."""

    allowed: bool
    option: AskOption | None = None
    """The chosen option; None if the question was cancelled or could not be asked."""
    input: Any = UNSET
    """What the call is to run with, if the user or the option changed it."""
    reason: str = ""
    """Why not, as far as the client reports it."""
    call_id: str = ""
    """The tool call in question, for chunks about its outcome."""

    def __bool__(self) -> bool:
        return self.allowed

    @property
    def scope(self) -> Scope:
        return "once" if self.option is None else self.option.scope


class SettingValue(Struct, frozen=True):
    """One value of a setting."""

    id: str
    name: str
    description: str | UnsetType = UNSET


class Setting(Struct, frozen=True):
    """Something the user can choose for a session: the mode, the model, or anything else.

    A setting of category `mode` is offered as the session's modes too. Without `values` it is a switch, and `current`
    is a bool.
    """

    id: str
    name: str
    current: str | bool
    values: tuple[SettingValue, ...] = ()
    category: Literal["mode", "model", "thought_level"] | UnsetType = UNSET
    description: str | UnsetType = UNSET


class WrappedSessionInfo(Struct, frozen=True):
    """A session of a source that keeps its own."""

    id: str
    cwd: str
    title: str = ""
    updated_at: str | UnsetType = UNSET
    """ISO 8601."""


class WrappedSessionPage(Struct, frozen=True):
    """Some sessions of a source, the last changed first, and the cursor of the next page if there is one."""

    sessions: tuple[WrappedSessionInfo, ...]
    next_cursor: str | None = None


def modes_of(settings: Sequence[Setting]) -> v1.SessionModeState | UnsetType:
    """Return the modes to offer."""
    for setting in settings:
        if setting.category == "mode" and isinstance(setting.current, str):
            modes = [v1.SessionMode(value.id, value.name, value.description) for value in setting.values]
            return v1.SessionModeState(setting.current, modes)
    return UNSET


def config_options_of(settings: Sequence[Setting]) -> list[v1.SessionConfigOption] | UnsetType:
    """Return the config options to offer."""
    options = [_config_option(setting) for setting in settings]
    return options or UNSET


def _config_option(setting: Setting) -> v1.SessionConfigOption:
    if isinstance(setting.current, bool):
        return v1.SessionConfigBoolean(
            setting.id, setting.name, setting.current, category=setting.category, description=setting.description
        )
    values = [v1.SessionConfigSelectOption(value.id, value.name, value.description) for value in setting.values]
    return v1.SessionConfigSelect(
        setting.id, setting.name, setting.current, values, category=setting.category, description=setting.description
    )
