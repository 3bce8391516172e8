"""Texts of the user for a running turn: accepted while the turn can still pass them to the model."""

from __future__ import annotations


class Steering:
    """The texts that a turn has not yet passed on. Between turns none is accepted."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._is_open = False

    def begin(self) -> None:
        """Begin a turn."""
        self._is_open = True

    def end(self) -> None:
        """End the turn's use of the texts: it looks at them for the last time now."""
        self._is_open = False

    def add(self, text: str) -> bool:
        """Pass a text to the turn. Returns False if no turn would pass it on."""
        if self._is_open:
            self.texts.append(text)
        return self._is_open
