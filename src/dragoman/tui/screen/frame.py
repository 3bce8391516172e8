"""The lines around the conversation: header, status, footer, and the columns at the sides, for the state of an app."""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from textual.strip import Strip
from textual.widget import Widget

from dragoman.schema import v1
from dragoman.text.terminal import cells, fit, one_line, size
from dragoman.text.visible import label
from dragoman.tui.screen.header import HeaderFacts, header_line
from dragoman.tui.screen.strips import strip_of
from dragoman.view.labels import seconds_text
from dragoman.view.rails import UNICODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.state import SessionState
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.tui.values import ListedSession
    from dragoman.view.rails import Glyphs, RailLine

_NOTE_SECONDS: Final = 30.0
_FOOTER: Final = (
    ("walk", "question, blocks"),
    ("sessions", "sessions"),
    ("help", "help"),
    ("leave", "leave"),
    ("diff", "review"),
    ("open", "thoughts"),
    ("model", "model"),
    ("columns", "columns"),
)
"""What the footer shows besides Enter, as far as there is room."""
LEFT_FROM: Final = 100
RIGHT_FROM: Final = 120
LEFT_WIDTH: Final = 24
RIGHT_WIDTH: Final = 26
_MOST_FILES: Final = 200


class FrameLines:
    """The lines for one app."""

    def __init__(self, app: TerminalApp) -> None:
        self._app = app
        self._files = ChangedFiles()

    def column(self, *, is_left: bool) -> tuple[RailLine, ...]:
        """Return the lines of a column."""
        if is_left:
            return session_lines(
                self._app.session_rows,
                self._app.conversation.session_id,
                self._app.conversation.folder,
                LEFT_WIDTH - 1,
                self._app.glyphs,
            )
        return plan_lines(
            self._app.conversation.state,
            self._files.of(self._app.conversation.state),
            RIGHT_WIDTH - 1,
            self._app.glyphs,
        )

    def title_state(self) -> str:
        """Return the state in the title of the window; empty if nothing goes on."""
        if self._app.conversation.questions or self._app.conversation.forms or self._app.around.waiting():
            return "needs you"
        if self._app.conversation.phase == "failed":
            return "failed"
        return "working" if self._app.conversation.is_running else ""

    def header(self, width: int) -> RailLine:
        """Return the first line."""
        facts = HeaderFacts(
            self._app.conversation.folder,
            self._app.conversation.agent,
            self._app.around.branch,
            self._app.worktree,
            self._app.seconds,
            has_unicode=self._app.glyphs is UNICODE,
        )
        return header_line(self._app.conversation.state, facts, width)

    def status(self) -> RailLine:
        """Return the line above the input: what goes on, what waits, the last note."""
        conversation, glyphs = self._app.conversation, self._app.glyphs
        others = self._app.around.waiting()
        key = self._app.keymap.shown("sessions")
        need = "others need" if others > 1 else "other needs"
        end = f" · {glyphs.needs_you} {others} {need} you ({key})" if others else ""
        recent = [text for when, text in self._app.notes if monotonic() - when < _NOTE_SECONDS]
        if conversation.phase == "failed":
            return ((f"  {glyphs.failed} {recent[-1] if recent else one_line(conversation.failure)}", "bad"),)
        waiting = f" · {len(conversation.queued)} queued" if conversation.queued else ""
        if conversation.phase != "ready":
            word = {
                "connecting": "starting",
                "opening": "starting the agent",
                "lost": "the host is gone, looking for it",
            }
            more = recent[-1] if recent else self._app.around.welcome
            return (
                (f"  {glyphs.offline} {word[conversation.phase]}{waiting}", "warn"),
                (f" · {more}" if more else "", "dim"),
            )
        if conversation.questions or conversation.forms:
            return ((f"  {glyphs.needs_you} needs your answer{waiting}{end}", "warn"),)
        if conversation.is_running:
            elapsed = seconds_text(max(0, self._app.seconds))
            plan = conversation.state.plan
            done = sum(entry.status == "completed" for entry in plan)
            current = next((entry.content for entry in plan if entry.status == "in_progress"), "")
            step = f" · step {done + 1} of {len(plan)}: {label(current, 40)}" if current else ""
            return ((f"  {glyphs.running} working {elapsed}{step}{waiting}{end}", "warn"),)
        if not recent and self._app.around.welcome and not conversation.state.timeline:
            recent = [f"found: {self._app.around.welcome}"]
        return ((f"  {recent[-1]}", "dim"), (end, "warn")) if recent else ((f"  {end.removeprefix(' · ')}", "warn"),)

    def forget_notes(self) -> bool:
        """Drop the notes if the last one is old; whether there were some."""
        notes = self._app.notes
        is_old = bool(notes) and monotonic() - notes[-1][0] >= _NOTE_SECONDS
        if is_old:
            notes.clear()
        return is_old

    def footer(self, unseen: int) -> RailLine:
        """Return the last line: what the keys do, as they are bound."""
        new = f" {size(unseen)} new lines, End to follow · " if unseen else " "
        parts = (
            ["Enter queue", f"{self._app.keymap.shown('stop')} stop"]
            if self._app.conversation.is_running
            else ["Enter send"]
        )
        room = self._app.size.width - cells(new) - sum(cells(part) + 2 for part in parts)
        for name, word in _FOOTER:
            if not self._app.keymap.keys(name):  # an action that the settings take every key from
                continue
            part = f"{self._app.keymap.shown(name)} {word}"
            room -= cells(part) + 2
            if room >= -2:
                parts.append(part)
        return ((new + "  ".join(parts), "dim"),)


class Column(Widget):
    """Lines that are drawn whenever they are set, with a rule at one side; without lines it takes no room."""

    def __init__(self, rule: str, *, is_left: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self.is_left = is_left
        self.has_room = False
        """Whether the terminal is wide enough, and the user has not folded it."""
        self._rule = rule
        self._lines: Sequence[RailLine] = ()

    def give_room(self, has_room: bool) -> None:
        """Show it from now on if it has lines, or not at all."""
        self.has_room = has_room
        self.display = has_room and bool(self._lines)

    def show(self, lines: Sequence[RailLine]) -> None:
        """Show these lines."""
        if lines != self._lines:
            self._lines = lines
            self.display = bool(lines)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        line = self._lines[y] if y < len(self._lines) else ()
        rule = strip_of(((self._rule, "dim"),), 1)
        text = strip_of(line, width - 1)
        return Strip.join([text, rule] if self.is_left else [rule, text])


def session_lines(
    rows: Iterable[ListedSession], shown_id: str | None, folder: str, width: int, glyphs: Glyphs
) -> tuple[RailLine, ...]:
    """Return the sessions, those of the folder first, then the others by folder; nothing if there is one alone."""
    rows = list(rows)
    if not any(row.session_id != shown_id for row in rows):
        return ()
    lines: list[RailLine] = [((" sessions", "bold"),)]
    here = [row for row in rows if row.folder == folder]
    others = [row for row in rows if row.folder != folder]
    last = folder
    for row in [*here, *sorted(others, key=lambda row: row.folder)]:
        if row.folder != last:
            last = row.folder
            lines.append(((f" - {label(os.path.basename(last) or last, width - 5)} -", "dim"),))
        mark = glyphs.you if row.session_id == shown_id else " "
        sign, style = state_sign(row.word, glyphs)
        space = width - 3 - (cells(row.cost) + 1 if row.cost else 0)
        text = fit(label(row.shown_name, 60), space)
        lines.append(((mark, "user"), (f"{sign} ", style), (text, ""), (f" {row.cost}" if row.cost else "", "dim")))
    return tuple(lines)


def state_sign(word: str, glyphs: Glyphs) -> tuple[str, str]:
    """Return the sign of a state in words, and its style."""
    signs = {
        "needs you": (glyphs.needs_you, "warn"),
        "running": (glyphs.running, "warn"),
        "done": (glyphs.done, "good"),
        "failed": (glyphs.failed, "bad"),
        "agent ended": (glyphs.failed, "bad"),
        "stuck": (glyphs.failed, "bad"),
        "cancelled": (glyphs.cancelled, "dim"),
    }
    return signs.get(word, (glyphs.cancelled, "dim"))


def plan_lines(
    state: SessionState, files: Sequence[tuple[str, int, int, bool]], width: int, glyphs: Glyphs
) -> tuple[RailLine, ...]:
    """Return the plan, and the files that the session changed."""
    lines: list[RailLine] = []
    plan = state.plan
    if plan:
        done = sum(entry.status == "completed" for entry in plan)
        lines.append(((f" plan {done}/{len(plan)}", "bold"),))
        signs = {"completed": (glyphs.done, "good"), "in_progress": (glyphs.running, "warn")}
        for entry in plan:
            sign, style = signs.get(str(entry.status), (glyphs.queued, "dim"))
            lines.append(((f" {sign} ", style), (label(entry.content, width - 4), "")))
        lines.append(())
    if files:
        lines.append(((" files", "bold"),))
        for path, added, removed, is_new in files:
            counts = f" +{added} -{removed}"
            name = fit(label(os.path.basename(path) or path, 80), max(1, width - 3 - cells(counts)))
            lines.append(((f" {'A' if is_new else 'M'} ", "dim"), (name, ""), (counts, "dim")))
    return tuple(lines)


class ChangedFiles:
    """The files that the tool calls of a session changed; a call that did not change is not looked at again."""

    def __init__(self) -> None:
        self._state: SessionState | None = None
        self._calls: dict[str, tuple[int, list[tuple[str, int, int, bool]]]] = {}
        self._revision = -1
        self._files: list[tuple[str, int, int, bool]] = []

    def of(self, state: SessionState) -> list[tuple[str, int, int, bool]]:
        """Return path, added and removed lines, and whether the file is new, in the order of the first change."""
        if state is not self._state:
            self._state, self._calls, self._revision = state, {}, -1
        if state.revision != self._revision:
            self._revision = state.revision
            self._files = self._sum(state)
        return self._files

    def _sum(self, state: SessionState) -> list[tuple[str, int, int, bool]]:
        files: dict[str, list[int]] = {}
        for id, call in state.tool_calls.items():
            before = self._calls.get(id)
            if before is None or before[0] != call.revision:
                before = (call.revision, [_measured(diff) for diff in call.content if isinstance(diff, v1.Diff)])
                self._calls[id] = before
            if call.status == "failed":
                continue
            for path, added, removed, is_new in before[1]:
                counts = files.setdefault(path, [0, 0, int(is_new)])
                counts[0] += added
                counts[1] += removed
        return [(path, counts[0], counts[1], bool(counts[2])) for path, counts in list(files.items())[:_MOST_FILES]]


def _measured(diff: v1.Diff) -> tuple[str, int, int, bool]:
    from dragoman.view.diffs import diff_piece

    piece = diff_piece(diff.path, diff.old_text if isinstance(diff.old_text, str) else None, diff.new_text)
    return diff.path, piece.added, piece.removed, piece.is_new


def short_folder(folder: str, width: int) -> str:
    """Return a folder with `~` for the home, cut at its beginning."""
    home = os.path.expanduser("~")
    text = label(f"~{folder[len(home) :]}" if folder.startswith(f"{home}/") else folder, 500)
    return text if cells(text) <= width else f"…{text[-(width - 1) :]}"
