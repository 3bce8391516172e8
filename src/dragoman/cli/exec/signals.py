"""Ctrl-C and SIGTERM, before and while an event loop runs.

A handler of our own instead of the loop's: the loop's would not run while stdout blocks, and whoever presses Ctrl-C a
third time wants nothing but the end. What is still running then is killed by the guard of `dragoman.process`.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)
_PATIENCE: Final = 2  # signals that are handled politely


class Terminated(BaseException):
    """SIGTERM came while no loop ran; like KeyboardInterrupt, nobody should catch it by accident."""


@contextmanager
def terminable() -> Iterator[None]:
    """Makes SIGTERM an exception, so that a result can be written; one that is ignored stays so."""
    before = signal.getsignal(signal.SIGTERM)
    if before is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Signals:
    """While entered, tells `stop` about each signal, on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stop: Callable[[int], None]) -> None:
        self._loop = loop
        self._stop = stop
        self._first = 0
        self._count = 0
        self._before: dict[int, object] = {}

    def __enter__(self) -> None:
        for number in _NUMBERS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # a shell's background job: whoever ignores it has a reason
                self._before[number] = before
                signal.signal(number, self._handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]  # as it was

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._first = self._first or number
        self._count += 1
        if self._count > _PATIENCE:
            os._exit(128 + self._first)
        self._loop.call_soon_threadsafe(self._stop, number)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
