"""A list to choose from that fills the screen: typing filters it, Enter chooses, Esc goes back.

Letters only ever filter: what else can be done with a row is on keys that type nothing (Ctrl+N, F5), which the last
line names. All text goes through the strips of the screen, where nothing acts on the terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from textual.binding import Binding
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget

from dragoman.text.terminal import cells, clip
from dragoman.tui.screen.parts import LeftOnce
from dragoman.tui.screen.strips import strip_of
from dragoman.view.rails import UNICODE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from textual import events
    from textual.app import ComposeResult

    from dragoman.tui.values import ListedSession
    from dragoman.view.rails import Glyphs, RailLine


class PickRow(NamedTuple):
    """One row of a list."""

    line: RailLine
    value: Any = None
    search: str = ""
    """What the filter looks in."""
    is_heading: bool = False
    is_current: bool = False
    """The list opens with this row selected."""


class Picker(LeftOnce[Any], ModalScreen[Any]):
    """A list that fills the screen."""

    DEFAULT_CSS = """
    Picker { background: $background; }
    Picker:ansi { background: ansi_default; }
    """
    BINDINGS: ClassVar[list[Any]] = [Binding("tab", "nothing", show=False)]

    def __init__(
        self,
        title: str,
        rows: Sequence[PickRow],
        *,
        right: str = "",
        footer: str = "type to filter · Enter choose · Esc back",
        glyphs: Glyphs = UNICODE,
        commands: Mapping[str, Callable[[Any], None]] | None = None,
        choose: Callable[[Any], None] | None = None,
    ) -> None:
        """Make a list.

        Args:
            title: at the left of the first line.
            rows: what can be chosen, with headings.
            right: at the right of the first line.
            footer: what can be done, with ` · ` between the parts; the last ones are left out where there is no room.
            glyphs: the characters of marks.
            commands: what a key, such as `ctrl+n`, does with the value of the selected row (None if there is no row).
            choose: what Enter does with a value; by default the list is left with it.
        """
        super().__init__()
        self.list = PickList(self, rows, glyphs)
        self.heading, self.right, self.footer = title, right, footer
        self.commands = dict(commands or {})
        self._choose = choose
        self._confirming: tuple[str, Callable[[], None]] | None = None
        self.problem = ""

    def compose(self) -> ComposeResult:
        yield self.list

    def on_mount(self) -> None:
        self.list.focus()

    def set_rows(self, rows: Sequence[PickRow]) -> None:
        """Show other rows; the selected value stays selected if it is among them."""
        self.list.set_rows(rows)

    def show_sessions(self, rows: Sequence[ListedSession]) -> None:
        """Show the sessions that the host has by now; only a list of sessions does."""

    def is_same(self, one: Any, other: Any) -> bool:
        """Return whether two values are the same thing, of which one may be newer."""
        return bool(one == other)

    def leave(self) -> None:
        """Close the list, as Ctrl+D does."""
        _ = self.dismiss(None)

    def choose(self, value: Any) -> None:
        """Do what Enter does."""
        if self._choose is None:
            _ = self.dismiss(value)
        else:
            self._choose(value)

    def confirm(self, question: str, act: Callable[[], None]) -> None:
        """Ask for a `y` before something is done."""
        self._confirming = (question, act)
        self.list.refresh()

    def answered(self, key: str | None) -> bool:
        """Take a key as the answer to a question; False if none is open."""
        if self._confirming is None:
            return False
        _, act = self._confirming
        self._confirming = None
        if key == "y":
            act()
        self.list.refresh()
        return True

    def foot(self) -> str:
        """Return the last line."""
        if self._confirming is not None:
            return f"{self._confirming[0]} y: yes, any other key: no"
        return self.problem or self.footer

    def action_nothing(self) -> None:
        """Keep the keyboard where it is."""


class PickList(Widget, can_focus=True):
    """The rows, and what keys do with them."""

    DEFAULT_CSS = "PickList { height: 1fr; width: 1fr; }"

    def __init__(self, picker: Picker, rows: Sequence[PickRow], glyphs: Glyphs) -> None:
        super().__init__()
        self._picker = picker
        self._rows = list(rows)
        self._glyphs = glyphs
        self.filter = ""
        self._top = 0
        self._shown = self._filtered()
        current = next((place for place, row in enumerate(self._shown) if row.is_current), None)
        self._at = self._first() if current is None else current

    # Reading

    @property
    def selected(self) -> PickRow | None:
        """The row that Enter would choose."""
        row = self._shown[self._at] if 0 <= self._at < len(self._shown) else None
        return None if row is None or row.is_heading else row

    def set_rows(self, rows: Sequence[PickRow]) -> None:
        before = self.selected
        self._rows = list(rows)
        self._shown = self._filtered()
        same = [
            place
            for place, row in enumerate(self._shown)
            if before is not None and not row.is_heading and self._picker.is_same(row.value, before.value)
        ]
        self._at = same[0] if same else min(self._at, len(self._shown) - 1)
        self._step(0)
        self.refresh()

    # Keys

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        picker, key, letter = self._picker, event.key, event.character
        picker.problem = ""
        if picker.answered(letter):
            return
        command = picker.commands.get(key)
        if command is not None:
            row = self.selected
            command(None if row is None else row.value)
        elif not self._move(key):
            if key == "escape":
                self._escape()
            elif key == "enter":
                row = self.selected
                if row is not None:
                    picker.choose(row.value)
            elif key == "backspace":
                self.set_filter(self.filter[:-1])
            elif key == "ctrl+u":
                self.set_filter("")
            elif key == "ctrl+d" and not self.filter:
                picker.leave()
            elif event.is_printable and letter is not None:
                self._type(letter)
        self.refresh()

    def _move(self, key: str) -> bool:
        page = max(1, self.size.height - 3)
        steps = {"up": -1, "down": 1, "pageup": -page, "pagedown": page, "ctrl+p": -1, "ctrl+n": 1}
        if key in steps:
            self._step(steps[key])
        elif key in ("home", "end"):
            self._at = 0 if key == "home" else len(self._shown) - 1
            self._step(0)
        else:
            return False
        return True

    def _escape(self) -> None:
        if self.filter:
            self.set_filter("")
        else:
            _ = self._picker.dismiss(None)

    def _type(self, letter: str) -> None:
        if self.filter or letter not in "/ ":  # neither begins a filter
            self.set_filter(self.filter + letter)

    def set_filter(self, text: str) -> None:
        """Show the rows that have all words of a text."""
        self.filter = text
        self._shown = self._filtered()
        self._at, self._top = self._first(), 0

    def _filtered(self) -> list[PickRow]:
        words = self.filter.casefold().split()
        if not words:
            return list(self._rows)
        rows: list[PickRow] = []
        heading: PickRow | None = None
        for row in self._rows:
            if row.is_heading:
                heading = row
            elif all(word in row.search.casefold() for word in words):
                if heading is not None:
                    rows.append(heading)
                    heading = None
                rows.append(row)
        return rows

    def _first(self) -> int:
        return next((place for place, row in enumerate(self._shown) if not row.is_heading), 0)

    def _step(self, step: int) -> None:
        """Move by some rows, and past headings in the same direction, or back if there is nothing."""
        if not self._shown:
            self._at = 0
            return
        place = min(max(0, self._at + step), len(self._shown) - 1)
        for direction in (1 if step >= 0 else -1, -1 if step >= 0 else 1):
            at = place
            while 0 <= at < len(self._shown):
                if not self._shown[at].is_heading:
                    self._at = at
                    return
                at += direction

    # Drawing

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        if y == 0:
            return strip_of(self._title(width), width)
        if y == height - 1:
            return strip_of(((f" {_fitting(self._picker.foot(), width - 2)}", "dim"),), width)
        rows = max(1, height - 2)
        if self._at < self._top:
            self._top = self._at
        elif self._at >= self._top + rows:
            self._top = self._at - rows + 1
        if self._at == self._first():
            self._top = 0  # with its heading
        place = self._top + y - 1
        if place >= len(self._shown):
            nothing = not self._shown and y == 1
            return (
                strip_of((("  nothing is like that" if self.filter else "  nothing is here", "dim"),), width)
                if (nothing)
                else Strip.blank(width)
            )
        row = self._shown[place]
        if row.is_heading:
            return strip_of(row.line, width)
        is_selected = place == self._at
        mark = f"{self._glyphs.you if is_selected else ' '} "
        line = tuple((text, "bold" if is_selected and style in ("", "dim") else style) for text, style in row.line)
        return strip_of(((mark, "user"), *line), width)

    def _title(self, width: int) -> RailLine:
        right = f"{self._picker.right} " if self._picker.right else ""
        room = max(1, width - cells(right) - 1)
        # What is typed stays in sight, however long the heading is.
        typed = clip(f" · filter: {self.filter}_", max(1, room * 2 // 3)) if self.filter else ""
        left = clip(f" {self._picker.heading}", max(1, room - cells(typed))) + typed
        return ((left, "bold"), (" " * max(1, width - cells(left) - cells(right)), ""), (right, "dim"))


def _fitting(text: str, width: int) -> str:
    """Return the parts of a last line that have room, the first ones first: none is cut in its middle."""
    parts = text.split(" · ")
    while len(parts) > 1 and cells(" · ".join(parts)) > width:
        parts.pop()
    return clip(" · ".join(parts), width)
