"""Review: what a turn changed, hunk by hunk, each kept or taken back."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, ClassVar, Final

from dragoman.errors import DragomanError
from dragoman.process.foreground import run_in_foreground
from dragoman.tui.changes.review_lines import SIDES_FROM, review_body, summary_of
from dragoman.tui.changes.review_model import ReviewModel
from dragoman.tui.changes.session_changes import find_changes, turn_number
from dragoman.tui.external import editor_command
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.outside import handed_over
from dragoman.tui.screen.painted import PaintedScreen, head_line, key_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.snapshots.session_turns import SessionTurns
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.view.rails import RailLine

_KEYS: Final = (
    "k/j hunk",
    "J/K file",
    "Space keep",
    "x revert",
    "X file",
    "u undo",
    "e edit",
    "s sides",
    "A keep all",
    "R rewind turn...",
    "[ ] turn",
    "/ search",
    "c comment to agent",
    "q back",
)
# Editors that take `+LINE` before the file.
_TAKES_LINE: Final = frozenset(
    ["vi", "vim", "nvim", "view", "nano", "emacs", "emacsclient", "micro", "kak", "joe", "ne"]
)


def review_turn(app: TerminalApp, argument: str = "") -> None:
    """Review what a turn changed: the last one, or the one with a number."""
    app.start(_review(app, argument))


async def _review(app: TerminalApp, argument: str) -> None:
    session_turns = await find_changes(app.conversation)
    _ = app.push_screen(ReviewScreen(app, session_turns, turn_number(session_turns, argument)))


class ReviewScreen(PaintedScreen):
    """The files and hunks of a turn."""

    KEYS: ClassVar[dict[str, str]] = {
        "j": "next_hunk",
        "down": "next_hunk",
        "k": "previous_hunk",
        "up": "previous_hunk",
        "J": "next_file",
        "K": "previous_file",
        "pagedown": "page_down",
        "pageup": "page_up",
        "space": "keep",
        "x": "revert",
        "X": "revert_file",
        "u": "undo",
        "e": "edit",
        "s": "sides",
        "A": "keep_all",
        "R": "rewind",
        "[": "earlier",
        "]": "later",
        "/": "search",
        "n": "again",
        "N": "back_again",
        "c": "comment",
        "right": "shift",
        "left": "unshift",
        "q": "leave",
        "escape": "leave",
    }

    def __init__(self, app: TerminalApp, session_turns: SessionTurns, turn: int) -> None:
        super().__init__(app)
        self.model = ReviewModel(session_turns, turn)
        self._has_sides: bool | None = None
        self._shift = 0
        self._scroll = 0
        self._wanted = ""

    def opened(self) -> None:
        self._load(self.model.turn)

    def lines_of(self, width: int, height: int) -> Sequence[RailLine]:
        model = self.model
        foot = self.foot(width, *key_rows(width, _KEYS))
        state = "reading..." if self.is_busy else f"{len(model.notes)} notes" if model.notes else "snapshot ok"
        body = review_body(
            model,
            width,
            max(1, height - 1 - len(foot)),
            self.terminal.glyphs,
            has_sides=self._shows_sides(width),
            shift=self._shift,
            scroll=self._scroll,
        )
        return [head_line(f"review · {summary_of(model)}", state, width), *body, *foot]

    def _shows_sides(self, width: int) -> bool:
        return width >= SIDES_FROM if self._has_sides is None else self._has_sides

    def _load(self, turn: int) -> None:
        def load() -> None:
            self.model.load(turn)

        self.work(load)

    def _then_read(self) -> None:
        """Read the lines of the file that is chosen by now."""
        row, self._scroll = self.model.row, 0
        if row is not None and row.rows is None:
            self.work(self.model.read_rows)

    # Keys

    def do_next_hunk(self) -> None:
        self.model.move_hunk(1)
        self._then_read()

    def do_previous_hunk(self) -> None:
        self.model.move_hunk(-1)
        self._then_read()

    def do_next_file(self) -> None:
        self.model.move_file(1)
        self._then_read()

    def do_previous_file(self) -> None:
        self.model.move_file(-1)
        self._then_read()

    def do_page_down(self) -> None:
        """Scroll a hunk that is longer than the screen."""
        self._scroll += max(1, self.size.height - 6)

    def do_page_up(self) -> None:
        self._scroll -= max(1, self.size.height - 6)

    def do_keep(self) -> None:
        self._decide(self.model.keep)

    def do_keep_all(self) -> None:
        self._decide(self.model.keep_all)

    def do_revert(self) -> None:
        self._decide(self.model.revert)

    def do_revert_file(self) -> None:
        self._decide(lambda: self.model.revert(is_file=True))

    def do_undo(self) -> None:
        self._decide(self.model.undo)

    def _decide(self, decide: object) -> None:
        """Write a decision about what is on the screen, unless another is being written: the screen is old then."""
        if self.is_busy:
            self.message = "not done: the last key is still being worked on"
            return

        def job() -> str:
            assert callable(decide)
            result = str(decide())
            self.model.read_rows()
            return result

        self.work(job)

    def do_earlier(self) -> None:
        self._turn(-1)

    def do_later(self) -> None:
        self._turn(1)

    def _turn(self, step: int) -> None:
        turn = self.model.turn + step
        if 1 <= turn <= len(self.model.session_turns.turns):
            self._load(turn)
        else:
            self.message = "there is no other turn in this direction"

    def do_sides(self) -> None:
        self._has_sides = not self._shows_sides(self.size.width)

    def do_shift(self) -> None:
        self._shift += 8

    def do_unshift(self) -> None:
        self._shift = max(0, self._shift - 8)

    def do_search(self) -> None:
        self.ask("search", self._search)

    def _search(self, text: str) -> None:
        self._wanted = text
        self.do_again()

    def do_again(self, step: int = 1) -> None:
        self.message = "" if self.model.search(self._wanted, step) else f"not found: {self._wanted}"
        self._then_read()

    def do_back_again(self) -> None:
        self.do_again(-1)

    def do_comment(self) -> None:
        """Quote the hunk in the input, behind what is there."""
        if self.model.row is None:
            self.message = "nothing changed in this turn"
            return
        text = self.model.comment()
        self.leave()
        field = self.terminal.screen_stack[0].query_one(PromptInput)
        field.text = f"{field.text.rstrip()}\n\n{text}" if field.text.strip() else text
        field.move_cursor(field.document.end)
        field.focus()

    def do_edit(self) -> None:
        """Open the file in the user's editor, and look again at what was decided."""
        row = self.model.row
        if row is None or self.is_busy:
            return
        from dragoman.tui.screen.changes.review import edit_file

        hunks, place = row.file.hunks, row.place
        line = hunks[self.model.hunk].after_line if hunks else 1

        async def edit() -> str:
            result = await edit_file(self.terminal, place, line)
            await asyncio.to_thread(self.model.load, self.model.turn)
            return result

        self.wait_for(edit)

    def do_rewind(self) -> None:
        """Show what taking back this turn would do."""
        from dragoman.tui.screen.changes.rewind import RewindScreen

        def back(_: object) -> None:
            self._load(self.model.turn)

        _ = self.terminal.push_screen(RewindScreen(self.terminal, self.model.session_turns, only=self.model.turn), back)


async def edit_file(app: TerminalApp, path: str, line: int = 1) -> str:
    """Let the user edit a file; returns the result as a sentence."""
    try:
        command = _command(path, line)
        with handed_over(app):
            code = await run_in_foreground(command)
    except DragomanError as error:
        return f"not done: {error}"
    return "" if code == 0 else f"{command[0]} ended with exit code {code}"


def _command(path: str, line: int) -> list[str]:
    """Raises: DragomanError, if there is no such file or no editor."""
    if not os.path.isfile(path):
        raise DragomanError(f"{path} is not there any more")
    words = editor_command(os.environ)
    place = [f"+{line}"] if os.path.basename(words[0]) in _TAKES_LINE else []
    return [*words, *place, os.path.abspath(path)]
