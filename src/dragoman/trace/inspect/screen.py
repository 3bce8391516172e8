"""A timeline as lines of a terminal.

Owns columns, colours and how much fits; a peer's text goes through `plain` or `one_line` before it is shown. Pure: it
is given the width and whether to use colour, and returns lines.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.text.colour import BLUE, BOLD, CYAN, DIM, GREEN, MAGENTA, RED, YELLOW, Painter
from dragoman.text.terminal import cells, clip, duration, escape_json, fit, one_line, plain, size
from dragoman.trace.checks.rules import rule_of
from dragoman.trace.entry import Frame, Stderr
from dragoman.trace.inspect.timeline import joined_summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dragoman.trace.entry import Entry, Header
    from dragoman.trace.inspect.timeline import RecordingTimeline, Row
    from dragoman.trace.violations import Finding

ARROWS: Final = {"c2a": "→", "a2c": "←"}
NARROW: Final = 60  # columns; with fewer, nothing of the summary would be left
_METHOD: Final = 28  # "↳ session/request_permission"
_SESSION: Final = 4
_TOOK: Final = 7
_SIZE: Final = 5
_KINDS: Final = {
    "stderr": "stderr",
    "malformed": "(not a message)",
    "blank": "(blank line)",
    "end": "end",
    "exit": "exit",
}


class Screen:
    """Rows as lines for one terminal."""

    def __init__(self, width: int, *, has_colour: bool, aliases: Mapping[str, str], last_number: int = 9999) -> None:
        self.width = max(width, NARROW)
        self.paint = Painter(has_colour)
        self._aliases = aliases
        self._number = max(4, len(str(last_number)))
        self._method = _METHOD if self.width >= 100 else 20
        fixed = self._number + 1 + 9 + 1 + 1 + 1 + self._method + 1 + _SESSION + 1 + _TOOK + 1 + _SIZE + 1
        self._summary = self.width - fixed

    def head(self) -> str:
        """Return the names of the columns."""
        names = (
            f"{'#':>{self._number}} {'seconds':>9}   {'method':{self._method}} {'':{_SESSION}} "
            f"{'':{self._summary}} {'took':>{_TOOK}} {'bytes':>{_SIZE}}"
        )
        return self.paint(names.rstrip(), DIM)

    def line(self, rows: Sequence[Row]) -> str:
        """Return one line for one row, or for a run of chunks."""
        row = rows[0]
        count = f" ×{len(rows)}" if len(rows) > 1 else ""
        summary = one_line(joined_summary(rows) if count else row.summary)
        size_bytes = sum(row.size_bytes for row in rows)
        took = duration(row.latency) if row.latency is not None and row.kind == "response" else ""
        columns = [
            self.paint(f"{row.number:>{self._number}}", DIM),
            self.paint(f"{row.t:9.3f}", DIM),
            self._arrow(row),
            self.paint(fit(clip(self._name(row), self._method - len(count)) + count, self._method), *self._style(row)),
            self.paint(fit(self._aliases.get(row.session or "", ""), _SESSION), BLUE),
            self.paint(fit(summary, self._summary), *self._summary_style(row)),
            f"{took:>{_TOOK}}",
            self.paint(f"{size(size_bytes) if size_bytes else '':>{_SIZE}}", DIM),
        ]
        return " ".join(columns).rstrip()

    def findings(self, rows: Sequence[Row]) -> Iterator[str]:
        """Yield a line for each broken rule of these rows; extras and notes are only in the list of findings."""
        counts = Counter(
            (finding.rule, finding.level, finding.message)
            for row in rows
            for finding in row.findings
            if is_loud(finding)
        )
        for (rule, level, message), times in counts.items():
            style = RED if level in ("MUST", "MUST NOT", "SCHEMA") else YELLOW
            text = f"rule {rule} {level}: {one_line(message)}" + (f" ×{times}" if times > 1 else "")
            indent = " " * (self._number + 11)
            yield indent + self.paint("!", style) + " " + self.paint(clip(text, self.width - len(indent) - 2), style)

    def late(self, finding: Finding) -> str:
        """Return a line for a broken rule of an earlier row, found only now."""
        text = f"rule {finding.rule} {finding.level}, message {finding.index}: {one_line(finding.message)}"
        return " " * (self._number + 11) + self.paint(f"! {text}", RED if finding.is_failure else YELLOW)

    def _arrow(self, row: Row) -> str:
        if row.dir is None:
            return " "
        return self.paint(ARROWS[row.dir], CYAN if row.dir == "c2a" else MAGENTA)

    def _name(self, row: Row) -> str:
        if row.kind in _KINDS:
            return _KINDS[row.kind]
        name = one_line(row.name) or "(no request)"
        return f"↳ {name}" if row.kind == "response" else name

    def _style(self, row: Row) -> tuple[str, ...]:
        if row.error_code is not None or row.kind == "malformed":
            return (RED,)
        if row.kind == "request":
            return (BOLD,)
        return (GREEN,) if row.kind == "response" else ()

    def _summary_style(self, row: Row) -> tuple[str, ...]:
        if row.error_code is not None or row.kind == "malformed":
            return (RED,)
        return (DIM,) if row.kind in ("stderr", "end", "exit", "blank") else ()


def is_loud(finding: Finding) -> bool:
    """Whether a finding is shown below its line."""
    return finding.is_failure or finding.is_warning


def opening(header: Header, timeline: RecordingTimeline, name: str) -> str:
    """Return the first line: name, command, start, number of entries, duration."""
    parts = [one_line(name)]
    if header.command:
        parts.append(one_line(" ".join(header.command)))
    if header.started:
        parts.append(one_line(header.started))
    rows = timeline.rows
    parts.append(f"{len(rows)} entries in {duration(rows[-1].t)}" if rows else "empty")
    if header.redacted:
        parts.append("redacted")
    return " · ".join(parts)


def closing(timeline: RecordingTimeline, shown: int) -> Iterator[str]:
    """Yield the last lines: number of rows, sessions, number of findings."""
    found = timeline.findings
    failures = sum(finding.is_failure for finding in found)
    warnings = sum(finding.is_warning for finding in found)
    quiet = len(found) - failures - warnings
    yield f"{shown} of {len(timeline.rows)} entries shown" if shown < len(timeline.rows) else f"{shown} entries"
    for session, alias in timeline.aliases.items():
        yield f"{alias:4} {one_line(session)}"
    if found:
        yield f"broken rules: {failures} MUST or SCHEMA, {warnings} lesser ones, {quiet} notes; --findings lists them"


def finding_lines(screen: Screen, findings: Iterable[Finding]) -> Iterator[str]:
    """Yield each broken rule once for each side: how often, where first, and its text."""
    groups: dict[tuple[int, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.level, finding.dir), []).append(finding)
    order = {"MUST": 0, "MUST NOT": 0, "SCHEMA": 0, "SHOULD": 1, "SHOULD NOT": 1, "lc": 2, "SDK": 2, "EXTRA": 3}
    for (rule, level, direction), found in sorted(
        groups.items(), key=lambda item: (order.get(item[0][1], 4), item[0][0])
    ):
        side = "client" if direction == "c2a" else "agent"
        style = RED if found[0].is_failure else YELLOW if found[0].is_warning else DIM
        yield screen.paint(f"rule {rule} {level}", style, BOLD) + f" · {side} · ×{len(found)}"
        yield f"    {clip(rule_of(rule).text, screen.width - 4)}"
        messages = Counter(finding.message for finding in found)
        first = {finding.message: finding.index for finding in reversed(found)}
        for message, times in messages.most_common(3):
            where = f"message {first[message]}" + (f" and {times - 1} more" if times > 1 else "")
            yield screen.paint(clip(f"    {where}: {one_line(message)}", screen.width), DIM)
        if len(messages) > 3:
            yield screen.paint(f"    … {len(messages) - 3} more", DIM)


def message_lines(screen: Screen, row: Row, entry: Entry) -> Iterator[str]:
    """Yield one entry in full: its row, its findings, its JSON with line breaks."""
    yield screen.line([row])
    pair = row.answer or row.request
    if pair is not None and row.latency is not None:
        what = "answered by" if row.answer is not None else "answers"
        yield f"{what} message {pair} ({duration(row.latency)})"
    for finding in row.findings:
        text = f"rule {finding.rule} {finding.level}: {one_line(finding.message)}"
        yield screen.paint(f"! {text}", RED if finding.is_failure else YELLOW if finding.is_warning else DIM)
        yield screen.paint(f"  {rule_of(finding.rule).text}", DIM)
    if isinstance(entry, Frame):
        yield from pretty(entry.data).splitlines()
    elif isinstance(entry, Stderr):
        yield from plain(entry.text).splitlines()


def pretty(data: bytes) -> str:
    """Return the JSON of a frame with line breaks; a line that is not JSON, made safe."""
    try:
        text = msgspec.json.format(msgspec.json.encode(msgspec.json.decode(data)), indent=2).decode()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return plain(data.decode(errors="replace"))
    return escape_json(text)


def state_lines(screen: Screen, name: str, alias: str, state: dict[str, Any]) -> Iterator[str]:
    """Yield a folded session, in lines."""
    yield screen.paint(f"{alias} {one_line(name)}", BOLD)
    facts = {
        "title": state["title"],
        "mode": state["mode"],
        "options": ", ".join(f"{key}={value}" for key, value in state["options"].items()),
        "commands": " ".join(f"/{command}" for command in state["commands"]),
        "usage": state["usage"] and f"{size(state['usage']['used'])} of {size(state['usage']['size'])} tokens",
        "cost": state["cost"] and f"{state['cost']['amount']:g} {state['cost']['currency']}",
        "turns": f"{state['turns']}" + (", one is running" if state["running"] else ""),
        "last stop": state["stop_reason"],
    }
    for label, value in facts.items():
        if value:
            yield clip(f"  {label:9} {one_line(str(value))}", screen.width)
    for item in state["timeline"]:
        yield from _item_lines(screen, item)


def _item_lines(screen: Screen, item: dict[str, Any]) -> Iterator[str]:
    match item["item"]:
        case "tool_call":
            style = {"completed": GREEN, "failed": RED, "cancelled": YELLOW}.get(item["status"], CYAN)
            status = screen.paint(fit(one_line(item["status"]), 12), style)
            yield f"  {status} {clip(one_line(item['title'] or item['id']), screen.width - 16)}"
        case "plan":
            for entry in item["entries"]:
                mark = {"completed": "x", "in_progress": ">"}.get(entry["status"], " ")
                yield clip(f"  [{mark}] {one_line(entry['content'])}", screen.width)
        case kind:
            label = screen.paint(fit(one_line(kind), 12), DIM)
            text = " ".join([one_line(item.get("text") or ""), *(f"[{block}]" for block in item.get("blocks", ()))])
            yield f"  {label} {clip(one_line(text).strip(), screen.width - 16)}"


def stats_lines(screen: Screen, stats: dict[str, Any], aliases: Mapping[str, str]) -> Iterator[str]:
    """Yield the figures as tables."""
    yield f"{duration(stats['seconds'])} in all"
    yield from _stats_table(screen, "method", [*stats["methods"].items(), ("in all", stats["total"])])
    if stats["sessions"]:
        yield ""
        rows = [(f"{aliases.get(name, '')} {name}", tally) for name, tally in stats["sessions"].items()]
        yield from _stats_table(screen, "session", rows)


def _stats_table(screen: Screen, what: str, rows: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    rows = list(rows)
    width = min(max((cells(one_line(name)) for name, _ in rows), default=6), max(20, screen.width - 62))
    names = ("→", "←", "→ bytes", "← bytes", "errors", "p50", "p90", "p99", "max")
    yield screen.paint(f"{what:{width}} " + " ".join(f"{name:>7}" for name in names), DIM)
    for name, tally in rows:
        spans = tally["latency"] or {}
        cells_ = [
            str(tally["messages"]["c2a"] or ""),
            str(tally["messages"]["a2c"] or ""),
            size(tally["bytes"]["c2a"]) if tally["bytes"]["c2a"] else "",
            size(tally["bytes"]["a2c"]) if tally["bytes"]["a2c"] else "",
            str(tally["errors"] or ""),
            *(duration(spans[key]) if key in spans else "" for key in ("p50", "p90", "p99", "max")),
        ]
        yield f"{fit(one_line(name), width)} {' '.join(f'{cell:>7}' for cell in cells_)}".rstrip()
