"""Where the screen is drawn: on the terminal behind stdout where stderr goes elsewhere, and no faster than it takes it.

Textual writes to stderr, which users redirect, and keeps up to thirty pieces for a terminal that is slow: on a bad line
that would be half a minute of old pictures before the letter that was typed last.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from textual.drivers.linux_driver import LinuxDriver

_WAITING: Final = 2  # pieces of output: the one that is written, and the next


class StdoutDriver(LinuxDriver):
    """Textual's driver, with the terminal behind stdout."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        assert sys.__stdout__ is not None
        # As stderr has it: a letter that the terminal's encoding lacks must not end the thread that writes.
        copy = os.dup(sys.__stdout__.fileno())
        self._file = os.fdopen(copy, "w", encoding=sys.__stdout__.encoding, errors="backslashreplace")


def driver_for_output() -> type[LinuxDriver] | None:
    """Return the driver for this process; None for Textual's own."""
    has_stderr = sys.__stderr__ is not None and sys.__stderr__.isatty()
    has_stdout = sys.__stdout__ is not None and sys.__stdout__.isatty()
    return StdoutDriver if has_stdout and not has_stderr else None


def is_behind(driver: Any) -> bool:
    """Return whether the terminal has not taken what was written before: what is painted meanwhile would only wait."""
    writer = getattr(driver, "_writer_thread", None)
    return writer is not None and writer._queue.qsize() > _WAITING
