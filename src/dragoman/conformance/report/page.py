"""A judgement as one HTML page that needs nothing else: no network, no other files.

Everything is in the page as it is sent; its few lines of script only hide and show. Texts of the judged program are
data and escaped as such.
"""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman._version import __version__
from dragoman.conformance.case import Status
from dragoman.conformance.conversation import EXCERPT_CHARACTERS
from dragoman.conformance.report.model import entry_document
from dragoman.text.terminal import shorten
from dragoman.trace.checks.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.conformance.report.model import ConformanceReport, ReportLine
    from dragoman.trace.entry import Entry

_WORDS: Final[dict[Status, str]] = {
    "fail": "failed",
    "error": "judge errors",
    "warn": "warnings",
    "note": "notes",
    "inconclusive": "inconclusive",
    "skipped": "skipped",
    "pass": "passed",
}
# A page with every frame of a flood cannot be opened; the JSON report has them all.
_FRAMES: Final = 60
_FRAME_CHARACTERS: Final = 20_000


def html_page(report: ConformanceReport) -> str:
    """Make the page as text."""
    head = escape(f"{report.subject.name}: ACP conformance")
    return _PAGE.format(
        title=head,
        style=_asset("page.css"),
        script=_asset("page.js"),
        body="\n".join(_body(report)),
    )


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
<script>
{script}</script>
</body>
</html>
"""


def _body(report: ConformanceReport) -> Iterator[str]:
    counts = report.counts
    verdict = "bad" if report.has_failed else "good"
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    yield "<header>"
    yield f"<h1>{escape(report.subject.name)}</h1>"
    yield f"<p class=command><code>{escape(' '.join(report.subject.command))}</code></p>"
    yield f'<p class="verdict {verdict}">{"Breaks the protocol" if report.has_failed else "No MUST is broken"}</p>'
    if report.subject.role == "trace":
        yield f"<p>{escape(report.summary)}</p>"
    if report.stopped:
        yield f"<p><b>Stopped:</b> {escape(report.stopped)}. {report.not_run} cases were not run.</p>"
    yield "<div class=tiles>"
    for status in counts:
        yield (
            f'<button type=button class="tile {status}" data-status={status} aria-pressed=true>'
            f"<b>{counts[status]}</b> {_WORDS[status]}</button>"
        )
    yield "</div>"
    yield '<input type=search id=search placeholder="Find a case, rule or text" aria-label="Find">'
    yield "</header>"
    yield "<main>"
    areas: dict[str, list[ReportLine]] = {}
    for line in report.lines():
        areas.setdefault(line.area, []).append(line)
    for area, lines in areas.items():
        yield f"<section><h2>{escape(area)}</h2>"
        for line in lines:
            yield from _line(line)
        yield "</section>"
    yield "</main>"
    yield f"<footer>dragoman {__version__} · {made} · {report.seconds:.1f} s · protocol version 1</footer>"


def _line(line: ReportLine) -> Iterator[str]:
    is_open = " open" if line.status in ("fail", "error") else ""
    yield f'<details class="case {line.status}" data-status={line.status}{is_open}>'
    yield (
        f"<summary><span class=pill>{line.status}</span> <code>{escape(line.id)}</code> "
        f"<span class=level>{line.level}</span> <span class=about>{escape(line.about)}</span></summary>"
    )
    yield "<div class=inside>"
    if line.message:
        yield f"<p class=seen>{escape(line.message)}</p>"
    yield "<ul class=rules>"
    for number in line.rules:
        rule = RULES[number]
        yield f"<li><b>{number}</b> <span class=level>{rule.level}</span> {escape(rule.text)}</li>"
    yield "</ul>"
    if line.status not in ("pass", "skipped"):
        yield from _frames(line.evidence, max(line.first, 1))
    yield "</div></details>"


def _frames(evidence: Sequence[Entry], first: int) -> Iterator[str]:
    if not evidence:
        return
    yield "<div class=frames>"
    if len(evidence) > _FRAMES:
        yield f"<p class=cut>{len(evidence) - _FRAMES} earlier lines are left out</p>"
    for number, entry in list(enumerate(evidence, first))[-_FRAMES:]:
        yield _frame(number, entry_document(entry))
    yield "</div>"


def _frame(number: int, document: dict[str, Any]) -> str:
    """Return one line of the exchange, which opens to the whole message."""
    kind = document.get("dir", "stderr" if "stderr" in document else "end")
    arrow = {"c2a": "→", "a2c": "←"}.get(kind, "·")
    title, text = _title(document)
    when = f"{number} · {document['t']:.3f} s {arrow}"
    head = f"<span class=time>{when}</span> {escape(shorten(title, EXCERPT_CHARACTERS))}"
    if not text:
        return f'<p class="frame {kind}">{head}</p>'
    shown = text if len(text) <= _FRAME_CHARACTERS else f"{text[:_FRAME_CHARACTERS]}\n… {len(text)} characters"
    return f'<details class="frame {kind}"><summary>{head}</summary><pre>{escape(shown)}</pre></details>'


def _title(document: dict[str, Any]) -> tuple[str, str]:
    """Return what a line of the exchange is, in a few words, and all of it if there is more."""
    if "msg" not in document:
        if "end" in document:
            return "end of this direction", ""
        return str(document.get("raw", document.get("stderr", f"ended: {document.get('exit')}"))), ""
    message = document["msg"]
    text = msgspec.json.format(msgspec.json.encode(message), indent=2).decode()
    if not isinstance(message, dict):
        return text, ""
    params = message.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    what = str(message.get("method", "error" if "error" in message else "result"))
    details = [
        f"#{message['id']}" if "id" in message else "",
        str(update.get("sessionUpdate")) if isinstance(update, dict) else "",
        _short(message["error"] if "error" in message else message.get("result", "")),
    ]
    return " ".join([what, *filter(None, details)]), text


def _short(value: object) -> str:
    return "" if value == "" else msgspec.json.encode(value).decode()
