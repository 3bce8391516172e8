"""Writing files from the screen: the session as a document, and a report for a bug with a preview of its parts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar, Final

from dragoman.errors import DragomanError
from dragoman.text.terminal import fit, plain, size
from dragoman.text.visible import label
from dragoman.tui.reporting.exporting import ExportWish, export_session, report_parts
from dragoman.tui.reporting.private_file import FileExists, file_place, write_private
from dragoman.tui.screen.painted import PaintedScreen, head_line, key_rows
from dragoman.tui.screen.parts import Choice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.trace.bug_report import ReportPart
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.view.rails import RailLine, Style

_KEYS: Final = ("k/j part", "J/K scroll", "w write the file", "q back")


def export(app: TerminalApp, argument: str = "") -> None:
    """Write the session to a file: /export md|html|json [FILE]."""
    app.start(_export(app, argument))


async def _export(app: TerminalApp, argument: str) -> None:
    wish = ExportWish(argument, app.conversation)
    try:
        app.note(await export_session(app.conversation, wish))
    except FileExists:

        def answered(chosen: int | None) -> None:
            if chosen == 1:
                app.start(_replace(app, wish))
            else:
                app.note("nothing was written")

        rows = ["keep it, write nothing", "replace it"]
        _ = app.push_screen(Choice(f"{label(wish.path, 60)} is there already", rows), answered)
    except OSError as error:
        app.note(f"not written: {wish.path}: {error.strerror or error}")


async def _replace(app: TerminalApp, wish: ExportWish) -> None:
    try:
        app.note(await export_session(app.conversation, wish, replaces=True))
    except OSError as error:
        app.note(f"not written: {wish.path}: {error.strerror or error}")


def report(app: TerminalApp, argument: str = "") -> None:
    """Show what a report for a bug would hold, and write it."""
    app.start(_report(app))


async def _report(app: TerminalApp) -> None:
    _ = app.push_screen(ReportScreen(app, await report_parts(app.conversation)))


def save_file(screen: PaintedScreen, what: str, name: str, build: Callable[[], bytes]) -> None:
    """Ask where to, and write what is built there; a file that is there is replaced only after a second question."""

    def write(path: str, *, replaces: bool) -> None:
        def job() -> str:
            try:
                write_private(path, build(), replaces=replaces)
            except OSError as error:
                raise DragomanError(f"{path}: {error.strerror or error}") from None
            return f"wrote {path} ({size(os.stat(path).st_size)} bytes, readable by you only)"

        screen.work(job)

    def take(text: str) -> None:
        if not text.strip():
            screen.message = "nothing was written"
            return
        path = file_place(text, screen.terminal.conversation.folder)
        if not os.path.lexists(path):
            write(path, replaces=False)
            return

        def confirmed(answer: str) -> None:
            if answer.strip().lower() == "yes":
                write(path, replaces=True)
            else:
                screen.message = "nothing was written"

        screen.ask(f"{label(path, 50)} is there; replace it? yes or no", confirmed)

    screen.ask(what, take, name)


class ReportScreen(PaintedScreen):
    """The parts of a report, and what is in the chosen one."""

    KEYS: ClassVar[dict[str, str]] = {
        "j": "down",
        "down": "down",
        "k": "up",
        "up": "up",
        "J": "scroll_down",
        "pagedown": "scroll_down",
        "K": "scroll_up",
        "pageup": "scroll_up",
        "w": "write",
        "q": "leave",
        "escape": "leave",
    }

    def __init__(self, app: TerminalApp, parts: Sequence[ReportPart]) -> None:
        super().__init__(app)
        self.parts = parts
        self.at = 0
        self._scroll = 0
        self.message = "nothing is written or sent yet: look at the parts, then w writes the file"

    def lines_of(self, width: int, height: int) -> Sequence[RailLine]:
        foot = self.foot(width, *key_rows(width, _KEYS))
        total = f"{size(sum(len(part.data) for part in self.parts))} bytes"
        lines: list[RailLine] = [head_line(f"report · {len(self.parts)} parts, without private contents", total, width)]
        for at, part in enumerate(self.parts):
            is_chosen = at == self.at
            mark = self.terminal.glyphs.you if is_chosen else " "
            style: Style = "bold" if is_chosen else ""
            text = f"{fit(part.name, 22)} {size(len(part.data)):>6}  {label(part.what, 200)}"
            lines.append(((f"{mark} ", "user"), (fit(text, width - 2), style)))
        lines.append((("─" * width, "dim"),))
        room = max(1, height - len(lines) - len(foot))
        text = self.parts[self.at].data[:200_000].decode(errors="replace")
        shown = plain(text).expandtabs(4).splitlines()
        self._scroll = max(0, min(self._scroll, len(shown) - room))
        lines += [((fit(f" {line}", width), "dim"),) for line in shown[self._scroll : self._scroll + room]]
        blank: RailLine = ((" " * width, ""),)
        lines += [blank] * (height - len(lines) - len(foot))
        return [*lines[: height - len(foot)], *foot]

    def do_down(self) -> None:
        self._move(1)

    def do_up(self) -> None:
        self._move(-1)

    def _move(self, step: int) -> None:
        self.at, self._scroll = min(max(0, self.at + step), len(self.parts) - 1), 0

    def do_scroll_down(self) -> None:
        self._scroll += 5

    def do_scroll_up(self) -> None:
        self._scroll -= 5

    def do_write(self) -> None:
        from dragoman.trace.bug_report import report_name, zip_of

        name = report_name(self.terminal.conversation.session_id or "")
        save_file(self, "write the report to", name, lambda: zip_of(self.parts))
