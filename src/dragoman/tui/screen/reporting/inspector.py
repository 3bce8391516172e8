"""The inspector: the messages between host and agent as they pass, with broken rules marked.

Costs nothing while it is not open: the host keeps references to the last lines, and only this screen asks for them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dragoman.errors import ConnectionClosed, RequestError
from dragoman.text.terminal import cells, escape_json, fit, size
from dragoman.text.visible import label
from dragoman.trace.inspect.screen import is_loud
from dragoman.tui.reporting.traffic import METHOD, TrafficModel, is_broken, kind_of, what_of
from dragoman.tui.screen.painted import PaintedScreen, head_line, key_rows
from dragoman.view.rails import by_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.trace.inspect.timeline import Row
    from dragoman.tui.screen.app import TerminalApp
    from dragoman.view.rails import RailLine, Style

_KEYS: Final = (
    "Enter expand",
    "! next broken rule",
    "/ search",
    "f filter",
    "y copy",
    "e export",
    "p pause",
    "End follow",
    "q back",
)
_PAINT_SECONDS: Final = 0.1
_AGAIN_SECONDS: Final = 1.0
_PREVIEW: Final = 3
_MOST_CHARS: Final = 200_000


def show_traffic(app: TerminalApp, argument: str = "") -> None:
    """Show the messages between the host and the agent of this session."""
    if app.conversation.session_id is None:
        app.note("there is no session yet")
        return
    _ = app.push_screen(InspectorScreen(app, argument))


class InspectorScreen(PaintedScreen):
    """The table of messages, and the chosen one below it."""

    KEYS: ClassVar[dict[str, str]] = {
        "j": "down",
        "down": "down",
        "k": "up",
        "up": "up",
        "pagedown": "page_down",
        "pageup": "page_up",
        "home": "first",
        "g": "first",
        "end": "follow",
        "G": "follow",
        "J": "scroll_down",
        "K": "scroll_up",
        "enter": "expand",
        "!": "broken",
        "/": "search",
        "n": "again",
        "N": "back_again",
        "f": "filter",
        "y": "copy",
        "e": "export",
        "p": "pause",
        "q": "leave",
        "escape": "leave",
    }

    def __init__(self, app: TerminalApp, words: str = "") -> None:
        super().__init__(app)
        self.model = TrafficModel()
        self.is_paused = False
        self.is_open = False
        """The chosen message is shown whole."""
        self._first_words = words
        self._scroll = 0
        self._wanted = ""
        self._following: asyncio.Task[None] | None = None
        self._resumed = asyncio.Event()
        self._is_feeding = False
        self._held: list[str] = []

    def opened(self) -> None:
        self.model.filter(self._first_words)
        self._following = asyncio.ensure_future(self._follow())
        self.terminal.start(self._following)  # which notes its failure

    def on_unmount(self) -> None:
        if self._following is not None:
            self._following.cancel()

    # Following

    async def _follow(self) -> None:
        while True:
            if self.is_paused:
                self._resumed.clear()
                await self._resumed.wait()
            try:
                await self._take(waits=self.model.after > 0)
                await asyncio.sleep(_PAINT_SECONDS)
            except RequestError as error:
                self.message = f"the host does not show its traffic: {error}"
                self.paint()
                return
            except ConnectionClosed:
                self.message = "the host is gone; it is looked for"
                self.paint()
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _take(self, *, waits: bool) -> None:
        remote = self.terminal.conversation.remote
        if remote is None:
            raise ConnectionClosed("there is no host")
        asked = {"sessionId": self.terminal.conversation.session_id, "wait": waits, **self.model.asked()}
        answer: Any = await remote.request(METHOD, asked)
        if isinstance(answer, dict):
            await self.feed(answer)

    async def feed(self, answer: dict[str, Any]) -> None:
        """Judge new lines in a thread; keys wait for it, so that a model is never used by two."""
        self._is_feeding = True
        try:
            await asyncio.to_thread(self.model.feed, answer)
        finally:
            self._is_feeding = False
        held, self._held = self._held, []
        for name in held:
            self.press(name)
        self.paint()

    def press(self, name: str) -> None:
        if self._is_feeding:
            self._held.append(name)
        else:
            super().press(name)

    def paint(self) -> None:
        if not self._is_feeding:
            super().paint()

    # Drawing

    def lines_of(self, width: int, height: int) -> Sequence[RailLine]:
        model = self.model
        foot = self.foot(width, *key_rows(width, _KEYS))
        agent = label(model.agent or self.terminal.conversation.agent, 24, "agent")
        broken = f"{model.broken} broken rule{'s' if model.broken != 1 else ''}"
        head = f"traffic · {agent} · {model.after:,} frames · {broken}"
        words = f"filter: {label(' '.join(model.words), 20)}" if model.words else ""
        state = "paused" if self.is_paused else words or ("following" if model.at is None else "")
        columns = fit("   seq time     dir kind     method / update", max(1, width - 14)) + "     ms  size "
        room = max(2, height - 2 - len(foot))
        detail = self._detail(width, room)
        table = self._table(width, room - len(detail))
        return [head_line(head, state, width), ((columns, "dim"),), *table, *detail, *foot]

    def _table(self, width: int, height: int) -> list[RailLine]:
        model = self.model
        places = model.visible
        chosen = len(places) - 1 if model.at is None else model.at
        start = min(max(0, chosen - height // 2), max(0, len(places) - height))
        lines: list[RailLine] = [
            self._row(model.rows[place], width, is_chosen=at == chosen)
            for at, place in enumerate(places[start : start + height], start)
        ]
        if not lines:
            lines.append((("   nothing passed yet" if not model.words else "   nothing fits the filter", "dim"),))
        blank: RailLine = ((" " * width, ""),)
        return [*lines, *[blank] * (height - len(lines))]

    def _row(self, row: Row, width: int, *, is_chosen: bool) -> RailLine:
        model = self.model
        loud = [finding for finding in row.findings if is_loud(finding)]
        mark = self.terminal.glyphs.you if is_chosen else "!" if is_broken(row) else "-" if loud else " "
        took = "-" if row.latency is None else f"{row.latency * 1000:.0f}"
        arrow = "->" if row.dir == "c2a" else "<-"
        kind = fit(label(kind_of(row), 8), 8)
        left = f"{model.number(row):>5} {model.clock(row)} {arrow}  {kind} "
        right = f" {took:>6} {size(model.size_bytes(row)):>5} "
        why = label(loud[0].message, 60) if loud else "open" if row.kind == "request" and row.answer is None else ""
        room = max(8, width - 1 - cells(left) - cells(right))
        reason_width = min(room // 2, cells(why) + 1) if why else 0
        what = fit(label(what_of(row), room, ""), room - reason_width)
        style: Style = "bold" if is_chosen else "bad" if row.is_bad else ""
        why_style: Style = "bad" if is_broken(row) else "warn" if loud else "dim"
        return (
            (mark, "bad" if is_broken(row) and not is_chosen else "user"),
            (left, "dim"),
            (what, style),
            (fit(f" {why}", reason_width) if reason_width else "", why_style),
            (right, "dim"),
        )

    def _detail(self, width: int, height: int) -> list[RailLine]:
        row = self.model.chosen
        if row is None or height < 6:
            return []
        lines: list[RailLine] = [(("─" * width, "dim"),)]
        for finding in row.findings:
            if self.is_open or is_loud(finding):
                words = f"! rule {finding.rule} {finding.level}: {label(finding.message, 500)}"
                style: Style = "bad" if finding.is_failure else "warn" if is_loud(finding) else "dim"
                lines += [((fit(f" {line}", width), style),) for line in by_words(words, max(10, width - 2))]
        room = (height * 2 // 3 if self.is_open else _PREVIEW + 1) - len(lines)
        # `plain` would remove what a peer hid: escapes show it.
        text = self.model.pretty(row) if self.is_open else self.model.text(row)
        text = escape_json(text[:_MOST_CHARS]).expandtabs(2)
        pieces = text.split("\n") if self.is_open else [text]
        shown = [piece for line in pieces for piece in _wrapped(line, width - 2, 4_000)]
        self._scroll = max(0, min(self._scroll, len(shown) - max(1, room)))
        lines += [((fit(f" {line}", width), ""),) for line in shown[self._scroll : self._scroll + max(1, room)]]
        return lines

    # Keys

    def do_down(self) -> None:
        self._move(1)

    def do_up(self) -> None:
        self._move(-1)

    def do_page_down(self) -> None:
        self._move(max(1, self.size.height // 2))

    def do_page_up(self) -> None:
        self._move(-max(1, self.size.height // 2))

    def do_first(self) -> None:
        self._move(-len(self.model.visible))

    def do_follow(self) -> None:
        self.model.at, self._scroll = None, 0

    def _move(self, step: int) -> None:
        self.model.move(step)
        self._scroll = 0

    def do_scroll_down(self) -> None:
        self._scroll += 5

    def do_scroll_up(self) -> None:
        self._scroll -= 5

    def do_expand(self) -> None:
        self.is_open, self._scroll = not self.is_open, 0

    def do_broken(self) -> None:
        self.message = "" if self.model.next_broken() else "no rule is broken in what is shown"

    def do_search(self) -> None:
        self.ask("search", self._search)

    def _search(self, text: str) -> None:
        self._wanted = text
        self.press("again")

    def do_again(self, step: int = 1) -> None:
        self.message = "" if self.model.search(self._wanted, step) else f"not found: {self._wanted}"

    def do_back_again(self) -> None:
        self.do_again(-1)

    def do_filter(self) -> None:
        self.ask("filter (words; ! broken rules; -> <- direction; empty for all)", self._filter)

    def _filter(self, text: str) -> None:
        if self._is_feeding:
            self._first_words = text
            self._held.append("refilter")
        else:
            self.model.filter(text)

    def do_refilter(self) -> None:
        self.model.filter(self._first_words)

    def do_pause(self) -> None:
        self.is_paused = not self.is_paused
        self._resumed.set()

    def do_copy(self) -> None:
        row = self.model.chosen
        if row is None:
            return
        text = self.model.pretty(row)
        from dragoman.tui.screen.conversation.copy import copy_text

        copy_text(self.terminal, text)
        self.message = f"copied {len(text)} characters"

    def do_export(self) -> None:
        from dragoman.tui.screen.reporting.export import save_file

        name = f"traffic-{(self.terminal.conversation.session_id or 'session')[:8]}.jsonl"
        save_file(self, "write the recording to", name, self.model.recording)


def _wrapped(text: str, width: int, most: int) -> list[str]:
    """Return a line in pieces of a width, as many as fit into `most` characters."""
    pieces, piece, used = [], "", 0
    for letter in text[:most]:
        wide = cells(letter)
        if used + wide > width:
            pieces.append(piece)
            piece, used = "", 0
        piece, used = piece + letter, used + wide
    return [*pieces, piece]
