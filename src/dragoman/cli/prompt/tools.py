"""Tool calls as lines: one when a call begins, one when it ends, then its changes or its output.

Owns which parts of a call are shown. A command that failed is red whatever status its agent reports: `completed` is
about the tool, the exit code about the command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from dragoman.cli.prompt import content
from dragoman.cli.prompt.diff import view_diff
from dragoman.schema import v1
from dragoman.state.reported_exit import reported_exit
from dragoman.text.colour import BOLD, DIM, GREEN, RED, YELLOW
from dragoman.text.visible import label, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.prompt.diff import DiffView
    from dragoman.cli.prompt.progress import Progress
    from dragoman.state import ToolCallState

_KIND: Final = 8  # columns; "execute" and a space
_DIFF_LINES: Final = 40  # of one file, unless `--verbose`
_TEXT_LINES: Final = 10  # of the output of a failed call or a command
_EVERYTHING: Final = 50  # times more of them with `--verbose`


class ToolLines:
    """The lines about tool calls, and what was shown of each."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._seen: dict[tuple[str, int], str] = {}  # (id, place in the timeline) -> "announced", "open" or "over"
        self._shown: set[tuple[str, str | None, str]] = set()  # changes that were shown
        self.exits: dict[str, tuple[int | None, str | None]] = {}  # of terminals

    def show(self, call: ToolCallState) -> None:
        """Show what is new about this call."""
        key = (call.id, call.position)
        seen = self._seen.get(key)
        if seen == "over":
            return
        if call.is_running:
            if seen is None and _is_bare(call):
                self._seen[key] = "announced"
            elif seen != "open" and (call.title or call.name):
                self._seen[key] = "open"
                self._progress.line(self._head("→", "", call), f"tool {key}")
            return
        self._seen[key] = "over"
        self._finish(call, f"tool {key}")

    def note_shown(self, diffs: Sequence[v1.Diff]) -> None:
        """Note changes that were shown elsewhere."""
        self._shown.update(map(_key, diffs))

    def _head(self, mark: str, style: str, call: ToolCallState) -> str:
        progress, paint = self._progress, self._progress.paint
        kind = label(call.kind, 12)
        title = label(call.title or call.name or call.id, progress.width - _KIND - 3)
        lead = f"{paint(mark, style) if style else mark} {paint(f'{kind:<{_KIND}}', BOLD)}"
        return f"{lead} {title}{self._where(call, title)}"

    def _where(self, call: ToolCallState, title: str) -> str:
        """Return the first location, unless the title names it."""
        if not call.locations:
            return ""
        first = call.locations[0]
        path = self._progress.short(first.path)
        if path in title or path.rpartition("/")[2] in title:
            return ""
        line = f":{first.line}" if isinstance(first.line, int) else ""
        more = f" and {len(call.locations) - 1} more" if len(call.locations) > 1 else ""
        return self._progress.paint(f"  {path}{line}{more}", DIM)

    def _finish(self, call: ToolCallState, writer: str) -> None:
        """Show how the call ended: below its first line, or with its title if other lines came in between."""
        progress, paint = self._progress, self._progress.paint
        ending = self._ending(call)
        is_bad = bool(ending) or (call.status == "failed" and not call.is_cancelled)
        word = ending or ("cancelled" if call.is_cancelled else call.status)
        mark, style = ("✗", RED) if is_bad else ("–", YELLOW) if call.is_cancelled else ("✓", GREEN)
        views = [] if is_bad or call.is_cancelled else self._views(call)
        added, removed = sum(view.added for view in views), sum(view.removed for view in views)
        figures = f"  +{added} -{removed}" if views else ""
        if progress.last_writer == writer:
            progress.line(f"  {paint(f'{mark} {word}', style)}{figures}")
        else:
            extra = f"  {paint(word, style)}" if word != "completed" else ""
            progress.line(f"{self._head(mark, style, call)}{extra}{figures}")
        lines = [line for view in views for line in self._cut(view.lines, _DIFF_LINES)]
        if is_bad or progress.is_verbose or call.kind == "execute":
            lines += self._text(call)
        if lines:
            progress.begin_details(label(call.title or call.name or call.id, progress.width))
            for line in lines:
                progress.line(line)
            progress.end_details()

    def _ending(self, call: ToolCallState) -> str:
        """Return how the call's command failed; empty if it did not."""
        for item in call.content:
            if isinstance(item, v1.Terminal):
                self._look_up(item.terminal_id)
                if item.terminal_id in self.exits:
                    return describe_exit(*self.exits[item.terminal_id])
        return describe_exit(reported_exit(call), None)

    def _look_up(self, terminal_id: str) -> None:
        found = self._progress.look(terminal_id) if self._progress.look and terminal_id not in self.exits else None
        if found is not None and not found.is_running:
            self._progress.finish_output(terminal_id)
            self.exits[terminal_id] = (found.exit_code, found.signal)

    def _views(self, call: ToolCallState) -> list[DiffView]:
        """Return the changes of the call; of one that was shown before only the figures."""
        paint, width = self._progress.paint, self._progress.width - 2
        views = []
        for item in dict.fromkeys(_key(item) for item in call.content if isinstance(item, v1.Diff)):
            path, old, new = item
            view = view_diff(self._progress.short(path), old, new, paint=paint, width=width, is_whole=old is None)
            views.append(view._replace(lines=[]) if item in self._shown else view)
            self._shown.add(item)
        return views

    def _text(self, call: ToolCallState) -> list[str]:
        """Return the text of the call as lines; live output was shown as it arrived."""
        if any(isinstance(item, v1.Terminal) for item in call.content):
            return []
        paint = self._progress.paint
        texts = [content.text_of(item.content) for item in call.content if isinstance(item, v1.Content)]
        lines = [line for text in texts for line in text.strip("\n").split("\n") if text.strip()]
        wide = self._progress.width - 2
        limit = _TEXT_LINES * (_EVERYTHING if self._progress.is_verbose else 1)
        before = [paint(f"  … {len(lines) - limit} lines before", DIM)] if len(lines) > limit else []
        shown = [piece for line in lines[-limit:] for piece in wrapped(line.expandtabs(4), wide)]
        return before + ["  " + paint(line, DIM) for line in shown]

    def _cut(self, lines: list[str], limit: int) -> list[str]:
        shown = lines if self._progress.is_verbose else lines[:limit]
        left = len(lines) - len(shown)
        more = [self._progress.paint(f"  … {left} more lines", DIM)] if left else []
        return ["  " + line for line in shown] + more


def _key(diff: v1.Diff) -> tuple[str, str | None, str]:
    return diff.path, diff.old_text if isinstance(diff.old_text, str) else None, diff.new_text


def _is_bare(call: ToolCallState) -> bool:
    """Whether the call was only announced: while its arguments arrive, agents give it a title that says nothing yet."""
    return call.status == "pending" and not (call.locations or call.content) and call.raw_input in (UNSET, None, {})


def describe_exit(exit_code: int | None, signal: str | None) -> str:
    """Describe a failed exit; empty for a command that succeeded or whose end was not reported."""
    if signal:
        return f"killed by {label(signal, 20)}"
    return f"exit {exit_code}" if exit_code else ""
