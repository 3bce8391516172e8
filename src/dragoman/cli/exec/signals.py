"""Ctrl-C and SIGTERM, before and while an event loop runs.

A signal handler is used instead of the loop's: the loop's would not run while stdout blocks, and the third Ctrl-C must
end the process at once. What is still running then is killed by the guard of `dragoman.process`.
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
_HANDLED: Final = 2  # signals that are passed to `stop`; the next one ends the process


class Terminated(BaseException):
    """SIGTERM arrived while no loop ran; like KeyboardInterrupt, it is not an Exception."""


@contextmanager
def terminable() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that a result can be written; if it is ignored, that stays."""
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
    """While entered, calls `stop` on the loop for each signal."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stop: Callable[[int], None]) -> None:
        self._loop = loop
        self._stop = stop
        self._first = 0
        self._count = 0
        self._before: dict[int, object] = {}

    def __enter__(self) -> None:
        for number in _NUMBERS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # ignored on purpose, as in a shell's background job
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
        if self._count > _HANDLED:
            os._exit(128 + self._first)
        self._loop.call_soon_threadsafe(self._stop, number)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
