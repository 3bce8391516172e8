"""How the full screen starts: its settings, what is known of the terminal, and whether a session is chosen first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dragoman.settings.file import UiMembers
from dragoman.tui.terminal.terminal_facts import TerminalAnswers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.tui.start.preferences import Preferences


class ScreenStart(NamedTuple):
    """Everything that is decided before the screen opens."""

    ui: UiMembers = UiMembers()
    overridden: Mapping[str, str] = {}
    """Settings that an option or a variable decides this time: name -> what decided it."""
    preferences: Preferences | None = None
    is_light: bool | None = None
    answers: TerminalAnswers = TerminalAnswers()
    typed: bytes = b""
    """Keys that came while the terminal was asked."""
    chooses: bool = False
    """Show the sessions of the folder first, if there are some."""
    worktree: str = ""
    notes: tuple[str, ...] = ()


def theme_of(theme: str, is_light: bool | None) -> str:
    """Return the name of Textual's theme: always one of the terminal's own sixteen colours, on its own background."""
    if theme in ("dark", "light"):
        return f"ansi-{theme}"
    return "ansi-light" if is_light else "ansi-dark"
