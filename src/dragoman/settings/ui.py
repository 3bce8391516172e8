"""The member `ui` of the user's settings: what each value may be, and what it means, for the file and for the screen.

Which actions and keys there are is not known here: the terminal client checks `keys` when it binds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.settings.documents import did_you_mean
from dragoman.settings.file import UiMembers

if TYPE_CHECKING:
    from dragoman.settings.documents import Document


class UiSetting(NamedTuple):
    """One member of `ui`, except `keys`."""

    name: str
    values: tuple[str | bool | int | None, ...]
    """What can be chosen, the default first; None is "as the terminal needs it", and is not written."""
    help: str


UI_SETTINGS: Final = (
    UiSetting("screen", ("full", "inline", "plain"), "the form that opens: full screen, inline, or lines only"),
    UiSetting("theme", ("auto", "dark", "light"), "auto: the colours of the terminal; dark, light: our own"),
    UiSetting("ascii", (None, True, False), "only ASCII signs; by default where the terminal has no UTF-8"),
    UiSetting("notifications", ("all", "bell", "off"), "when a session needs you or is done and you look elsewhere"),
    UiSetting("thoughts", ("closed", "open"), "thoughts and long outputs when a session opens"),
    UiSetting("paints", (None, 4, 8, 20, 30), "at most so many paints a second; by default 20, and 8 over SSH"),
    UiSetting("mouse", (True, False), "whether the client uses the mouse; off leaves it to the terminal"),
    UiSetting(
        "pictures", ("auto", "blocks", "sharp", "off"), "pictures: what the terminal can, half blocks, sharp, none"
    ),
)
LARGEST_PAINTS: Final = 60


def read_ui(document: Document, members: dict[str, Any]) -> UiMembers:
    """Check the member `ui`. Raises: ConfigError."""
    known = {setting.name: setting for setting in UI_SETTINGS}
    for name, value in members.items():
        if name == "keys":
            continue
        if name not in known:
            names = (*known, "keys")
            hint = did_you_mean(name, names) or f"use {', '.join(names)}"
            raise document.error(f"{name!r} is not a setting of ui; {hint}", "ui", name)
        _check(document, known[name], value)
    return UiMembers(**{**members, "keys": _keys(document, members.get("keys", {}))})


def _check(document: Document, setting: UiSetting, value: object) -> None:
    name = setting.name
    if name == "paints":
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_PAINTS:
            raise document.error(f"paints must be a whole number from 1 to {LARGEST_PAINTS}", "ui", name)
    elif any(isinstance(allowed, bool) for allowed in setting.values):
        if not isinstance(value, bool):
            raise document.error(f"{name} must be true or false", "ui", name)
    elif value not in setting.values:
        words = [str(allowed) for allowed in setting.values]
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        raise document.error(f"{name} must be one of {', '.join(words)}{f'; {hint}' if hint else ''}", "ui", name)


def _keys(document: Document, value: object) -> dict[str, tuple[str, ...]]:
    example = 'keys must be an object of lists: {"sessions": ["ctrl+p"]}'
    if not isinstance(value, dict):
        raise document.error(example, "ui", "keys")
    for action, keys in value.items():
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise document.error(example, "ui", "keys", action)
    return {action: tuple(keys) for action, keys in value.items()}
