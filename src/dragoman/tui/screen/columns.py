"""The columns at the sides of a wide screen: the sessions at the left, the plan and the changed files at the right."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from textual.strip import Strip
from textual.widget import Widget

from dragoman.schema import v1
from dragoman.text.terminal import cells, fit
from dragoman.text.visible import label
from dragoman.tui.screen.strips import strip_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.state import SessionState
    from dragoman.tui.values import ListedSession
    from dragoman.view.rails import Glyphs, RailLine

LEFT_FROM: Final = 100
RIGHT_FROM: Final = 120
LEFT_WIDTH: Final = 24
RIGHT_WIDTH: Final = 26
_MOST_FILES: Final = 200


class Column(Widget):
    """Lines that are drawn whenever they are set, with a rule at one side."""

    def __init__(self, rule: str, *, is_left: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self.is_left = is_left
        self._rule = rule
        self._lines: Sequence[RailLine] = ()

    def show(self, lines: Sequence[RailLine]) -> None:
        """Show these lines."""
        if lines != self._lines:
            self._lines = lines
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
    """Return the sessions, those of the folder first, then the others by folder."""
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
    return tuple(lines) or (((" no plan, no changes", "dim"),),)


class ChangedFiles:
    """The files that the tool calls of a session changed; a call that did not change is not looked at again."""

    def __init__(self) -> None:
        self._state: SessionState | None = None
        self._calls: dict[str, tuple[int, list[tuple[str, int, int, bool]]]] = {}
        self._revision = -1
        self._found: list[tuple[str, int, int, bool]] = []

    def of(self, state: SessionState) -> list[tuple[str, int, int, bool]]:
        """Path, added and removed lines, and whether the file is new, in the order of the first change."""
        if state is not self._state:
            self._state, self._calls, self._revision = state, {}, -1
        if state.revision != self._revision:
            self._revision = state.revision
            self._found = self._sum(state)
        return self._found

    def _sum(self, state: SessionState) -> list[tuple[str, int, int, bool]]:
        files: dict[str, list[int]] = {}
        for id, call in state.tool_calls.items():
            known = self._calls.get(id)
            if known is None or known[0] != call.revision:
                known = (call.revision, [_measured(diff) for diff in call.content if isinstance(diff, v1.Diff)])
                self._calls[id] = known
            if call.status == "failed":
                continue
            for path, added, removed, is_new in known[1]:
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
