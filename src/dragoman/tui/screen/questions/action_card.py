"""The card of everything that is not a permission: a form or a page that waits, a login, a failure.

It shows one sheet at a time. Its keys count only in the card, and only when it was in sight for a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.text.terminal import cells, clip
from dragoman.tui.screen.questions.card import CardView
from dragoman.view.rails import by_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.tui.screen.app import TerminalApp


class SheetKey(NamedTuple):
    """Something that a key does."""

    key: str
    text: str
    """What is shown; empty if the lines say it."""
    run: Callable[[TerminalApp], None]


class CardSheet(NamedTuple):
    """What the card shows."""

    subject: object
    """What it is about; another subject is another sheet."""
    lines: Callable[[int], Sequence[str]]
    """The lines for a width."""
    keys: Sequence[SheetKey]
    is_bad: bool = False


class ActionCard(CardView):
    """Shows one sheet."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.sheet: CardSheet | None = None

    def show(self, sheet: CardSheet | None) -> None:
        """Show a sheet, or none."""
        known = self.sheet
        if sheet is None and known is None:
            return
        if sheet is not None and known is not None and sheet.subject is known.subject:
            if [key.text for key in sheet.keys] != [key.text for key in known.keys]:
                self.sheet = sheet
                self.adapt()
            self.sheet = sheet
            return
        self.sheet = sheet
        self.display = sheet is not None
        self.begin()

    @property
    def is_empty(self) -> bool:
        return self.sheet is None

    def lay_out(self) -> None:
        if self.sheet is None:
            self.body, self.foot = [], []
            return
        width, glyphs = self.columns(), self.glyphs
        sign = glyphs.failed if self.sheet.is_bad else glyphs.needs_you
        lines = [part for line in self.sheet.lines(width) for part in _fitted(line, width)]
        self.body = self.railed(lines, sign, style="bad" if self.sheet.is_bad else "warn")
        keys = _rows([f"[{key.key}] {key.text}" for key in self.sheet.keys if key.text], width - 2)
        self.foot = [((f"{glyphs.agent} {line}", ""),) for line in keys]

    def how(self) -> str:
        return "type a key" if self.has_focus else "Tab, then a key"

    def press(self, key: str, read_at: float) -> SheetKey | None:
        """Return what a key does, if it counts; `problem` says why not."""
        if self.sheet is None:
            return None
        found = next((sheet_key for sheet_key in self.sheet.keys if sheet_key.key == key), None)
        if found is not None and not self.is_settled(read_at):
            self.problem = "that was too soon: read it first"
            self.refresh()
            return None
        return found


def _fitted(line: str, width: int) -> list[str]:
    lead = line[: len(line) - len(line.lstrip(" "))]
    return [part if not number else f"{lead}{part}" for number, part in enumerate(by_words(line, width - 2))] or [""]


def _rows(texts: Sequence[str], width: int) -> list[str]:
    """Texts next to each other, as many as a line has room for."""
    found: list[str] = []
    for text in texts:
        if found and cells(found[-1]) + cells(text) + 3 <= width:
            found[-1] += f"   {text}"
        else:
            found.append(clip(text, width))
    return found
