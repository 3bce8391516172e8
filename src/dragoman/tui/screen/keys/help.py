"""The list of all keys and slash commands, as they are bound, grouped, and searched by typing.

Loaded when it is first opened, with the picker that shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.text.terminal import cells, fit
from dragoman.text.visible import label
from dragoman.tui.screen.conversation.walking import WALK_KEYS
from dragoman.tui.screen.keys.actions import ACTIONS, FIXED_KEYS, shown_key
from dragoman.tui.screen.picker import Picker, PickRow

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.tui.screen.keys.keymap import Keymap
    from dragoman.view.rails import RailLine

_TITLES: Final = {"conversation": "conversation", "sessions": "sessions", "agent": "agent", "screen": "screen"}


def help_rows(keymap: Keymap, width: int = 80) -> list[PickRow]:
    """Return one row for each key of the input, and for each action with its keys and its slash command."""
    narrow = width < 60
    rows = [_heading("input")]
    for key, meaning in FIXED_KEYS:
        rows.append(_row(key, meaning, "", width, narrow=narrow))
    rows.append(_heading("walking the conversation"))
    for key, meaning in WALK_KEYS:
        rows.append(_row(key, meaning, "", width, narrow=narrow))
    groups: dict[str, list[Any]] = {}
    for action in ACTIONS:
        groups.setdefault(action.group, []).append(action)
    for group, actions in groups.items():
        rows.append(_heading(_TITLES.get(group, group)))
        for action in actions:
            keys = "  ".join(map(shown_key, keymap.keys(action.name)))
            changed = " (yours)" if keymap.is_changed(action.name) else ""
            names = " ".join(f"/{name}" for name in (action.name, *action.aliases))
            rows.append(_row(keys, f"{action.help}{changed}", names, width, narrow=narrow, value=action))
    return rows


def _heading(text: str) -> PickRow:
    return PickRow(((f" {text}", "bold"),), is_heading=True)


def _row(key: str, meaning: str, command: str, width: int, *, narrow: bool, value: Any = None) -> PickRow:
    first = 12 if narrow else 18
    end = "" if narrow else f"  {command}"
    text = fit(meaning, max(10, width - 3 - first - cells(end) - 1))
    line: RailLine = ((fit(key or command, first), "user"), (f" {text}", ""), (end, "dim"))
    return PickRow(line, value, f"{key} {meaning} {command}")


def show_help(app: TerminalApp, argument: str = "") -> None:
    """Show every key; the chosen action is done."""
    rows = help_rows(app.keymap, app.size.width)
    known = {name for action in ACTIONS for name in (action.name, *action.aliases)}
    commands = [command for command in app.conversation.state.commands if command.name not in known]
    if commands:
        rows.append(_heading("commands of the agent"))
        for command in commands:
            meaning = label(command.description or "", 100, "")
            rows.append(_row(f"/{label(command.name, 16)}", meaning, "", app.size.width, narrow=app.size.width < 60))
    picker = Picker(
        "keys and commands",
        rows,
        right=app.version,
        footer="type to search · Enter do it · Esc back · /settings shows how to change keys",
        glyphs=app.glyphs,
    )

    def use(action: Any) -> None:
        if action is not None:
            app.action_do(action.name)

    app.show_picker(picker, use)
