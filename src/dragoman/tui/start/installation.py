"""The installation of an agent from the welcome: `dragoman agents install` as a program of its own, with its progress.

A program can be ended when the user leaves, with everything that npm or pip started. Loaded with the first
installation: few starts have one.
"""

from __future__ import annotations

import asyncio
import os
import re
from time import monotonic
from typing import TYPE_CHECKING, Final

from dragoman.errors import ConfigError
from dragoman.process.own_program import own_command
from dragoman.process.terminal import Terminal
from dragoman.text.terminal import duration, one_line, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.tui.start.welcome import WelcomeRow

_LOOK_SECONDS: Final = 0.25
_OUTPUT_LINES: Final = 8


class InstallerFailed(ConfigError):
    """An installation that failed, with the last lines of the installer."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


async def install_agent(row: WelcomeRow, folder: str, show: Callable[[str], None]) -> None:
    """Install the agent of a row; cancelled, the installer ends, and nothing is left of it.

    Args:
        row: of an agent that can be installed.
        folder: the folder whose settings count.
        show: called with one line about the progress, several times a second.

    Raises: InstallerFailed.
    """
    started = monotonic()
    # In a terminal of its own: it shows there how far it is, several times a second.
    command = own_command("agents", "install", row.agent, "--yes")
    terminal = Terminal.start(command, cwd=folder, env={**os.environ, "NO_COLOR": "1"}, pty=True)
    waiting = asyncio.ensure_future(terminal.wait())
    try:
        while not waiting.done():
            last = (_lines(terminal.text) or [""])[-1]
            seconds = duration(int(monotonic() - started)).strip()
            show(" · ".join(filter(None, (f"installing {row.title} ({row.state})", seconds, last))))
            _ = await asyncio.wait([waiting], timeout=_LOOK_SECONDS)
    finally:
        waiting.cancel()
        await asyncio.shield(terminal.release())
    if terminal.exit_code != 0:
        lines = _lines(terminal.text)[-_OUTPUT_LINES:]
        raise InstallerFailed(f"{row.title} was not installed", "\n".join(lines))


def _lines(text: str) -> list[str]:
    """Return the lines of an installer; of a line that was written over, what it showed last."""
    lines = (one_line(line).strip().removeprefix("dragoman: ") for line in re.split(r"[\r\n]+", plain(text)))
    return [line for line in lines if line]
