"""Rewind: the turns of the session, what taking them back would change, and a question before it happens.

It opens on "now", and only `y` after a plan was shown changes anything. The conversation of the agent stays as it is:
files only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dragoman.errors import DragomanError
from dragoman.text.terminal import cells, fit
from dragoman.text.visible import label, spelled
from dragoman.tui.changes.rewind_model import RewindModel, rewind_title
from dragoman.tui.changes.session_changes import find_changes, places_taken_back, turn_number
from dragoman.tui.screen.conversation.transcript import Transcript
from dragoman.tui.screen.painted import PaintedScreen, head_line, key_rows
from dragoman.view.labels import age_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.snapshots.rewind import Choice
    from dragoman.snapshots.session_turns import SessionTurns
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.view.rails import RailLine, Style

_LIST_KEYS: Final = ("k/j turn", "Enter the plan", "r redo", "d review this turn", "q back")
_PLAN_KEYS: Final = ("k/j path", "t take the old state", "m merge", "Space keep", "y do it", "q not now")
_STYLES: Final[dict[str, Style]] = {"delete": "removed", "restore": "added", "merge": "added", "keep": "warn"}


async def show_taken_back(app: TerminalApp) -> None:
    """Mark the turns of the conversation that are taken back now."""
    conversation = app.conversation
    try:
        found = await find_changes(conversation)
        places = await asyncio.to_thread(places_taken_back, conversation, found)
    except (DragomanError, OSError):  # there are no snapshots, or the host has gone
        return
    if conversation is app.conversation:
        app.query_one(Transcript).mark_taken_back(places)
        app.changed()


def rewind_menu(app: TerminalApp, argument: str = "") -> None:
    """Show the turns to rewind to."""
    app.start(_menu(app, argument))


def redo_menu(app: TerminalApp, argument: str = "") -> None:
    """Show what bringing back the last rewind would do."""
    app.start(_menu(app, "", is_redo=True))


async def _menu(app: TerminalApp, argument: str, *, is_redo: bool = False) -> None:
    found = await find_changes(app.conversation)
    first = turn_number(found, argument) if argument.strip() else None
    _ = app.push_screen(RewindScreen(app, found, first=first, is_redo=is_redo))


class RewindScreen(PaintedScreen):
    """The list of turns, and below it the plan."""

    KEYS: ClassVar[dict[str, str]] = {
        "j": "down",
        "down": "down",
        "k": "up",
        "up": "up",
        "enter": "enter",
        "y": "confirm",
        "t": "take",
        "m": "merge",
        "space": "keep",
        "r": "redo",
        "d": "review",
        "q": "leave",
        "escape": "leave",
    }

    def __init__(
        self,
        app: TerminalApp,
        session_turns: SessionTurns,
        *,
        only: int | None = None,
        first: int | None = None,
        is_redo: bool = False,
    ) -> None:
        super().__init__(app)
        self.model = RewindModel(session_turns, only=only)
        self.is_planning = False
        """The plan has the keys, and `y` does it."""
        self._first = first
        self._path = 0
        self._starts_with_redo = is_redo

    def opened(self) -> None:
        def load() -> None:
            if self._first is not None:
                self.model.at = self._first - 1
            self.model.load()
            if self._starts_with_redo:
                self.model.read_redo()
                self.is_planning = True

        self.work(load)

    def leave(self, result: Any = None) -> None:
        super().leave(result)
        self.terminal.start(show_taken_back(self.terminal))

    # Drawing

    def lines_of(self, width: int, height: int) -> Sequence[RailLine]:
        model = self.model
        foot = self.foot(width, *key_rows(width, _PLAN_KEYS if self.is_planning else _LIST_KEYS))
        room = max(2, height - 1 - len(foot))
        above = max(1, min(len(model.rows) + 1, room // 2))
        state = "reading..." if self.is_busy else "files only"
        count = f"{len(model.rows)} turn{'s' if len(model.rows) != 1 else ''}"
        return [
            head_line(f"rewind · {count} · nothing changes before you say y", state, width),
            *self._turns(width, above),
            *self._plan(width, room - above),
            *foot,
        ]

    def _turns(self, width: int, height: int) -> list[RailLine]:
        model, glyphs = self.model, self.terminal.glyphs
        places: list[int | None] = [*range(len(model.rows)), None]
        chosen = len(model.rows) if model.at is None else model.at
        start = min(max(0, chosen - height // 2), max(0, len(places) - height))
        lines: list[RailLine] = []
        for place in places[start : start + height]:
            is_chosen = place == model.at and not model.is_redo
            mark = glyphs.you if is_chosen else " "
            style: Style = "bold" if is_chosen and not self.is_planning else ""
            if place is None:
                lines.append(((f"{mark} ", "user"), (fit("now", width - 2), style)))
                continue
            row = model.rows[place]
            files = f"{row.files} path{'s' if row.files != 1 else ''}" if row.files else "nothing changed"
            state = files if row.is_active or not row.files else "taken back"
            when = age_text(row.age_seconds)
            left = f"{row.number:>4}  {fit(when, 12)} {fit(state, 16)} "
            prompt = label(row.prompt, max(10, width - 2 - cells(left)), "(no text)")
            lines.append(((f"{mark} ", "user"), (left, "dim"), (prompt, style)))
        return lines

    def _plan(self, width: int, height: int) -> list[RailLine]:
        model = self.model
        lines: list[RailLine] = [(("─" * width, "dim"),), ((f" {rewind_title(model)}", "bold"),)]
        commands = [command.name for command in self.terminal.conversation.state.commands]
        if "rewind" in commands:
            text = " the conversation stays; the agent's own command /rewind goes back in it"
            lines.append(((fit(text, width), "dim"),))
        lines += [((fit(f" ! {label(note, width)}", width), "warn"),) for note in model.notes[:3]]
        paths = model.paths
        if model.at is not None and not paths and not self.is_busy:
            lines.append((("   change nothing: everything is as it was before", "dim"),))
        room = max(1, height - len(lines))
        start = min(max(0, self._path - room // 2), max(0, len(paths) - room))
        for at, row in enumerate(paths[start : start + room], start):
            word = model.word(row)
            is_chosen = self.is_planning and at == self._path
            mark = self.terminal.glyphs.you if is_chosen else " "
            path = spelled(row.path)
            why = f"  {label(row.planned.reason, 200)}" if row.planned.reason else ""
            rest = fit(f"{path}{why}", max(10, width - 12))
            lines.append(
                ((f"{mark} ", "user"), (f"{word:<9} ", _STYLES.get(word, "")), (rest, "bold" if is_chosen else ""))
            )
        blank: RailLine = ((" " * width, ""),)
        return [*lines[:height], *[blank] * (height - len(lines))]

    # Keys

    def do_down(self) -> None:
        self._move(1)

    def do_up(self) -> None:
        self._move(-1)

    def _move(self, step: int) -> None:
        if self.is_planning:
            self._path = min(max(0, self._path + step), max(0, len(self.model.paths) - 1))
            return
        if self.is_busy:
            return
        rows = len(self.model.rows)
        place = min(max(0, (rows if self.model.at is None else self.model.at) + step), rows)
        self.model.at = None if place == rows else place
        self._path, self.message = 0, ""
        self.work(self.model.read_plan)

    def do_enter(self) -> None:
        """Go from the list into the plan."""
        if self.is_busy or self.is_planning:
            return
        if self.model.at is None:
            self.message = "this is now: choose a turn above to take it back, with everything after it"
        elif not self.model.plans:
            self.message = "there is nothing left to take back"
        else:
            self.is_planning = True
            self.message = f"y changes {self.model.count} paths; everything else stays as it is"

    def do_take(self) -> None:
        self._choose("take")

    def do_merge(self) -> None:
        self._choose("merge")

    def do_keep(self) -> None:
        self._choose("keep")

    def _choose(self, choice: Choice) -> None:
        paths = self.model.paths
        if self.is_planning and self._path < len(paths) and not self.is_busy:
            self.message = self.model.choose(paths[self._path], choice) or f"y changes {self.model.count} paths"

    def do_confirm(self) -> None:
        if not self.is_planning or self.is_busy:
            return
        if self.terminal.conversation.is_running:
            self.message = "not done: a turn runs; stop it first (Esc in the conversation)"
            return
        self.is_planning = False
        self.work(self.model.apply)

    def do_redo(self) -> None:
        if self.is_busy or self.is_planning:
            return

        def read() -> str:
            self.model.read_redo()
            self.is_planning, self._path = True, 0
            return f"y changes {self.model.count} paths"

        self.work(read)

    def do_review(self) -> None:
        if self.is_planning or self.is_busy:
            return
        from dragoman.tui.screen.changes.review import ReviewScreen

        turn = len(self.model.rows) if self.model.at is None else self.model.at + 1

        def back(_: object) -> None:
            self.work(self.model.load)

        if turn:
            _ = self.terminal.push_screen(ReviewScreen(self.terminal, self.model.session_turns, turn), back)

    def do_leave(self) -> None:
        if not self.is_planning:
            self.leave()
            return
        self.is_planning = False
        self.message = "nothing was changed"
        if self.model.only is not None:
            self.leave()
        elif self.model.is_redo:
            self.work(self.model.read_plan)
