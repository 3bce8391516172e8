"""The comparison as one HTML page: the table, then answers and patches side by side. Pure.

Loaded for a page: a table is written without it.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from dragoman.cli.compare.table import HEADER, row_of
from dragoman.view.elements import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.cli.compare.runs import ComparedRun

_MOST_CHARS: Final = 400_000  # of one patch
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8886; --add: #1a7f3722; --remove: #cf222e22; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; }
table { border-collapse: collapse; margin: 1rem 0 2rem; }
th, td { padding: .3rem .8rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.runs { display: grid; grid-template-columns: repeat(auto-fit, minmax(28rem, 1fr)); gap: 1.5rem; }
section { border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; min-width: 0; }
h2 { margin: 0 0 .5rem; font-size: 1.1rem; }
pre { overflow: auto; white-space: pre; font: 13px/1.45 ui-monospace, monospace; max-height: 40rem; }
pre.answer { white-space: pre-wrap; }
.add { background: var(--add); display: block; } .remove { background: var(--remove); display: block; }
.head { font-weight: bold; display: block; } .other { display: block; }
.failed { color: #cf222e; }
"""


def page_of(prompt: str, project: str, runs: Sequence[ComparedRun]) -> str:
    """Return the whole page."""
    head = "".join(f"<th>{_safe(name)}</th>" for name in HEADER)
    rows = "".join(f"<tr>{''.join(_cell(text) for text in row_of(run))}</tr>" for run in runs)
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        "<meta name='viewport' content='width=device-width'><title>dragoman compare</title>"
        f"<style>{_STYLE}</style></head>"
        f"<body><h1>{len(runs)} agents, one prompt</h1><p>{_safe(project)}</p><pre class='answer'>{_safe(prompt)}</pre>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        f"<div class='runs'>{''.join(map(_section, runs))}</div></body></html>\n"
    )


def _section(run: ComparedRun) -> str:
    failed = f"<p class='failed'>{_safe(run.error)}</p>" if run.error else ""
    return (
        f"<section><h2>{_safe(run.name)}</h2>{failed}<pre class='answer'>{_safe(run.text) or '(no answer)'}</pre>"
        f"<pre>{_patch(run.patch)}</pre></section>"
    )


def _patch(patch: str) -> str:
    if not patch:
        return "(no changes)"
    cut = patch if len(patch) <= _MOST_CHARS else f"{patch[:_MOST_CHARS]}\n… {len(patch) - _MOST_CHARS} more characters"
    return "".join(f"<span class='{_kind(line)}'>{_safe(line) or ' '}</span>" for line in cut.rstrip("\n").split("\n"))


def _kind(line: str) -> str:
    if line.startswith(("diff --git ", "@@ ", "--- ", "+++ ")):
        return "head"
    return {"+": "add", "-": "remove"}.get(line[:1], "other")


def _cell(text: str) -> str:
    is_number = text[:1].isdigit()
    return f"<td class='number'>{_safe(text)}</td>" if is_number else f"<td>{_safe(text)}</td>"


def _safe(text: str) -> str:
    return escape(shown(text))
