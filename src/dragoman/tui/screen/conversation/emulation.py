"""Screens of terminals whose programs move the cursor, by pyte: imported with the first of them.

A screen is fed what is new, at most ten times a second, and never more than the last 64 KB: a program that redraws
itself faster than that is not read anyway.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from dragoman.text.terminal import plain
from dragoman.view.terminal_lines import needs_screen

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.view.blocks import ShownTerminal
    from dragoman.view.rails import Run

_COLUMNS: Final = 80
_ROWS: Final = 24
_MOST: Final = 64 * 1024
_KEPT: Final = 8
_SECONDS: Final = 0.1
_LOOKED_AT: Final = 100
_SEQUENCE: Final = 32  # characters of the longest sequence that is looked for
_COLOURS: Final = {
    name: number for number, name in enumerate(("black", "red", "green", "brown", "blue", "magenta", "cyan", "white"))
}


class _GuardedScreen:
    """A screen of pyte whose calls cannot fail: pyte passes parameters to it that its methods do not take.

    Programs send such sequences (vim asks with `CSI ? 4 m`), and an error here would end the client.
    """

    def __init__(self, screen: Any) -> None:
        self._screen = screen

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._screen, name)
        if not callable(member):
            return member

        def call(*parameters: Any, **more: Any) -> None:
            with suppress(Exception):  # whatever pyte meets: a terminal ignores a sequence that it does not know
                member(*parameters, **more)

        return call


class _Screen:
    __slots__ = ("at", "fed", "lines", "screen", "stream")

    def __init__(self) -> None:
        import pyte

        self.screen: Any = pyte.Screen(_COLUMNS, _ROWS)
        guarded: Any = _GuardedScreen(self.screen)
        self.stream: Any = pyte.Stream(guarded)
        self.fed = 0
        self.at = 0.0
        self.lines: list[list[Run]] = []


class EmulatedTerminals:
    """The screens of the last terminals that need one."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._screens: OrderedDict[str, _Screen] = OrderedDict()
        self._read: OrderedDict[str, int] = OrderedDict()  # how much of a terminal's output was looked at
        self.is_behind = False
        """Whether a screen was asked for too soon, and shows less than there is."""

    def __call__(self, terminal: ShownTerminal) -> list[list[Run]] | None:
        """Return the lines of a terminal's screen; None for one that writes lines."""
        output = terminal.output or ""
        found = self._screens.get(terminal.terminal_id)
        total = terminal.total or len(output)
        if found is None:
            if not self._needs_screen(terminal.terminal_id, output, total):
                return None
            found = self._screens[terminal.terminal_id] = _Screen()
            while len(self._screens) > _KEPT:
                self._screens.popitem(last=False)
        now = self._clock()
        if total == found.fed:
            return found.lines
        if now - found.at < _SECONDS and found.lines and terminal.exit_code is None:
            self.is_behind = True
            return found.lines
        missing = total - found.fed
        new = output[-missing:] if 0 < missing <= len(output) else output
        found.stream.feed(new[-_MOST:])
        found.fed, found.at = total, now
        found.lines = _rows(found.screen)
        return found.lines

    def _needs_screen(self, id: str, output: str, total: int) -> bool:
        """Return whether what is new moves the cursor; a sequence may have come in two pieces."""
        new = max(0, total - self._read.get(id, 0))
        self._read[id] = total
        self._read.move_to_end(id)
        while len(self._read) > _LOOKED_AT:
            self._read.popitem(last=False)
        return new > 0 and needs_screen(output[-(new + _SEQUENCE) :])


def _rows(screen: Any) -> list[list[Run]]:
    rows: list[list[Run]] = []
    for y in range(_ROWS):
        line, runs = screen.buffer[y], list[tuple[str, str]]()
        for x in range(_COLUMNS):
            cell = line[x]
            letter, style = plain(cell.data), _style(cell)
            if runs and runs[-1][1] == style:
                runs[-1] = (runs[-1][0] + letter, style)
            else:
                runs.append((letter, style))
        while runs and not runs[-1][1] and not runs[-1][0].strip():
            runs.pop()
        rows.append(runs)
    while rows and not rows[-1]:
        rows.pop()
    return rows


def _style(cell: Any) -> str:
    codes = [code for code, name in (("1", "bold"), ("3", "italics"), ("4", "underscore"), ("7", "reverse"), ("9", "strikethrough")) if getattr(cell, name)]  # fmt: skip # noqa: E501
    for name, base in ((cell.fg, 30), (cell.bg, 40)):
        if name in _COLOURS:
            codes.append(str(base + _COLOURS[name]))
        elif name.startswith("bright") and name[6:] in _COLOURS:
            codes.append(str(base + 60 + _COLOURS[name[6:]]))
        elif len(name) == 6 and name != "default":
            try:
                parts = [int(name[at : at + 2], 16) for at in (0, 2, 4)]
            except ValueError:
                continue
            codes.append(f"{base + 8};2;" + ";".join(map(str, parts)))
    return f"sgr:{';'.join(codes)}" if codes else ""
