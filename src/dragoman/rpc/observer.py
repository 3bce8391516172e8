"""Observers: code that sees every line of a connection, for recorders and inspectors.

An observer gets the lines themselves, in order, never a copy of decoded objects. A connection without observers
pays nothing for them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.schema import Loss

_log = logging.getLogger("dragoman.rpc")

_WARNINGS = 100  # about losses, for one connection; further ones and repetitions are logged for debugging only


class Observer:
    """Subclass and override what you want to see. An exception raised here is logged and goes no further."""

    def received(self, line: bytes) -> None:
        """Take one line as it arrived, without its newline; malformed ones too."""

    def sent(self, line: bytes) -> None:
        """Take one line as it is written, without its newline."""

    def lost(self, method: str, loss: Loss) -> None:
        """Take note of a member that was unreadable, and was replaced by its default or skipped."""

    def ended(self, reason: str) -> None:
        """Take note that the connection is over."""


class Observers:
    """Calls every observer; an exception of one is logged and stops neither the others nor the connection."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)
        self._logged: set[tuple[str, Loss]] = set()

    def __bool__(self) -> bool:
        return bool(self._observers)

    def received(self, line: bytes) -> None:
        self._notify(lambda observer: observer.received(line))

    def sent(self, line: bytes) -> None:
        self._notify(lambda observer: observer.sent(line))

    def lost(self, method: str, loss: Loss) -> None:
        # An agent with a flaw repeats it in every update: writing each to the log takes longer than reading it.
        level = logging.DEBUG
        if (method, loss) not in self._logged and len(self._logged) < _WARNINGS:
            self._logged.add((method, loss))
            level = logging.WARNING
        _log.log(level, "%s: dropped %s: %s", method, loss.path, loss.why)
        self._notify(lambda observer: observer.lost(method, loss))

    def ended(self, reason: str) -> None:
        self._notify(lambda observer: observer.ended(reason))

    def _notify(self, event: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                event(observer)
            except Exception:
                _log.exception("an observer failed")
