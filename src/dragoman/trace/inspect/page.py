"""A recording as one page for a browser: timeline, conversations, filters, messages and findings, offline.

Owns the content of the page and its safety: the recording is compressed text that the script reads, never HTML, and
the policy in its head allows only the script and the style it carries. Conversations are elements of `dragoman.view`,
written as JSON; the script makes them of a list of known tags. How the rest looks is in `assets/`.
"""

from __future__ import annotations

import gzip
import shlex
from base64 import b64encode
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from dragoman._version import __version__
from dragoman.schema import v1
from dragoman.text.secrets import known_keys
from dragoman.text.terminal import duration
from dragoman.trace.checks.rules import rule_of
from dragoman.trace.entry import Frame, Stderr
from dragoman.trace.inspect.figures import figures
from dragoman.trace.inspect.folding import FoldedSessions
from dragoman.trace.inspect.timeline import read_timeline
from dragoman.view import blocks_of
from dragoman.view.blocks import ShownTerminal
from dragoman.view.build import tail
from dragoman.view.html import elements_of, page_style

if TYPE_CHECKING:
    from typing import TextIO

    from dragoman.trace.entry import Entry
    from dragoman.trace.inspect.exchange import DecodedFrame
    from dragoman.trace.inspect.timeline import RecordingTimeline, Row
    from dragoman.trace.reader import Trace

_ASSETS: Final = Path(__file__).parent / "assets"
_SCRIPTS: Final = ("data.js", "fold.js", "list.js", "conversation.js", "detail.js", "keys.js", "main.js")
_KINDS: Final = ("request", "notification", "response", "malformed", "blank", "stderr", "end", "exit")
_DIRECTIONS: Final = {None: 0, "c2a": 1, "a2c": 2}
# Level 3 packs a recording of 25 MB in a tenth of a second; 9 takes six times as long for a fifth less.
_PACKED: Final = 3


def write_page(file: TextIO, trace: Trace, name: str) -> None:
    """Write the page for a recording; `name` is its title."""
    places: dict[int, tuple[str, int]] = {}
    sessions, terminals = FoldedSessions(), SeenTerminals()
    since: dict[str, int] = {}  # the frame from which on places are those of the last state: a load begins it again

    def watch(frame: DecodedFrame) -> None:
        touched = sessions.feed(frame)
        terminals.feed(frame)
        if touched is not None:
            places[frame.number] = touched
            if frame.method == "session/load" and frame.part == "params":
                since[touched[0]] = frame.number

    timeline = read_timeline(trace.entries, header=trace.header, watch=watch)
    table = _index(timeline, places, name)
    index = msgspec.json.encode(table)
    talks = [_conversation(sessions, terminals, since, session) for session in table["sessions"]]
    frames = b"\n".join(_line(row, entry) for row, entry in zip(timeline.rows, trace.entries, strict=True))
    style = page_style((_ASSETS / "page.css").read_text("utf-8"))
    script = "(() => {\n" + "".join((_ASSETS / part).read_text("utf-8") for part in _SCRIPTS) + "})();\n"
    allowed = f"style-src {_hash(style)}; script-src {_hash(script)}"
    fields = {
        "csp": f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'",
        "generator": f"dragoman {__version__}",
        "title": escape(known_keys.mask(name)),
        "style": style,
        "index": _pack(index),
        "frames": _pack(frames),
        "conversations": _pack(msgspec.json.encode(talks)),
        "script": script,
    }
    # Split once and joined: the values are never searched for fields again.
    for number, part in enumerate((_ASSETS / "page.html").read_text("utf-8").replace("}}", "{{").split("{{")):
        file.write(fields[part] if number % 2 else part)


def _conversation(
    sessions: FoldedSessions, terminals: SeenTerminals, since: dict[str, int], session: str
) -> dict[str, Any]:
    """Return a session as it is shown at the end of the recording."""
    state = sessions.states.get(session)
    blocks = [] if state is None else blocks_of(state, terminals.by_session.get(session))
    return {"since": since.get(session, 0), "elements": elements_of(blocks)}


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _pack(data: bytes) -> str:
    return b64encode(gzip.compress(known_keys.mask_bytes(data), _PACKED, mtime=0)).decode()


def _line(row: Row, entry: Entry) -> bytes:
    """Return a frame as it is, if it is JSON; everything else as a JSON string, so that it is one line."""
    if isinstance(entry, Stderr):
        return msgspec.json.encode(_clean(entry.text))
    if not isinstance(entry, Frame):
        return b""
    if row.kind not in ("malformed", "blank"):
        return entry.data.replace(b"\r", b" ")  # between tokens, where a line may hold it
    return msgspec.json.encode(_clean(entry.data.decode(errors="replace")))


def _clean(text: str) -> str:
    return text.encode(errors="replace").decode()


def _index(timeline: RecordingTimeline, places: dict[int, tuple[str, int]], name: str) -> dict[str, Any]:
    rows, header = timeline.rows, timeline.header
    sessions = {session: number for number, session in enumerate(timeline.aliases)}
    for session, _ in places.values():
        sessions.setdefault(session, len(sessions))
    names = list(dict.fromkeys(row.name for row in rows))
    name_of = {name: number for number, name in enumerate(names)}
    pairs = [row.answer or row.request or 0 for row in rows]
    touched = [places.get(row.number, ("", -1)) for row in rows]
    return {
        "title": name,
        "header": {"command": header.command, "started": header.started, "redacted": header.redacted},
        "facts": _facts(timeline),
        "sessions": list(sessions),
        "t": [round(row.t, 6) for row in rows],
        "kind": [_KINDS.index(row.kind) for row in rows],
        "dir": [_DIRECTIONS[row.dir] for row in rows],
        "names": names,
        "name": [name_of[row.name] for row in rows],
        "id": [row.id for row in rows],
        "session": [sessions[row.session] if row.session is not None else -1 for row in rows],
        "size": [row.size_bytes for row in rows],
        "latency": [None if row.latency is None else round(row.latency, 6) for row in rows],
        "pair": [pair - 1 for pair in pairs],
        "error": [row.error_code for row in rows],
        "run": [row.run for row in rows],
        "summary": [_clean(row.summary) for row in rows],
        "about": [sessions.get(session, -1) for session, _ in touched],
        "place": [place for _, place in touched],
        **_judgement(timeline),
    }


def _facts(timeline: RecordingTimeline) -> list[str]:
    """Return the two programs and the numbers of messages and sessions, for the head of the page."""
    rows = timeline.rows
    hello = [row for row in rows if row.method == "initialize" and row.kind in ("request", "response")][:2]
    who = [row.summary.partition(" · ")[0] for row in reversed(hello) if row.error_code is None]
    span = duration(rows[-1].t) if rows else "0s"
    return [" and ".join(who), f"{len(rows):,} messages", f"{len(timeline.aliases)} sessions", span]


def _judgement(timeline: RecordingTimeline) -> dict[str, Any]:
    found = timeline.findings
    bad = sum(finding.is_failure for finding in found)
    warn = sum(finding.is_warning for finding in found)
    return {
        "findings": [
            [finding.index - 1, finding.rule, finding.level, _DIRECTIONS[finding.dir], _clean(finding.message)]
            for finding in found
        ],
        "counts": {"bad": bad, "warn": warn, "note": len(found) - bad - warn},
        "rules": {str(finding.rule): rule_of(finding.rule)[1:] for finding in found},
        "stats": figures(timeline.rows),
    }


class SeenTerminals:
    """Terminal id -> what is known about it, for each session."""

    def __init__(self) -> None:
        self.by_session: dict[str, dict[str, ShownTerminal]] = {}

    def feed(self, frame: DecodedFrame) -> None:
        """Take one frame; others than responses to `terminal/*` change nothing."""
        asked = None if frame.request is None else frame.request.value
        if frame.part != "result" or asked is None or frame.session_id is None:
            return
        known = self.by_session.setdefault(frame.session_id, {})
        value = frame.value
        if isinstance(value, v1.CreateTerminalResponse) and isinstance(asked, v1.CreateTerminalRequest):
            words = list(asked.args) if isinstance(asked.args, (list, tuple)) else []
            command = shlex.join([asked.command, *words]) if words else asked.command
            known[value.terminal_id] = ShownTerminal(value.terminal_id, command)
        elif isinstance(value, v1.TerminalOutputResponse) and isinstance(asked, v1.TerminalOutputRequest):
            output, is_cut = tail(value.output)
            before = known.get(asked.terminal_id, ShownTerminal(asked.terminal_id))
            seen = replace(before, output=output, is_cut=is_cut or value.truncated)
            known[asked.terminal_id] = _ended(seen, value.exit_status or None)
        elif isinstance(value, v1.WaitForTerminalExitResponse) and isinstance(asked, v1.WaitForTerminalExitRequest):
            before = known.get(asked.terminal_id, ShownTerminal(asked.terminal_id))
            known[asked.terminal_id] = _ended(before, value)


def _ended(
    terminal: ShownTerminal, status: v1.TerminalExitStatus | v1.WaitForTerminalExitResponse | None
) -> ShownTerminal:
    if status is None:
        return terminal
    code, signal = status.exit_code, status.signal
    return replace(
        terminal,
        exit_code=code if isinstance(code, int) else terminal.exit_code,
        signal=signal if isinstance(signal, str) else terminal.signal,
    )
