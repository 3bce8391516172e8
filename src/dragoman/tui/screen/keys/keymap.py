"""Which key does what: the keys of the actions, changed by the user's settings.

A key that the settings give to one action is taken from the action that had it. What cannot be used is a sentence in
`problems`, with the nearest name; the client opens all the same, with the keys that it knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.settings.documents import did_you_mean
from dragoman.text.visible import label
from dragoman.tui.screen.keys.actions import ACTIONS, shown_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.tui.screen.keys.actions import Action

_MODIFIERS: Final = ("ctrl", "alt", "shift", "super")
_NAMED: Final = frozenset(
    (
        *("escape", "tab", "enter", "space", "backspace", "delete", "insert", "up", "down", "left", "right"),
        *("home", "end", "pageup", "pagedown", *(f"f{number}" for number in range(1, 25))),
    )
)
_TYPING: Final = frozenset(("enter", "space", "backspace", "delete", "up", "down", "left", "right", "home", "end"))
"""Keys that edit the input when they come without Ctrl or Alt."""
_ANSWERS: Final = frozenset(f"alt+{number}" for number in range(1, 10))


class Keymap:
    """The keys of every action."""

    def __init__(self, changed: Mapping[str, Sequence[str]], actions: Sequence[Action] = ACTIONS) -> None:
        self.problems: list[str] = []
        self._keys = {action.name: list(action.keys) for action in actions}
        self._defaults = {action.name: action.keys for action in actions}
        winners: dict[str, str] = {}
        for name, keys in changed.items():
            if name not in self._keys:
                hint = did_you_mean(name, self._keys) or "/help lists them"
                self.problems.append(f"ui.keys: there is no action {label(name, 40)}; {hint}")
                continue
            self._keys[name] = self._usable(name, keys, winners)
        for key, name in winners.items():
            for other, keys in self._keys.items():
                if other != name and key in keys:
                    keys.remove(key)
                    self._note_loss(other, name, key)

    def keys(self, name: str) -> tuple[str, ...]:
        """Return the keys of an action; none if it only has a slash command."""
        return tuple(self._keys.get(name, ()))

    def is_changed(self, name: str) -> bool:
        """Return whether the settings changed the keys of an action."""
        return self.keys(name) != self._defaults.get(name, ())

    def shown(self, name: str) -> str:
        """Return the first key of an action as users read it, or its slash command."""
        keys = self.keys(name)
        return shown_key(keys[0]) if keys else f"/{name}"

    def _usable(self, name: str, keys: Sequence[str], winners: dict[str, str]) -> list[str]:
        usable = []
        for key in keys:
            wanted = key.strip().lower()
            problem = wrong_key(wanted)
            if not problem and wanted in winners:
                problem = f"{shown_key(wanted)} is given to {winners[wanted]} already"
            if problem:
                self.problems.append(f"ui.keys.{name}: {problem}")
            else:
                winners[wanted] = name
                usable.append(wanted)
        return usable if usable or not keys else list(self._defaults[name])

    def _note_loss(self, loser: str, winner: str, key: str) -> None:
        left = self.shown(loser)
        self.problems.append(f"ui.keys: {shown_key(key)} is {winner}, so that {loser} is {left}")


def wrong_key(key: str) -> str:
    """Return why a key cannot be bound; empty if it can."""
    *modifiers, last = key.split("+")
    for modifier in modifiers:
        if modifier not in _MODIFIERS:
            return f"{label(key, 30)} is not a key: {did_you_mean(modifier, _MODIFIERS) or 'use ctrl, alt or shift'}"
    is_chord = "ctrl" in modifiers or "alt" in modifiers or "super" in modifiers
    if len(last) != 1 and last not in _NAMED and not (is_chord and "_" in last and last.isidentifier()):
        return f"{label(key, 30)} is not a key: {did_you_mean(last, _NAMED) or 'such as ctrl+x, alt+m, f2, pageup'}"
    if not is_chord and (len(last) == 1 or last in _TYPING):
        return f"{label(key, 30)} only types: take it with ctrl or alt"
    if key in _ANSWERS:
        return f"{shown_key(key)} answers questions"
    return ""
