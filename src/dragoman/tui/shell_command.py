"""A command of the user's own (`!command`): in the session's folder, in the user's shell, never sent to the agent.

It runs on a terminal of its own without a keyboard, in a process group of its own; `process/` promises that nothing of
it outlives the client. Its output is kept as the last lines, made safe, with colours. Does not know a screen.
"""

from __future__ import annotations

import os
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Final

from dragoman.text.output_lines import OutputLines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.process.terminal import Terminal

MOST_LINES: Final = 5_000
_MOST_CHARACTERS: Final = 1 << 20


class ShellCommand:
    """One command, from its start until nothing of it is left."""

    def __init__(self, command: str, changed: Callable[[], None]) -> None:
        self.command = command
        self.ending = ""
        """How it ended, in words: `exit 0`, `stopped`; empty while it runs."""
        self.is_cut = False
        """The beginning of the output is not kept."""
        self.seconds = 0.0
        self._changed = changed
        self._lines: deque[str] = deque()
        self._plain: deque[str] = deque()
        self._characters = 0
        self._coloured = OutputLines(True)
        self._uncoloured = OutputLines(False)
        self._terminal: Terminal | None = None
        self._is_stopped = False

    @property
    def lines(self) -> Sequence[str]:
        """The last lines of the output, with colours."""
        return self._lines

    @property
    def output(self) -> str:
        """The same as plain text."""
        return ("… the beginning is not kept\n" if self.is_cut else "") + "\n".join(self._plain)

    async def run(self, folder: str, columns: int) -> None:
        """Run it to its end; `ending` says how that was. Cancelling this ends the command."""
        from dragoman.errors import DragomanError
        from dragoman.process.terminal import Terminal

        shell = os.environ.get("SHELL") or "/bin/sh"
        env = {**os.environ, "TERM": "xterm-256color", "PAGER": "cat", "GIT_PAGER": "cat"}
        started = monotonic()
        if self.ending:  # it was stopped before it began
            return
        try:
            self._terminal = terminal = Terminal.start(
                [shell, "-c", self.command], cwd=folder, env=env, columns=max(20, columns), on_output=self._read
            )
        except (DragomanError, OSError) as error:
            self.ending = f"not started: {error}"
            self._changed()
            return
        try:
            await terminal.wait()
        finally:
            await terminal.release()
            self._keep(self._coloured.finish(), self._uncoloured.finish())
            self.seconds = monotonic() - started
            self.ending = "stopped" if self._is_stopped else _how(terminal)
            self._changed()

    def stop(self) -> None:
        """End it with everything it started."""
        if self._terminal is None:
            self.ending = self.ending or "stopped"
            self._changed()
        elif not self.ending:
            self._is_stopped = True
            self._terminal.begin_release()

    def _read(self, data: bytes) -> None:
        self._keep(self._coloured.feed(data), self._uncoloured.feed(data))
        self._changed()

    def _keep(self, coloured: Sequence[str], plain: Sequence[str]) -> None:
        self._lines.extend(coloured)
        self._plain.extend(plain)
        self._characters += sum(map(len, coloured))
        while self._lines and (len(self._lines) > MOST_LINES or self._characters > _MOST_CHARACTERS):
            self._characters -= len(self._lines.popleft())
            self.is_cut = True
        while len(self._plain) > len(self._lines):
            self._plain.popleft()


def _how(terminal: Terminal) -> str:
    if terminal.signal is not None:
        return f"ended by {terminal.signal}"
    return f"exit {terminal.exit_code}"
