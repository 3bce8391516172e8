"""The sessions of the host: choose one, begin one, go to the next one, copy or end one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import ConfigError
from dragoman.text.terminal import cells, fit
from dragoman.text.visible import label
from dragoman.tui.local_host.session_rows import (
    end_session,
    fork_session,
    in_order,
    is_gone,
    searched_text,
    words_at_start,
)
from dragoman.tui.screen.frame import short_folder, state_sign
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.picker import Picker, PickRow
from dragoman.tui.values import ListedSession, short_agent
from dragoman.view.labels import age_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.tui.screen.app import TerminalApp
    from dragoman.view.rails import Glyphs

NEW: Final = "new"
"""What the list is left with for a new session."""
_FOOTER: Final = (
    "type: filter · Enter open · Ctrl+N new · Ctrl+F fork · Ctrl+X end · Ctrl+A all · Alt+D diff · Esc back"
)
_NARROW: Final = 70
_WIDE: Final = 100
_WORD, _AGENT, _AGE, _COST = 11, 9, 9, 6


class SessionPicker(Picker):
    """The list of sessions, the ones of this folder first."""

    def __init__(self, rows: Sequence[ListedSession], folder: str, glyphs: Glyphs, width: int, words: str = "") -> None:
        """Make the list.

        Args:
            rows: all sessions of the host.
            folder: whose sessions come first.
            glyphs: the signs of states.
            width: of the screen.
            words: what it is filtered by at first.
        """
        self.sessions = list(rows)
        self._folder, self._glyphs, self._width = folder, glyphs, width
        # With nothing here, or for words, the others are what the user looks for.
        self._shows_all = bool(words) or all(row.folder != folder or is_gone(row) for row in rows)
        super().__init__(
            f"dragoman · {short_folder(folder, max(10, width - 30))}",
            self._made_rows(),
            right=self._count(),
            footer=_FOOTER,
            glyphs=glyphs,
            commands={
                "ctrl+n": lambda value: self._leave(NEW),
                "ctrl+f": self._fork,
                "alt+d": lambda value: None if value is None else self._leave(("diff", value)),
                "ctrl+x": self._end,
                "ctrl+a": lambda value: self._toggle(),
                "ctrl+p": lambda value: self._leave(None),  # the key that opened it
            },
        )
        self.list.set_filter(words)

    def leave(self) -> None:
        """Leave the client, as Ctrl+D does in the conversation; the work goes on."""
        self.app.exit()

    def is_same(self, one: Any, other: Any) -> bool:
        """Compare sessions alone: state, cost and age change while the list is open, and the selection must stay."""
        return (
            isinstance(one, ListedSession) and isinstance(other, ListedSession) and one.session_id == other.session_id
        )

    def show_sessions(self, rows: Sequence[ListedSession]) -> None:
        """Show the sessions as they are by then."""
        self.sessions = list(rows)
        self.right = self._count()
        self.set_rows(self._made_rows())

    def on_resize(self) -> None:
        """Lay the rows out again."""
        self._width = self.app.size.width
        self.set_rows(self._made_rows())

    def _leave(self, value: Any) -> None:
        _ = self.dismiss(value)

    def _toggle(self) -> None:
        self._shows_all = not self._shows_all
        self.set_rows(self._made_rows())

    def _count(self) -> str:
        used = [row for row in self.sessions if not row.is_unused]
        return f"{sum(row.folder == self._folder for row in used)} of {len(used)} here"

    def _made_rows(self) -> list[PickRow]:
        rows = [row for row in in_order(self.sessions) if self._shows_all or not is_gone(row)]
        here = [row for row in rows if row.folder == self._folder]
        others = [row for row in rows if row.folder != self._folder]
        if not self._shows_all:
            others = [row for row in others if row.state in ("waiting", "running")]
        made = [PickRow(session_line(row, self._width, self._glyphs), row, searched_text(row)) for row in here]
        if others:
            made.append(PickRow(((" - other folders -", "dim"),), is_heading=True))
            made += [
                PickRow(session_line(row, self._width, self._glyphs, with_folder=True), row, searched_text(row))
                for row in others
            ]
        return made

    def _end(self, value: Any) -> None:
        if isinstance(value, ListedSession):
            name = label(value.shown_name, 40)
            self.confirm(f"end {name}, its turn and its agent?", lambda: self._run_end(value))

    def _run_end(self, row: ListedSession) -> None:
        self.run_worker(self._ended(row), exit_on_error=False)

    async def _ended(self, row: ListedSession) -> None:
        try:
            await asyncio.to_thread(end_session, row)
        except ConfigError as error:
            self._show_problem(str(error))
        else:
            self.show_sessions([session for session in self.sessions if session.session_id != row.session_id])

    def _fork(self, value: Any) -> None:
        if isinstance(value, ListedSession):
            self.run_worker(self._forked(value), exit_on_error=False)

    async def _forked(self, row: ListedSession) -> None:
        from msgspec.structs import replace

        try:
            copy = await asyncio.to_thread(fork_session, row)
        except ConfigError as error:
            self._show_problem(str(error))
        else:
            self._leave(replace(row, session_id=copy, name=None))

    def _show_problem(self, text: str) -> None:
        self.problem = text
        self.list.refresh()


def session_line(
    row: ListedSession, width: int, glyphs: Glyphs, *, with_folder: bool = False, now: datetime | None = None
) -> tuple[Any, ...]:
    """Return one session as a line: sign, word, title, agent, age, cost, and what it needs."""
    sign, style = state_sign(row.word, glyphs)
    agent = label(short_agent(row.agent), _AGENT, "")
    wide = width >= _WIDE
    place = short_folder(row.folder, 14 if wide else _AGE) if with_folder else shown_age(row.updated_at, now)
    if width < _NARROW:
        ends = [(agent, _AGENT)]
    else:
        detail = label(row.detail, 30 if wide else 13, "")
        ends = [(agent, _AGENT), (place, 14 if wide else _AGE), (row.cost, _COST), (detail, 30 if wide else 13)]
    end = "  ".join(fit(text, size) for text, size in ends)
    space = max(4, width - 6 - _WORD - 2 - cells(end))
    title = fit(label(row.shown_name, 200), space)
    return ((f"{sign} ", style), (fit(row.word, _WORD), style), (f"{title}  ", ""), (end.rstrip(), "dim"))


def shown_age(moment: str | None, now: datetime | None = None) -> str:
    """Return how long ago something was, in words."""
    try:
        then = datetime.fromisoformat((moment or "").replace("Z", "+00:00"))
    except ValueError:
        return ""
    return age_text(((now or datetime.now(UTC)) - then).total_seconds())


# Actions


def choose_session(app: TerminalApp, argument: str = "") -> None:
    """Choose another session; words filter the list."""
    app.start(_choose(app, argument))


async def _choose(app: TerminalApp, words: str) -> None:
    rows = await app.refresh_rows()
    if not rows:
        app.note("there are no other sessions")
        return
    picker = SessionPicker(rows, app.conversation.folder, app.glyphs, app.size.width, words)
    app.show_picker(picker, lambda chosen: use_choice(app, chosen))


async def choose_first(app: TerminalApp) -> None:
    """Let the user choose among the sessions, for `--resume`; without one, or if text was typed, begin a new one."""
    rows = await app.around.listed.read_before_start()
    # A list that opens while the user types would take the rest of the text for a filter.
    has_begun = bool(app.conversation.prompts) or app.query_one(PromptInput).was_typed
    if has_begun or all(is_gone(row) for row in rows):
        words = words_at_start(rows, app.conversation.folder, app.keymap.shown("sessions"))
        app.note(f"a new session; {words}" if words else "a new session; there is no earlier one")
        app.run_conversation(app.conversation)
        return

    def use(chosen: Any) -> None:
        if chosen is None or chosen == NEW:
            app.run_conversation(app.conversation)
        else:
            use_choice(app, chosen)

    app.show_picker(SessionPicker(rows, app.conversation.folder, app.glyphs, app.size.width), use)


async def announce_sessions(app: TerminalApp) -> None:
    """Say in one line which sessions run and which need the user: a prompt comes first, and none may be forgotten."""
    rows = await app.around.listed.read_before_start()
    others = [row for row in rows if row.session_id != app.conversation.session_id]
    words = words_at_start(others, app.conversation.folder, app.keymap.shown("sessions"))
    if words:
        app.note(words)


def use_choice(app: TerminalApp, chosen: Any) -> None:
    """Do what the list of sessions was left with."""
    if chosen == NEW:
        begin_session(app)
    elif isinstance(chosen, ListedSession):
        app.show_session(chosen)
    elif isinstance(chosen, tuple):
        app.show_session(chosen[1])
        app.action_do("diff")


def begin_session(app: TerminalApp, argument: str = "") -> None:
    """Begin a new session."""
    if app.conversation.phase == "failed":
        app.conversation.retry(agent=argument or None, is_new=True)
    else:
        app.show_session(None, agent=argument or None)


def next_session(app: TerminalApp, argument: str = "") -> None:
    """Show the next session of the column."""
    _go(app, 1)


def previous_session(app: TerminalApp, argument: str = "") -> None:
    """Show the session before."""
    _go(app, -1)


def _go(app: TerminalApp, step: int) -> None:
    rows, current = app.session_rows, app.conversation.session_id
    if all(row.session_id == current for row in rows):
        app.note(f"there is no other session; {app.keymap.shown('new')} begins one")
        return
    ids = [row.session_id for row in rows]
    place = (ids.index(current) + step) % len(rows) if current in ids else 0
    app.show_session(rows[place])
