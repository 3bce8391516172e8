"""The welcome on the full screen: rows to choose from, the installation of an agent, and the way to a key.

It opens by itself if nothing is set up, and with `/agents`. Enter takes the marked row, a digit or letter its own. Keys
that come before the rows were in sight for a moment choose nothing: they were typed for something else. What there is
comes from `tui/start/welcome.py`. Loaded when it is shown.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget

from dragoman._version import __version__
from dragoman.errors import ConfigError, DragomanError
from dragoman.text.terminal import cells, clip, one_line
from dragoman.text.visible import wrapped
from dragoman.tui.background import in_turn
from dragoman.tui.screen.frame import short_folder
from dragoman.tui.screen.parts import LeftOnce
from dragoman.tui.screen.strips import strip_of
from dragoman.tui.start.welcome import (
    INTRODUCTION,
    SETTLED_SECONDS,
    ChosenAgent,
    Welcome,
    WelcomeRow,
    chosen_of,
    look,
    row_line,
    signs_of,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from textual import events
    from textual.app import ComposeResult

    from dragoman.builtin.models.providers import Provider
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.view.rails import RailLine


class WelcomeScreen(LeftOnce[ChosenAgent | None], ModalScreen[ChosenAgent | None]):
    """What is on this machine, to choose from; left with the agent that was chosen."""

    DEFAULT_CSS = """
    WelcomeScreen { background: $background; }
    WelcomeScreen:ansi { background: ansi_default; }
    """
    BINDINGS: ClassVar[list[Any]] = [Binding("tab", "nothing", show=False)]
    takes_interrupt = True

    def __init__(self, app: TerminalApp, *, is_first: bool) -> None:
        super().__init__()
        self._app = app
        self.is_first = is_first
        """Nothing is behind it: without a choice the client is left."""
        self.rows = WelcomeRows(self)
        self._working: asyncio.Task[None] | None = None

    def compose(self) -> ComposeResult:
        yield self.rows

    def on_mount(self) -> None:
        self.rows.focus()
        self.begin(self._look())

    # Work: one piece at a time

    @property
    def is_working(self) -> bool:
        """Whether something that was chosen is still done: an installation, a question to a server."""
        return self._working is not None and not self._working.done()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something while the rows stay in sight; what goes wrong is shown below them."""

        async def guarded() -> None:
            try:
                await work
            except (DragomanError, OSError) as error:
                self.rows.report(str(error), getattr(error, "output", ""))

        self._working = asyncio.ensure_future(guarded())

    async def _look(self, *, stored: str = "") -> None:
        """Look at this machine; with the provider whose key was just stored, go on with its row."""
        found = await in_turn(look, self._app.conversation.folder)
        self.rows.show(found)
        new = [row for row in found.rows if stored and stored in (row.provider, row.model.partition(":")[0])]
        if new:
            _ = self.dismiss(await chosen_of(new[0]))

    def again(self) -> None:
        """Look at this machine again."""
        self.rows.note = "looking again"
        self.begin(self._look())

    # Choosing

    def choose(self, row: WelcomeRow) -> None:
        """Do what a row stands for."""
        if row.kind == "key":
            self._ask_key()
        elif row.kind == "demo":
            self.begin(self._play())
        elif row.kind == "install" and not row.problem:
            self.begin(self._install(row))
        else:
            self.begin(self._take(row))

    async def _take(self, row: WelcomeRow) -> None:
        if row.provider:
            self.rows.note = f"asking {row.name} for its models"
        _ = self.dismiss(await chosen_of(row))

    def _ask_key(self) -> None:
        """Let the user type a key; one that is stored is begun with."""
        from dragoman.tui.screen.questions.key_entry import KeyEntry, ProviderChoice

        def entered(provider: Provider, is_stored: bool | None) -> None:
            if is_stored:
                self.begin(self._look(stored=provider.id))

        def chosen(provider: Provider | None) -> None:
            if provider is not None:
                _ = self._app.push_screen(KeyEntry(provider), lambda is_stored: entered(provider, is_stored))

        _ = self._app.push_screen(ProviderChoice(), chosen)

    async def _play(self) -> None:
        """Give the terminal to the demo, which has a folder and a home of its own. Raises: DragomanError."""
        from dragoman.process.foreground import run_in_foreground
        from dragoman.process.own_program import own_command
        from dragoman.tui.screen.outside import handed_over

        with handed_over(self._app):
            _ = await run_in_foreground(own_command("demo", "--talk"))
        self.rows.refresh()

    async def _install(self, row: WelcomeRow) -> None:
        """Install an agent, and go on with it. Raises: ConfigError, with the installer's own words."""
        from dragoman.tui.start.installation import install_agent

        await install_agent(row, self._app.conversation.folder, self.rows.progress)
        _ = self.dismiss(ChosenAgent(row.agent))

    def leave(self) -> None:
        """Go back to the conversation; if there is none, end the client."""
        if self.is_first:
            self._app.exit()
        else:
            _ = self.dismiss(None)

    def action_nothing(self) -> None:
        """Keep the keyboard where it is."""

    def on_unmount(self) -> None:
        if self._working is not None:
            self._working.cancel()


class WelcomeRows(Widget, can_focus=True):
    """The rows, what keys do with them, and a few lines about what is being done."""

    DEFAULT_CSS = "WelcomeRows { height: 1fr; width: 1fr; }"

    def __init__(self, screen: WelcomeScreen) -> None:
        super().__init__()
        self._screen = screen
        self._welcome: Welcome | None = None
        self._has_all = False
        self._at = 0
        self._top = 0
        self._shown_at = 0.0
        self.note = "looking at this machine"
        self._log: list[str] = []

    # What is shown

    def show(self, welcome: Welcome) -> None:
        """Show what was found; the best row is marked."""
        if self._welcome is None:
            self._shown_at = monotonic()
        self._welcome, self._at, self._top = welcome, welcome.best, 0
        self.note = one_line("; ".join(welcome.notes))
        self._log = []
        self.refresh()

    def progress(self, text: str) -> None:
        """Show how far an installation is."""
        self.note, self._log = one_line(text), []
        self.refresh()

    def report(self, problem: str, output: str) -> None:
        """Show why something that was chosen did not work, with the last words of an installer."""
        self.note, self._log = one_line(problem), [one_line(line) for line in output.splitlines()]
        self.refresh()

    @property
    def _rows(self) -> list[WelcomeRow]:
        return [] if self._welcome is None else self._welcome.shown(has_all=self._has_all)

    # Keys

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        rows, key = self._rows, event.key
        if key in ("ctrl+c", "ctrl+d", "escape"):
            self._screen.leave()
        elif self._screen.is_working or not rows:
            pass  # something that was chosen is being done
        elif key in ("up", "down", "ctrl+p", "ctrl+n"):
            self._at = max(0, min(len(rows) - 1, self._at + (1 if key in ("down", "ctrl+n") else -1)))
        elif key in ("pageup", "home", "pagedown", "end"):
            self._at = 0 if key in ("pageup", "home") else len(rows) - 1
        elif key == "m":
            self._has_all = True
        elif monotonic() - self._shown_at < SETTLED_SECONDS:
            pass  # typed before there was anything to choose
        elif key == "enter":
            self._screen.choose(rows[self._at])
        elif key == "r":
            self._screen.again()
        elif event.character in signs_of(rows):
            self._at = signs_of(rows).index(event.character)
            self._screen.choose(rows[self._at])
        self.refresh()

    # Drawing

    def _lines(self, width: int) -> list[tuple[RailLine, int]]:
        """Return the lines of the list, each with the place of its row, or -1."""
        lines: list[tuple[RailLine, int]] = []
        rows, section = self._rows, ""
        for place, (sign, row) in enumerate(zip(signs_of(rows), rows, strict=True)):
            if row.section != section:
                lines += [((), -1)] if section else []
                section = row.section
                lines.append((((f" {section}", "bold"),), -1))
            is_marked = place == self._at
            mark = f" {self._screen._app.glyphs.you if is_marked else ' '} "
            columns = row_line(row, sign if len(sign) == 1 else "", width - 4)
            line = tuple((text, "bold" if is_marked and style == "" else style) for text, style in columns)
            lines.append((((mark, "user"), *line), place))
            hidden = 0 if self._has_all or self._welcome is None else self._welcome.hidden()
            if hidden and self._welcome is not None and row is self._welcome.last_shown:
                lines.append(((("    m  ", "user"), (f"{hidden} more", "dim")), -1))
        return lines

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        if y == 0:
            return strip_of(self._title(width), width)
        if y == height - 1:
            return strip_of(((f" {clip(self._foot(), width - 2)}", "dim"),), width)
        below = self._below(width - 3, height // 2)
        first_below = height - 1 - len(below)
        if y >= first_below:
            return strip_of((below[y - first_below],), width)
        if y <= 2:
            return strip_of(((f" {clip(INTRODUCTION, width - 2)}", ""),) if y == 2 else (), width)
        return self._row_strip(y - 4, max(1, first_below - 5), width)

    def _below(self, width: int, most: int) -> list[tuple[str, str]]:
        """Return the lines below the list: what is done, or why it failed, with the end of an installer's output."""
        style = "dim" if self._screen.is_working else "warn"
        notes = [(f" {line}", style) for line in wrapped(self.note, width)] if self.note else []
        log = [(f"   {part}", "dim") for line in self._log for part in wrapped(line, width - 2)]
        return [*notes[:most], *log[-max(0, most - len(notes)) :]] if log else notes[:most]

    def _row_strip(self, y: int, room: int, width: int) -> Strip:
        """Return a line of the list, scrolled so that the marked row is in sight."""
        lines = self._lines(width)
        marked = next((number for number, (_, place) in enumerate(lines) if place == self._at), 0)
        if marked < self._top:
            self._top = marked
        elif marked >= self._top + room:
            self._top = marked - room + 1
        if self._at == 0:
            self._top = 0  # with its heading
        at = self._top + y
        if y < 0 or y >= room or at >= len(lines):
            return Strip.blank(width)
        return strip_of(lines[at][0], width)

    def _title(self, width: int) -> RailLine:
        left = f" dragoman {__version__}"
        right = f"{short_folder(self._screen._app.conversation.folder, max(10, width - cells(left) - 4))} "
        return ((left, "user"), (" " * max(1, width - cells(left) - cells(right)), ""), (right, "dim"))

    def _foot(self) -> str:
        leave = "Esc leave" if self._screen.is_first else "Esc back"
        return f"Up Down move · Enter or digit · k key · d demo · r look again · {leave}"


# Actions


def show_first(app: TerminalApp) -> None:
    """Show the welcome before the first conversation, which begins with what is chosen."""

    def use(chosen: ChosenAgent | None) -> None:
        if chosen is None:
            return
        _remember(app, chosen)
        app.run_conversation(app.conversation)
        app.type_early_keys()

    _ = app.push_screen(WelcomeScreen(app, is_first=True), use)


def show_welcome(app: TerminalApp, argument: str = "") -> None:
    """Show what is on this machine, and begin a new session with what is chosen."""

    def use(chosen: ChosenAgent | None) -> None:
        if chosen is None:
            return
        _remember(app, chosen)
        if app.conversation.phase == "failed":
            app.conversation.retry(agent=chosen.agent, is_new=True)
        else:
            app.show_session(None)

    _ = app.push_screen(WelcomeScreen(app, is_first=False), use)


def _remember(app: TerminalApp, chosen: ChosenAgent) -> None:
    app.attached.opening.choose(chosen.agent, chosen.model)
    if app.preferences is not None:
        try:
            app.preferences.choose(chosen.agent, chosen.model)
        except ConfigError as error:
            app.note(f"the choice is not remembered: {error}")
