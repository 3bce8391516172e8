"""The lines around the conversation: header, status, footer, and the columns at the sides, for the state of an app."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import cells, one_line, size
from dragoman.text.visible import label
from dragoman.tui.screen.columns import LEFT_WIDTH, RIGHT_WIDTH, ChangedFiles, plan_lines, session_lines
from dragoman.tui.screen.header import HeaderFacts, header_line
from dragoman.tui.screen.keys.actions import action_named
from dragoman.view.labels import seconds_text
from dragoman.view.rails import UNICODE

if TYPE_CHECKING:
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.view.rails import RailLine

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


class FrameLines:
    """Writes the lines for one app."""

    def __init__(self, app: TerminalApp) -> None:
        self._app = app
        self._files = ChangedFiles()

    def column(self, *, is_left: bool) -> tuple[RailLine, ...]:
        """Return the lines of a column."""
        if is_left:
            return session_lines(
                self._app.known_rows, self._app.talk.session_id, self._app.talk.folder, LEFT_WIDTH - 1, self._app.glyphs
            )
        return plan_lines(self._app.talk.state, self._files.of(self._app.talk.state), RIGHT_WIDTH - 1, self._app.glyphs)

    def title_state(self) -> str:
        """Return the state in the title of the window; empty if nothing goes on."""
        if self._app.talk.questions or self._app.talk.forms or self._app.around.waiting():
            return "needs you"
        if self._app.talk.phase == "failed":
            return "failed"
        return "working" if self._app.talk.is_running else ""

    def header(self, width: int) -> RailLine:
        """Return the first line."""
        facts = HeaderFacts(
            self._app.talk.folder,
            self._app.talk.agent,
            self._app.around.branch,
            self._app.worktree,
            self._app.seconds,
            has_unicode=self._app.glyphs is UNICODE,
        )
        return header_line(self._app.talk.state, facts, width)

    def status(self) -> RailLine:
        """Return the line above the input: what goes on, what waits, the last note."""
        talk, glyphs = self._app.talk, self._app.glyphs
        others = self._app.around.waiting()
        key = self._app.keymap.shown("sessions")
        need = "others need" if others > 1 else "other needs"
        end = f" · {glyphs.needs_you} {others} {need} you ({key})" if others else ""
        recent = [text for when, text in self._app.notes if monotonic() - when < _NOTE_SECONDS]
        if talk.phase == "failed":
            return ((f"  {glyphs.failed} {recent[-1] if recent else one_line(talk.failure)}", "bad"),)
        waiting = f" · {len(talk.queued)} queued" if talk.queued else ""
        if talk.phase != "ready":
            word = {
                "connecting": "starting",
                "opening": "starting the agent",
                "lost": "the host is gone, looking for it",
            }
            more = recent[-1] if recent else self._app.around.welcome
            return ((f"  {glyphs.offline} {word[talk.phase]}{waiting}", "warn"), (f" · {more}" if more else "", "dim"))
        if talk.questions or talk.forms:
            return ((f"  {glyphs.needs_you} needs your answer{waiting}{end}", "warn"),)
        if talk.is_running:
            elapsed = seconds_text(max(0, self._app.seconds))
            return ((f"  {glyphs.running} working {elapsed}{self._step()}{waiting}{end}", "warn"),)
        if not recent and self._app.around.welcome and not talk.state.timeline:
            recent = [f"found: {self._app.around.welcome}"]
        return ((f"  {recent[-1]}", "dim"), (end, "warn")) if recent else ((f"  {end.removeprefix(' · ')}", "warn"),)

    def _step(self) -> str:
        plan = self._app.talk.state.plan
        done = sum(entry.status == "completed" for entry in plan)
        current = next((entry.content for entry in plan if entry.status == "in_progress"), "")
        return f" · step {done + 1} of {len(plan)}: {label(current, 40)}" if current else ""

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
            ["Enter queue", f"{self._app.keymap.shown('stop')} stop"] if self._app.talk.is_running else ["Enter send"]
        )
        room = self._app.size.width - cells(new) - sum(cells(part) + 2 for part in parts)
        for name, word in _FOOTER:
            if action_named(name) is None or not self._app.keymap.keys(name):
                continue
            part = f"{self._app.keymap.shown(name)} {word}"
            room -= cells(part) + 2
            if room >= -2:
                parts.append(part)
        return ((new + "  ".join(parts), "dim"),)
