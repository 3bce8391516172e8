"""The list of all keys and slash commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.tui.screen.actions import ACTIONS, FIXED_KEYS, shown_key
from dragoman.tui.screen.parts import Choice
from dragoman.tui.screen.walking import WALK_KEYS

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp


def help_rows() -> list[str]:
    """One row for each key, with the slash command of its action."""
    rows = [f"{key:<12} {meaning}" for key, meaning in (*FIXED_KEYS, *WALK_KEYS)]
    return rows + [f"{' '.join(map(shown_key, each.keys)):<12} {each.help} (/{each.name})" for each in ACTIONS]


def show_help(app: TerminalApp, argument: str = "") -> None:
    """Show every key."""
    _ = app.push_screen(Choice("keys", help_rows()))
